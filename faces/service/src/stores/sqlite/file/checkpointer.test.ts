/**
 * Tests that a thread checkpoints the log, that the log restarts, and that a failure is reported.
 */
import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, describe, expect, it } from "vitest";
import type { Store } from "../../../model/store.ts";
import { StoreBrokenError } from "../../../model/store-errors.ts";
import { batch, create, TENANT } from "../../store.testing.ts";
import { sqliteStore } from "../sqlite-store.ts";
import { CHECKPOINT_PAGES, RESERVED_BYTES } from "./checkpointer.ts";
import { createSql } from "./sql.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-checkpoint-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const PAGE_BYTES = 4096;

/** A task of eight pages. */
function large() {
  const { task, ...rest } = create();
  return { ...rest, task: { ...task, body: new Uint8Array(8 * PAGE_BYTES) } };
}

/** Writes as many pages as trigger a checkpoint. */
async function fillLog(store: Store): Promise<void> {
  for (let written = 0; written < 2 * CHECKPOINT_PAGES; written += 50 * 8) {
    await store.commit(batch({ creates: Array.from({ length: 50 }, () => large()) }));
    await setImmediate();
  }
}

/** How often the log has restarted: a counter in its header (https://sqlite.org/walformat.html). */
function restarts(file: string): number {
  return readFileSync(`${file}-wal`).readUInt32BE(12);
}

/** Fills the log until it restarts. Fails if it does not. */
async function fillUntilRestart(file: string, store: Store): Promise<void> {
  const before = restarts(file);
  for (let fills = 0; restarts(file) === before; fills++) {
    expect(fills).toBeLessThan(20);
    await fillLog(store);
  }
}

describe("the log of a SQLite file", () => {
  it("is checkpointed by a thread, and restarts again and again", async () => {
    const file = join(folder, "redrive.db");
    const store = sqliteStore(file);
    for (let round = 0; round < 5; round++) await fillUntilRestart(file, store);
    expect(statSync(file).size).toBeGreaterThan(5 * CHECKPOINT_PAGES * PAGE_BYTES);
    await store.close();
    await store.close();
  });

  it("restarts after a reader that used it has ended, and no commit waits for the reader", async () => {
    const file = join(folder, "read.db");
    const store = sqliteStore(file);
    await store.commit(batch({ creates: [create()] }));
    const reader = new DatabaseSync(file, { readOnly: true });
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM tasks").get();
    const before = restarts(file);
    for (let round = 0; round < 4; round++) await fillLog(store);
    expect(restarts(file)).toBe(before);
    reader.exec("COMMIT");
    reader.close();
    await fillUntilRestart(file, store);
    await store.close();
  });

  it("has its space from the start, and damages nothing if it is opened again after a crash", async () => {
    const file = join(folder, "reserved.db");
    const store = sqliteStore(file, { lowLatency: true });
    expect(statSync(`${file}-wal`).size).toBe(RESERVED_BYTES);
    const { task } = create();
    await store.commit(batch({ creates: [{ task, fingerprint: null, claimVersion: null }] }));
    expect(statSync(`${file}-wal`).size).toBe(RESERVED_BYTES);
    const copy = join(folder, "crashed.db");
    for (const end of ["", "-wal", ".ledger"]) copyFileSync(`${file}${end}`, `${copy}${end}`);
    await store.close();
    const again = sqliteStore(copy, { lowLatency: true });
    expect(await again.query.get(TENANT, task.taskId)).toMatchObject(task);
    await again.close();
  });

  it("breaks the store if a checkpoint fails, except for a full disk", () => {
    const database = new DatabaseSync(":memory:");
    const sql = createSql(database, "a file");
    const read = () => sql.read(() => 1);
    const FULL = 13;
    const FSYNC_FAILED = 1034;
    sql.fail(Object.assign(new Error("full"), { errcode: FULL }));
    expect(read()).toBe(1);
    sql.fail(Object.assign(new Error("disk I/O error"), { errcode: FSYNC_FAILED }));
    expect(read).toThrow(StoreBrokenError);
    database.close();
  });
});
