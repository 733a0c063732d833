/** Runs the conformance suite on the SQLite store, and tests what its file must survive. */
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, describe, expect, it } from "vitest";
import { storeConformance } from "../conformance.testing.ts";
import { batch, claimFirst, create, dueLanes, TENANT } from "../store.testing.ts";
import { SCHEMA_VERSION } from "./file/schema.ts";
import { sqliteStore } from "./sqlite-store.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-sqlite-"));
let files = 0;
const nextFile = () => join(folder, `${++files}`, "redrive.db");
afterAll(() => rmSync(folder, { recursive: true, force: true }));

// In memory, where the system has such a folder: the suite syncs thousands of times, and none of its
// tests cuts the power.
const quickFolder = mkdtempSync(
  join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "redrive-sqlite-"),
);
afterAll(() => rmSync(quickFolder, { recursive: true, force: true }));

storeConformance("SQLite", async () => {
  const place = join(quickFolder, `${++files}`);
  const store = sqliteStore(join(place, "redrive.db"));
  const close = async () => {
    await store.close();
    rmSync(place, { recursive: true, force: true });
  };
  return { ...store, close };
});

describe("a SQLite file", () => {
  it("keeps what was committed", async () => {
    const file = nextFile();
    const { task } = create();
    const store = sqliteStore(file);
    await store.commit(batch({ creates: [{ task, fingerprint: null, claimVersion: null }] }));
    await store.close();
    const again = sqliteStore(file);
    expect(await again.query.get(TENANT, task.taskId)).toMatchObject(task);
    expect(await dueLanes(again)).toHaveLength(1);
    expect(await claimFirst(again)).toHaveLength(1);
    await again.close();
    await again.close();
  });

  it("is readable by its owner only", async () => {
    const file = nextFile();
    const store = sqliteStore(file);
    await store.commit(batch({ creates: [create()] }));
    const modes = [file, `${file}-wal`, `${file}.lock`].map((path) => statSync(path).mode & 0o777);
    expect(modes).toEqual([0o600, 0o600, 0o600]);
    expect(statSync(join(file, "..")).mode & 0o777).toBe(0o700);
    await store.close();
  });

  it("serves one store at a time", async () => {
    const file = nextFile();
    const store = sqliteStore(file);
    expect(() => sqliteStore(file)).toThrow(/in use by another process \(one process per file/);
    await store.close();
    await sqliteStore(file).close();
  });

  it("is rejected if it was written by a newer version", async () => {
    const file = nextFile();
    await sqliteStore(file).close();
    const database = new DatabaseSync(file);
    database.exec(`PRAGMA user_version = ${SCHEMA_VERSION + 1}`);
    database.close();
    expect(() => sqliteStore(file)).toThrow(/written by a newer Redrive .*upgrade/);
  });

  it("is rejected if it belongs to another program", () => {
    const file = join(folder, "foreign.db");
    const database = new DatabaseSync(file);
    database.exec("CREATE TABLE t (x)");
    database.close();
    expect(() => sqliteStore(file)).toThrow(/database of another program/);
  });

  it("is rejected if it is damaged", async () => {
    const file = nextFile();
    const store = sqliteStore(file);
    for (let n = 0; n < 20; n++) {
      await store.commit(batch({ creates: Array.from({ length: 50 }, () => create()) }));
    }
    await store.close();
    const { size } = statSync(file);
    const page = 4096;
    const handle = openSync(file, "r+");
    for (let at = page; at + page <= size; at += page) {
      writeSync(handle, new Uint8Array(64).fill(0xaa), 0, 64, at + 8);
    }
    closeSync(handle);
    expect(() => sqliteStore(file)).toThrow(/damaged|malformed|restart the process/);
  });

  // Nothing can be created in /proc, and creating folders there recursively never returns.
  it.each(["/proc/redrive/redrive.db", "/dev/null/redrive.db", folder])(
    "is refused by name if it cannot be made: %s",
    (file) => {
      expect(() => sqliteStore(file)).toThrow(
        expect.objectContaining({
          code: "INVALID_ARGUMENT",
          message: expect.stringContaining(`got "${file}"`),
        }),
      );
    },
  );

  it("is rejected if it is not a database", () => {
    const file = join(folder, "text.db");
    writeFileSync(file, "this is not a database, but it is long enough to look at".repeat(50));
    expect(() => sqliteStore(file)).toThrow(/not a database/);
  });
});
