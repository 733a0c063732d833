/**
 * Tests that a file which lacks something acknowledged is refused, and that no other file is. A crash
 * is a copy of the files of a store in use, made by another process: closing a descriptor of the
 * database in this one would end its locks.
 */
import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sqliteStore } from "../../faces/service/src/stores/sqlite/sqlite-store.ts";
import { batch, create, T0, TENANT } from "../../faces/service/src/stores/store.testing.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-damaged-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const COMMITS = 12;
const WAL_HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const FRAME_BYTES = FRAME_HEADER_BYTES + 4096;

let copies = 0;
/** A copy of the files of a store in a folder of their own. */
function copyOf(file: string): string {
  const to = join(folder, `${++copies}`);
  mkdirSync(to);
  execFileSync("sh", ["-c", 'cp "$0" "$0".ledger "$1"; cp "$0"-wal "$1" || true', file, to], {
    stdio: "ignore",
  });
  return join(to, basename(file));
}

/** What a crash after these commits leaves. */
async function crash(name: string, commits: number): Promise<string> {
  const file = join(folder, name, "redrive.db");
  const store = sqliteStore(file);
  for (let n = 0; n < commits; n++) {
    await store.commit(batch({ creates: [create(), create()] }));
  }
  const copy = copyOf(file);
  await store.close();
  return copy;
}

async function countTasks(file: string): Promise<number> {
  const store = sqliteStore(file);
  const { tasks } = await store.query.list(TENANT, {}, { limit: 100 });
  await store.close();
  return tasks.length;
}

/** SQLite creates an empty log if there is none. */
const bytesOf = (file: string) =>
  readdirSync(join(file, ".."))
    .filter((name) => !/-shm$|\.lock/u.test(name))
    .map((name) => [name, readFileSync(join(file, "..", name)).toString("latin1")])
    .filter(([name, bytes]) => !(name?.endsWith("-wal") && bytes === ""));

function refusal(file: string): string {
  const before = bytesOf(file);
  let message = "";
  try {
    void sqliteStore(file).close();
  } catch (error) {
    expect(error).toMatchObject({ code: "STORE_DAMAGED" });
    message = (error as Error).message;
  }
  if (message !== "") expect(bytesOf(file)).toEqual(before);
  return message;
}

let crashed: string;
beforeAll(async () => {
  crashed = await crash("crashed", COMMITS);
});

/** For each frame up to the last commit, and the next two, whether it ends a commit. */
function commitFrames(file: string): readonly boolean[] {
  const log = readFileSync(`${file}-wal`);
  const frames = Math.floor((log.length - WAL_HEADER_BYTES) / FRAME_BYTES);
  const ends = Array.from({ length: frames }, (_, index) => {
    return log.readUInt32BE(WAL_HEADER_BYTES + index * FRAME_BYTES + 4) !== 0;
  });
  // Space that is reserved for the log follows.
  return ends.slice(0, ends.lastIndexOf(true) + 3);
}

describe("the log of a crashed store", () => {
  it("is complete: nothing is refused and nothing is lost", async () => {
    expect(await countTasks(copyOf(crashed))).toBe(2 * COMMITS);
  });

  it("is refused if it is cut, at every frame, exactly if that loses a commit", () => {
    const ends = commitFrames(crashed);
    const last = ends.lastIndexOf(true);
    expect(ends.filter(Boolean).length).toBeGreaterThanOrEqual(COMMITS);
    for (let kept = 0; kept <= ends.length; kept++) {
      const file = copyOf(crashed);
      truncateSync(`${file}-wal`, WAL_HEADER_BYTES + kept * FRAME_BYTES);
      const lost = ends.slice(kept).filter(Boolean).length;
      const message = refusal(file);
      expect([kept, message.includes(`${lost} of `)]).toEqual([kept, kept <= last]);
    }
  });

  it("is refused if a byte of any commit changed", () => {
    const ends = commitFrames(crashed);
    ends.slice(0, ends.lastIndexOf(true) + 1).forEach((_, index) => {
      const file = copyOf(crashed);
      const log = readFileSync(`${file}-wal`);
      const at = WAL_HEADER_BYTES + index * FRAME_BYTES + FRAME_HEADER_BYTES + 100;
      log.writeUInt8((log[at] ?? 0) ^ 1, at);
      writeFileSync(`${file}-wal`, log);
      expect(refusal(file)).toContain("commits are missing");
    });
  });

  it("may lack a sweep, which is not synced: a power cut can undo it", async () => {
    const file = join(folder, "swept", "redrive.db");
    const store = sqliteStore(file);
    await store.commit(batch({ creates: [create()] }));
    const before = copyOf(file);
    const { tasks } = await store.query.list(TENANT, {}, { limit: 1 });
    const cancel = { tenantId: TENANT, taskId: tasks[0]?.taskId ?? "" };
    await store.commit(batch({ cancels: [cancel] }));
    const ledger = readFileSync(`${file}.ledger`, "latin1");
    expect(ledger).not.toBe(readFileSync(`${before}.ledger`, "latin1"));
    const removed = await store.sweep({
      now: T0 + 2,
      endedBefore: T0 + 1,
      deadBefore: T0 + 1,
      limit: 10,
    });
    expect(removed).toBe(1);
    expect(readFileSync(`${file}.ledger`, "latin1")).toBe(ledger);
    await store.close();
  });

  it("is refused if it is gone or empty", () => {
    const gone = copyOf(crashed);
    rmSync(`${gone}-wal`);
    expect(refusal(gone)).toMatch(/\d+ of \d+ commits are missing/u);
    const empty = copyOf(crashed);
    truncateSync(`${empty}-wal`);
    expect(refusal(empty)).toMatch(/\d+ of \d+ commits are missing/u);
  });
});

describe("a database", () => {
  it("is refused if it was emptied or removed while its ledger is there", () => {
    const emptied = copyOf(crashed);
    truncateSync(emptied);
    expect(refusal(emptied)).toContain("it is empty or missing, but had");
    const removed = copyOf(crashed);
    rmSync(removed);
    expect(refusal(removed)).toContain("it is empty or missing, but had");
    expect(existsSync(removed)).toBe(false);
  });

  it("is new if it was removed together with its ledger", async () => {
    const file = copyOf(crashed);
    for (const path of [file, `${file}-wal`, `${file}.ledger`]) rmSync(path);
    expect(await countTasks(file)).toBe(0);
  });

  it("is refused if another one or an older copy is in its place", async () => {
    const file = join(folder, "replaced", "redrive.db");
    const store = sqliteStore(file);
    await store.commit(batch({ creates: [create()] }));
    await store.close();
    copyFileSync(file, `${file}.old`);
    expect(await countTasks(file)).toBe(1);
    const another = join(folder, "another", "redrive.db");
    await sqliteStore(another).close();
    copyFileSync(another, file);
    expect(refusal(file)).toContain("it is not the database that its ledger describes");
    copyFileSync(`${file}.old`, file);
    expect(refusal(file)).toMatch(/\d of \d commits are missing/u);
  });

  it("is refused without its ledger, unless it was closed", async () => {
    const open = copyOf(crashed);
    rmSync(`${open}.ledger`);
    expect(refusal(open)).toContain("its ledger is missing, and it was not closed");
    const closed = copyOf(crashed);
    await countTasks(closed);
    rmSync(`${closed}.ledger`);
    expect(await countTasks(closed)).toBe(2 * COMMITS);
    expect(existsSync(`${closed}.ledger`)).toBe(true);
  });

  it("is refused if its ledger cannot be read", () => {
    const file = copyOf(crashed);
    writeFileSync(`${file}.ledger`, "redrive ledger 1 file");
    expect(refusal(file)).toContain(".ledger is damaged");
  });

  it("opens if its ledger is behind, as after a power cut", async () => {
    const file = copyOf(crashed);
    const text = readFileSync(`${file}.ledger`, "latin1");
    writeFileSync(`${file}.ledger`, text.replace(/commit \d+/u, `commit ${"1".padStart(16, "0")}`));
    expect(await countTasks(file)).toBe(2 * COMMITS);
    truncateSync(file);
    expect(refusal(file)).toMatch(/had [1-9]\d+ commits/u);
  });
});
