/** Tests of backups, and of stores that are restored from them. */
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { batch, create, TENANT } from "../../store.testing.ts";
import { sqliteStore } from "../sqlite-store.ts";
import { backupSqliteFile } from "./backup-file.ts";
import { restoreSqliteFile } from "./restore-file.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-backup-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;
const nextFile = () => join(folder, `${++files}`, "redrive.db");

async function fill(file: string, commits: number) {
  const store = sqliteStore(file);
  for (let n = 0; n < commits; n++) await store.commit(batch({ creates: [create()] }));
  return store;
}

async function countTasks(file: string): Promise<number> {
  const store = sqliteStore(file);
  const { tasks } = await store.query.list(TENANT, {}, { limit: 100 });
  await store.close();
  return tasks.length;
}

describe("a backup", () => {
  it("of a store in use has everything that was committed, and only its owner can read it", async () => {
    const file = nextFile();
    const store = await fill(file, 5);
    const copy = `${file}.backup`;
    const backup = await backupSqliteFile(file, copy);
    await store.commit(batch({ creates: [create()] }));
    expect(backup).toMatchObject({ file: copy, tasks: 5, bytes: statSync(copy).size });
    expect(statSync(copy).mode & 0o777).toBe(0o600);
    expect(existsSync(`${copy}.part`)).toBe(false);
    await store.close();
    expect(await countTasks(file)).toBe(6);
  });

  it("replaces no file, and needs a store", async () => {
    const file = nextFile();
    await (await fill(file, 1)).close();
    const copy = `${file}.backup`;
    writeFileSync(copy, "mine");
    await expect(backupSqliteFile(file, copy)).rejects.toThrow(/must be a new file/u);
    expect(readFileSync(copy, "utf8")).toBe("mine");
    await expect(backupSqliteFile(`${file}.no`, `${copy}2`)).rejects.toThrow(
      /the store must exist/u,
    );
    await expect(backupSqliteFile(copy, `${copy}2`)).rejects.toThrow(/not a database/u);
    expect(existsSync(`${copy}2`)).toBe(false);
  });

  it("is not made of a store that lacks commits", async () => {
    const file = nextFile();
    await (await fill(file, 1)).close();
    copyFileSync(file, `${file}.old`);
    await (await fill(file, 3)).close();
    copyFileSync(`${file}.old`, file);
    await expect(backupSqliteFile(file, `${file}.backup`)).rejects.toThrow(/commits are missing/u);
  });

  it("must be restored: it does not open as a store", async () => {
    const file = nextFile();
    const store = await fill(file, 2);
    await backupSqliteFile(file, `${file}.backup`);
    await store.close();
    expect(() => sqliteStore(`${file}.backup`)).toThrow(/redrive restore/u);
  });
});

describe("a restored store", () => {
  it("has the tasks of the backup", async () => {
    const file = nextFile();
    const store = await fill(file, 3);
    await backupSqliteFile(file, `${file}.backup`);
    await store.close();
    const target = nextFile();
    const restored = restoreSqliteFile(`${file}.backup`, target);
    expect(restored).toMatchObject({ file: target, kept: null, backup: { tasks: 3 } });
    expect(await countTasks(target)).toBe(3);
  });

  it("replaces another one only if told to, and keeps its files", async () => {
    const file = nextFile();
    const store = await fill(file, 3);
    await backupSqliteFile(file, `${file}.backup`);
    const used = () => restoreSqliteFile(`${file}.backup`, file, { force: true });
    expect(used).toThrow(/is in use by another process/u);
    await store.commit(batch({ creates: [create()] }));
    await store.close();
    expect(() => restoreSqliteFile(`${file}.backup`, file)).toThrow(/--force/u);
    const { kept } = restoreSqliteFile(`${file}.backup`, file, { force: true });
    expect(kept).toBe(`${file}.old-1`);
    expect(await countTasks(file)).toBe(3);
    expect(await countTasks(`${file}.old-1`)).toBe(4);
    expect(restoreSqliteFile(`${file}.backup`, file, { force: true }).kept).toBe(`${file}.old-2`);
  });

  it("needs a backup that is intact and not newer than this version", async () => {
    const file = nextFile();
    const store = await fill(file, 30);
    const copy = `${file}.backup`;
    await backupSqliteFile(file, copy);
    await store.close();
    writeFileSync(copy, readFileSync(copy).fill(0xff, 8192, 40_960));
    const target = nextFile();
    expect(() => restoreSqliteFile(copy, target)).toThrow(/damaged|malformed|failed/u);
    expect(existsSync(target)).toBe(false);
    expect(() => restoreSqliteFile(`${copy}.no`, target)).toThrow(/must exist/u);
  });
});
