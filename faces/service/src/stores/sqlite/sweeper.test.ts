/**
 * Tests that a slice of retention ends when its time is over, and leaves the rest to the next one.
 * Tests that the end of a task does not write its key, and that the sweep finds every key once.
 */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, describe, expect, it } from "vitest";
import { KEY_RETENTION_MS, type Store } from "../../model/store.ts";
import { batch, claimFirst, create, settle, T0, TENANT } from "../store.testing.ts";
import { sqliteStore } from "./sqlite-store.ts";

describe("sweeper", () => {
  const folder = mkdtempSync(join(tmpdir(), "redrive-sweep-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const LATER = T0 + 10;

  it("a slice removes no further task once its time is over", async () => {
    const store = sqliteStore(join(folder, "tasks.db"));
    await store.commit(batch({ creates: Array.from({ length: 9 }, () => create()) }));
    const claims = await claimFirst(store, 9);
    const settles = claims.map((claim, index) =>
      settle(claim, { status: index < 5 ? "SUCCEEDED" : "EXHAUSTED", reason: null }),
    );
    await store.commit(batch({ now: T0, settles }));
    const sweep = (tasks: number) => {
      let left = tasks;
      const isOver = () => --left <= 0;
      return store.sweep({ now: LATER, endedBefore: LATER, deadBefore: LATER, limit: 100, isOver });
    };
    expect(await sweep(3)).toBe(3);
    expect(await store.query.count(TENANT)).toEqual({ SUCCEEDED: 2, EXHAUSTED: 4 });
    expect(await sweep(1)).toBe(1);
    expect(await sweep(Number.POSITIVE_INFINITY)).toBe(5);
    expect(await store.query.count(TENANT)).toEqual({});
    await store.close();
  });
});

describe("key expiry", () => {
  const folder = mkdtempSync(join(tmpdir(), "redrive-keys-"));
  let files = 0;
  const nextFile = () => join(folder, `${++files}.db`);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const TASKS = 200;

  /** Keys in no order, as callers choose them. */
  function keyOf(number: number): string {
    return `${(number * 7919) % 1000}-key-${number}-${"x".repeat(60)}`;
  }

  function creates(withKeys: boolean, from = 0) {
    return Array.from({ length: TASKS }, (_, index) =>
      withKeys
        ? create({ idempotencyKey: keyOf(from + index) }, { fingerprint: "f".repeat(43) })
        : create(),
    );
  }

  async function endAll(store: Store, now = T0): Promise<void> {
    const claims = await claimFirst(store, TASKS);
    const settles = claims.map((claim) => settle(claim, { status: "SUCCEEDED", reason: null }));
    await store.commit(batch({ now, settles }));
  }

  /** How many bytes the log grows when tasks end. */
  async function bytesOfEnds(withKeys: boolean): Promise<number> {
    const file = nextFile();
    const store = sqliteStore(file);
    await store.commit(batch({ creates: creates(withKeys) }));
    const claims = await claimFirst(store, TASKS);
    const before = statSync(`${file}-wal`).size;
    const settles = claims.map((claim) => settle(claim, { status: "SUCCEEDED", reason: null }));
    await store.commit(batch({ settles }));
    const grown = statSync(`${file}-wal`).size - before;
    await store.close();
    return grown;
  }

  const sweep = (store: Store, now: number, limit: number) =>
    store.sweep({ now, endedBefore: 0, deadBefore: 0, limit });

  describe("the expiry of idempotency keys", () => {
    it("adds nothing to what the end of a task writes", async () => {
      expect(await bytesOfEnds(true)).toBe(await bytesOfEnds(false));
    });

    it("visits each ended task once, in slices, also across a restart", async () => {
      const file = nextFile();
      let store = sqliteStore(file);
      await store.commit(batch({ creates: creates(true) }));
      await endAll(store);
      await store.commit(batch({ creates: creates(true, TASKS) }));
      const expiryAt = T0 + KEY_RETENTION_MS;
      expect(await sweep(store, expiryAt - 1, 10)).toBe(0);
      expect(await sweep(store, expiryAt, 150)).toBe(150);
      await store.close();
      store = sqliteStore(file);
      expect(await sweep(store, expiryAt, 150)).toBe(TASKS - 150);
      expect(await sweep(store, expiryAt, 150)).toBe(0);
      await store.close();
      expect(keysIn(file)).toBe(TASKS);
    });
  });

  function keysIn(file: string): number {
    const database = new DatabaseSync(file);
    const row = database.prepare("SELECT count(*) AS n FROM idempotency_keys").get();
    database.close();
    return (row as unknown as { readonly n: number }).n;
  }
});
