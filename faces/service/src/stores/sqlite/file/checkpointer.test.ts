/**
 * Tests that a thread checkpoints the log, that the log restarts, and that a failure is reported.
 */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, describe, expect, it } from "vitest";
import { StoreBrokenError } from "../../../model/store-errors.ts";
import { batch, create } from "../../store.testing.ts";
import { sqliteStore } from "../sqlite-store.ts";
import { CHECKPOINT_PAGES } from "./checkpointer.ts";
import { createSql } from "./sql.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-checkpoint-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const PAGE_BYTES = 4096;

/** A task of eight pages. */
function large() {
  const { task, ...rest } = create();
  return { ...rest, task: { ...task, body: new Uint8Array(8 * PAGE_BYTES) } };
}

describe("the log of a SQLite file", () => {
  it("is checkpointed by a thread, and restarts each time", async () => {
    const file = join(folder, "redrive.db");
    const store = sqliteStore(file);
    const moved = () => statSync(file).size;
    const rounds = 8;
    for (let round = 0; round < rounds; round++) {
      const before = moved();
      for (let written = 0; written < CHECKPOINT_PAGES; written += 100 * 8) {
        await store.commit(batch({ creates: Array.from({ length: 100 }, () => large()) }));
        await setImmediate();
      }
      while (moved() === before) await setImmediate();
    }
    const logPages = statSync(`${file}-wal`).size / PAGE_BYTES;
    expect(logPages).toBeGreaterThan(CHECKPOINT_PAGES / 2);
    expect(logPages).toBeLessThan((rounds / 2) * CHECKPOINT_PAGES);
    await store.close();
    await store.close();
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
