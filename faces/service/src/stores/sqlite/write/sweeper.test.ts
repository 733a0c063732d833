/** Tests that a slice of retention ends when its time is over, and leaves the rest to the next one. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { batch, claimFirst, create, settle, T0, TENANT } from "../../store.testing.ts";
import { sqliteStore } from "../sqlite-store.ts";

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
