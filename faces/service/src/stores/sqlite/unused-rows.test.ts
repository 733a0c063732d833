/**
 * Tests that a SQLite file and its cache stay small and consistent: counts equal a recount after any
 * operations, a rollback undoes only what the transaction touched, and no call reads every row.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { seededRandom } from "@redrive/core";
import { afterAll, describe, expect, it } from "vitest";
import type { StartedTask } from "../../model/batch.ts";
import { blankDestination } from "../../model/destination-row.ts";
import type { Store } from "../../model/store.ts";
import { batch, claimOf, create, settle, T0, TENANT } from "../store.testing.ts";
import { DestinationTable } from "./destination-table.ts";
import { createSql } from "./file/sql.ts";
import { sqliteStore } from "./sqlite-store.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-unused-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;
const newFile = () => join(folder, `${++files}.db`);

/** Reads the file on a connection of its own. */
function readAll(file: string, text: string): readonly unknown[] {
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    return database.prepare(text).all();
  } finally {
    database.close();
  }
}

/** Random operations on a few destinations, including the removal of tasks and unused rows. */
class Operations {
  readonly #random;
  readonly #store: Store;
  readonly #claims: StartedTask[] = [];
  readonly #deadLetters: string[] = [];
  #cursor: string | undefined;
  #now = T0;

  constructor(store: Store, seed: number) {
    this.#store = store;
    this.#random = seededRandom(seed);
  }

  #draw(max: number): number {
    return Math.floor(this.#random.next() * max);
  }

  async step(): Promise<void> {
    this.#now += this.#draw(3);
    const destination = `d${this.#draw(6)}`;
    const now = this.#now;
    const commit = (parts: Parameters<typeof batch>[0]) =>
      this.#store.commit(batch({ now, ...parts }));
    switch (this.#draw(7)) {
      case 0:
      case 1: {
        const claimVersion = this.#draw(2) === 0 ? 0 : null;
        const item = create({ destination, scheduledAt: now, createdAt: now }, { claimVersion });
        const { creates } = await commit({ creates: [item] });
        for (const result of creates) {
          if (result.kind === "created" && result.started) this.#claims.push(result.started);
        }
        return;
      }
      case 2: {
        const lane = this.#draw(2) === 0 ? "first" : "retry";
        const { claims } = await commit({ claims: [claimOf(lane, { destination, limit: 2 })] });
        this.#claims.push(...(claims[0]?.tasks ?? []));
        return;
      }
      case 3: {
        const settles = this.#claims.splice(0, 2).map((claim) => {
          const isEnd = this.#draw(4) > 0;
          const end = this.#draw(2) === 0 ? "SUCCEEDED" : "EXHAUSTED";
          if (isEnd && end === "EXHAUSTED") this.#deadLetters.push(claim.taskId);
          return settle(claim, { status: isEnd ? end : "PENDING", nextAttemptAt: now });
        });
        await commit({ settles });
        return;
      }
      case 4:
        await this.#store.sweep({ now, endedBefore: now, deadBefore: now, limit: 3 });
        return;
      case 5:
        await this.#store.discard(TENANT, this.#deadLetters.splice(0, 2));
        return;
      default: {
        const query = { now, limit: 2, cursor: this.#cursor };
        this.#cursor = (await this.#store.removeUnused(query)).cursor ?? undefined;
      }
    }
  }
}

const COUNTED = `SELECT destination_id, status, count FROM counts WHERE count <> 0
  ORDER BY destination_id, status`;
const RECOUNTED = `SELECT destination_id, status, count(*) AS count FROM tasks
  GROUP BY destination_id, status ORDER BY destination_id, status`;
const ORPHANS = `SELECT ref FROM tasks
  WHERE destination_id NOT IN (SELECT destination_id FROM destinations)
  UNION ALL SELECT ref FROM payloads WHERE ref NOT IN (SELECT ref FROM tasks)
  UNION ALL SELECT ref FROM attempts WHERE ref NOT IN (SELECT ref FROM tasks)`;

describe("a SQLite file", () => {
  it("has counts that equal a recount, and no task, body or attempt that belongs to nothing", async () => {
    for (let seed = 0; seed < 5; seed++) {
      const file = newFile();
      const store = sqliteStore(file);
      const operations = new Operations(store, seed);
      for (let step = 0; step < 120; step++) await operations.step();
      expect(readAll(file, COUNTED)).toEqual(readAll(file, RECOUNTED));
      expect(readAll(file, ORPHANS)).toEqual([]);
      await store.close();
    }
  });

  it("keeps no row of 2000 destinations whose tasks are gone", async () => {
    const file = newFile();
    const store = sqliteStore(file);
    const names = Array.from({ length: 2000 }, (_, n) => `d${n}`);
    const creates = names.map((destination) => create({ destination }));
    await store.commit(batch({ creates }));
    await store.commit(batch({ cancels: creates.map(({ task }) => task) }));
    const now = T0 + 10;
    await store.sweep({ now, endedBefore: now, deadBefore: now, limit: 10_000 });
    let cursor: string | null | undefined;
    let calls = 0;
    for (; cursor !== null; calls++) {
      cursor = (await store.removeUnused({ now, limit: 100, cursor })).cursor;
    }
    // Twenty ranges of destinations, and an empty one of each kind.
    expect(calls).toBeLessThanOrEqual(24);
    for (const table of ["destinations", "counts", "nodes"]) {
      expect(readAll(file, `SELECT * FROM ${table}`), table).toEqual([]);
    }
    await store.close();
  });

  it("gives a removed destination a new row in the next commit, and after a failed one", async () => {
    const file = newFile();
    const store = sqliteStore(file);
    const row = { ...blankDestination(TENANT, "x"), version: 1 };
    await store.commit(batch({ destinations: [{ row }] }));
    await store.removeUnused({ now: T0, limit: 9 });
    const bad = create({ destination: "x" });
    const failing = batch({ creates: [bad, bad] });
    await expect(store.commit(failing)).rejects.toThrow("UNIQUE");
    expect(await store.query.count(TENANT)).toEqual({});
    await store.commit(batch({ creates: [create({ destination: "x" })] }));
    expect(readAll(file, ORPHANS)).toEqual([]);
    expect(readAll(file, "SELECT name, version FROM destinations")).toEqual([
      { name: "x", version: 0 },
    ]);
    await store.close();
  });
});

describe("the destination table", () => {
  /** A table on a file with `count` destinations. */
  async function setup(count: number) {
    const file = newFile();
    const store = sqliteStore(file);
    const names = Array.from({ length: count }, (_, n) => `d${n}`);
    await store.commit(batch({ creates: names.map((destination) => create({ destination })) }));
    await store.close();
    const database = new DatabaseSync(file);
    const sql = createSql(database, file);
    return { database, sql, table: new DestinationTable(sql) };
  }

  it("reads nothing when it opens, and only what a transaction touched after a rollback", async () => {
    const { database, sql, table } = await setup(1000);
    expect(table.reads).toBe(0);
    for (let n = 0; n < 100; n++) table.getOrInsert(TENANT, `d${n}`);
    expect(table.reads).toBe(100);
    const row = { ...blankDestination(TENANT, "d7"), version: 1, pausedAt: T0 };
    const change = () => {
      table.write({ row }, new Set());
      table.flush();
      throw new Error("no disk");
    };
    expect(() => sql.transaction(change, () => table.undo())).toThrow("no disk");
    for (let n = 0; n < 100; n++) table.getOrInsert(TENANT, `d${n}`);
    expect(table.reads).toBe(101);
    expect(table.row(TENANT, "d7")).toBeNull();
    database.close();
  });

  it("keeps a bounded number of rows in memory", async () => {
    const { database, table } = await setup(12_000);
    for (let n = 0; n < 12_000; n++) table.row(TENANT, `d${n}`);
    expect(table.cached).toBeLessThanOrEqual(10_000);
    expect(table.getOrInsert(TENANT, "d0").row.name).toBe("d0");
    database.close();
  });
});
