/** Tests that a success is settled alike with and without reading its row first. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, describe, expect, it } from "vitest";
import type { Store } from "../../model/store.ts";
import { attemptLog, batch, claimFirst, create, settle, T0, TENANT } from "../store.testing.ts";
import { sqliteStore } from "./sqlite-store.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-settles-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;

/** A store with one claimed task. `reopens`: another process made the claim. */
async function claimed(reopens: boolean) {
  const file = join(folder, `${++files}.db`);
  let store: Store = sqliteStore(file);
  await store.commit(batch({ creates: [create()] }));
  const [task] = await claimFirst(store);
  if (task === undefined) throw new Error("nothing was claimed");
  if (reopens) {
    await store.close();
    store = sqliteStore(file);
  }
  return { store, task, file };
}

describe.each([
  ["of this process", false],
  ["of another process", true],
])("a success of a claim %s", (_whose, reopens) => {
  it("is counted and logged once, and a repeated settle is fenced", async () => {
    const { store, task } = await claimed(reopens);
    const attempt = attemptLog({ outcome: "success", responseStatus: 204, errorMessage: null });
    const success = settle(task, { status: "SUCCEEDED", attempt, abandonedCount: 0 });
    const settles = [success, success];
    const result = await store.commit(batch({ now: T0 + 5, settles }));
    expect(result.settles).toEqual(["SUCCEEDED", "fenced"]);
    expect(await store.query.count(TENANT)).toEqual({ SUCCEEDED: 1 });
    const { attempts } = await store.query.attempts(TENANT, task.taskId, { limit: 10 });
    expect(attempts).toEqual([attempt]);
    expect(await store.query.get(TENANT, task.taskId)).toMatchObject({
      status: "SUCCEEDED",
      claimEpoch: task.claimEpoch + 1,
      claimedBy: null,
      claimedAt: null,
      finishedAt: T0 + 5,
      lastStatus: 204,
      lastError: null,
    });
    await store.close();
  });

  it("wins over a requested cancel, and any other end does not", async () => {
    for (const status of ["SUCCEEDED", "EXHAUSTED"] as const) {
      const { store, task } = await claimed(reopens);
      await store.commit(batch({ cancels: [task] }));
      const result = await store.commit(batch({ settles: [settle(task, { status })] }));
      expect(result.settles).toEqual([status === "SUCCEEDED" ? status : "CANCELLED"]);
      await store.close();
    }
  });
});

it("a success whose row another program has changed is not confirmed, and is fenced when it is repeated", async () => {
  const { store, task, file } = await claimed(false);
  const other = new DatabaseSync(file);
  other.exec("UPDATE tasks SET claim_epoch = claim_epoch + 1");
  other.close();
  const settles = [settle(task, { status: "SUCCEEDED" })];
  await expect(store.commit(batch({ settles }))).rejects.toThrow("has another state");
  expect((await store.commit(batch({ settles }))).settles).toEqual(["fenced"]);
  expect(await store.query.count(TENANT)).toEqual({ IN_FLIGHT: 1 });
  await store.close();
});

it("a success of an older claim of this process is fenced", async () => {
  const { store, task } = await claimed(false);
  await store.commit(batch({ settles: [settle(task, { lane: "first", nextAttemptAt: T0 })] }));
  const [again] = await claimFirst(store);
  expect(again?.claimEpoch).toBe(task.claimEpoch + 2);
  const late = await store.commit(batch({ settles: [settle(task, { status: "SUCCEEDED" })] }));
  expect(late.settles).toEqual(["fenced"]);
  expect(await store.query.count(TENANT)).toEqual({ IN_FLIGHT: 1 });
  await store.close();
});
