/** Tests of claims that are committed a little before their tasks are due. */
import { statusOutcome } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { StoreFullError } from "../model/store-errors.ts";
import {
  batch,
  claimFirst,
  create,
  DESTINATION,
  pinnedTask,
  settle,
  T0,
  TENANT,
} from "../stores/store.testing.ts";
import { FAILED, OK, setup } from "./engine.testing.ts";
import type { EngineOptions } from "./engine.ts";

const DUE_IN_MS = 1000;

/** A task that is claimed and due in two milliseconds. */
async function claimed(document?: string, followUp?: EngineOptions["followUp"]) {
  const tools = await setup({}, T0, followUp && { followUp });
  const { clock, engine, enqueue, get } = tools;
  if (document !== undefined) await engine.changeDestination(TENANT, DESTINATION, { document });
  const dueAt = clock.now() + DUE_IN_MS;
  const { task } = enqueue({ scheduledAt: dueAt });
  await clock.advance(DUE_IN_MS - 2);
  const state = () => get(task.taskId);
  return { ...tools, task, dueAt, state };
}

describe("a claim that is committed ahead", () => {
  it("is sent when its task is due, and not earlier", async () => {
    const { clock, store, sent, task, dueAt, state } = await claimed();
    expect(await state()).toMatchObject({ status: "IN_FLIGHT", attemptNumber: 1 });
    await clock.advance(1);
    expect(sent).toHaveLength(0);
    await clock.advance(1);
    expect(sent.map(({ at }) => at)).toEqual([dueAt]);
    sent[0]?.finish(OK);
    await clock.advance(1);
    const { attempts } = await store.query.attempts(TENANT, task.taskId, { limit: 10 });
    expect(attempts[0]?.startedAt).toBe(dueAt);
  });

  it("includes tasks that are due soon after, and sends each at its own instant", async () => {
    const { clock, sent, enqueue } = await setup();
    const start = clock.now();
    const dueAt = [start + 50, start + 52, start + 51, start + 70];
    for (const scheduledAt of dueAt) enqueue({ scheduledAt });
    await clock.advance(100);
    expect(sent.map(({ at }) => at - start)).toEqual([50, 51, 52, 70]);
    const claimedAt = sent.map(({ task }) => task.claimedAt);
    expect(new Set(claimedAt.slice(0, 3)).size).toBe(1);
    expect(Math.max(...sent.map(({ at, task }) => at - task.claimedAt))).toBeLessThanOrEqual(8);
  });

  it("is returned without counting an attempt when the task is canceled, and is never sent", async () => {
    const { clock, engine, sent, task, state } = await claimed();
    const types: string[] = [];
    engine.events.listen(({ type }) => types.push(type));
    const ref = { tenantId: TENANT, taskId: task.taskId };
    const [answer] = await Promise.all([engine.cancel(ref), clock.advance(1)]);
    expect(answer).toEqual({ kind: "cancelled" });
    expect(await state()).toMatchObject({ status: "CANCELLED", attemptNumber: 0 });
    await clock.advance(100);
    expect(sent).toHaveLength(0);
    expect(types).toEqual(["task.cancelled"]);
  });

  it("is returned without counting an attempt when the destination is paused", async () => {
    const { clock, engine, sent, state } = await claimed();
    await engine.changeDestination(TENANT, DESTINATION, { pausedAt: clock.now() });
    await clock.advance(100);
    expect(sent).toHaveLength(0);
    expect(await state()).toMatchObject({ status: "PENDING", attemptNumber: 0 });
    await engine.changeDestination(TENANT, DESTINATION, { pausedAt: null });
    await clock.advance(1);
    expect(sent).toHaveLength(1);
  });

  it("is returned without counting an attempt when the node stops", async () => {
    const { clock, engine, boot, sent, state } = await claimed();
    await Promise.all([engine.stop(0), clock.advance(100)]);
    expect(sent).toHaveLength(0);
    expect(await state()).toMatchObject({ status: "PENDING", attemptNumber: 0 });
    await boot("node-2");
    await clock.advance(1);
    expect(sent).toHaveLength(1);
  });

  it("is not made where a rate limit gives every call its own instant", async () => {
    const { clock, sent, state } = await claimed(JSON.stringify({ rate: { perSecond: 100 } }));
    expect(await state()).toMatchObject({ status: "PENDING", attemptNumber: 0 });
    await clock.advance(2);
    expect(sent).toHaveLength(1);
  });

  it("keeps half of the permits for due tasks", async () => {
    const { clock, engine, store, enqueue, sent } = await setup();
    const document = JSON.stringify({ concurrency: { max: 4 } });
    await engine.changeDestination(TENANT, DESTINATION, { document });
    for (let n = 0; n < 8; n++) enqueue({ scheduledAt: clock.now() + 1000 });
    await clock.advance(999);
    expect(await store.claimsOf("node-1", 10)).toHaveLength(2);
    enqueue();
    await clock.advance(0);
    expect(sent).toHaveLength(1);
    await clock.advance(1);
    expect(sent).toHaveLength(4);
  });

  it("is not made for a suspect, and does not delay it", async () => {
    const { clock, store, boot, sent } = await setup();
    const at = clock.now() + 1000;
    const [first, second] = [create({ scheduledAt: T0 }), create({ scheduledAt: at + 3 })];
    await store.commit(batch({ now: T0, creates: [first, second] }));
    const [claim] = await claimFirst(store);
    if (claim === undefined) throw new Error("nothing was claimed");
    const abandoned = { lane: "suspect", abandonedCount: 2, nextAttemptAt: at } as const;
    await store.commit(batch({ settles: [settle(claim, abandoned)] }));
    await boot("node-2");
    await clock.advance(1100);
    expect(sent.map(({ task }) => task.taskId)).toEqual([first.task.taskId, second.task.taskId]);
    expect(sent.map((one) => one.at)).toEqual([at, at + 3]);
    expect(sent[0]?.task.claimedAt).toBe(at);
  });

  it("is logged with the instant at which it was sent", async () => {
    const { clock, store, sent, task, dueAt } = await claimed();
    await clock.advance(2);
    await clock.advance(7);
    sent[0]?.finish(OK);
    await clock.advance(1);
    const { attempts } = await store.query.attempts(TENANT, task.taskId, { limit: 1 });
    expect(attempts[0]).toMatchObject({ startedAt: dueAt, durationMs: 7 });
  });

  it("is logged with its due instant if its node was lost", async () => {
    const { clock, store, boot, task, dueAt } = await claimed();
    await boot("node-2");
    await clock.advance(60_000);
    const { attempts } = await store.query.attempts(TENANT, task.taskId, { limit: 1 });
    expect(attempts[0]).toMatchObject({ startedAt: dueAt, outcome: "abandoned" });
  });

  it("keeps half of the permits also while other tasks are due", async () => {
    const { clock, engine, store, enqueue, sent } = await setup();
    const document = JSON.stringify({ concurrency: { max: 4 } });
    await engine.changeDestination(TENANT, DESTINATION, { document });
    for (let n = 0; n < 4; n++) enqueue();
    await clock.advance(1);
    expect(sent).toHaveLength(4);
    enqueue();
    for (let n = 0; n < 8; n++) enqueue({ scheduledAt: clock.now() + 6 });
    await clock.advance(1);
    for (const { finish } of sent) finish(OK);
    await clock.advance(2);
    expect(sent).toHaveLength(5);
    expect((await store.claimsOf("node-1", 20)).length).toBeLessThanOrEqual(2);
    enqueue();
    await clock.advance(0);
    expect(sent).toHaveLength(6);
  });

  it("creates the follow-up task of its cancel once, and at once", async () => {
    const callback = () => pinnedTask({ destination: "callbacks" });
    const byEnd = callback();
    const { clock, engine, store, sent, task } = await claimed(undefined, ({ destination }) =>
      destination === DESTINATION ? { CANCELLED: [byEnd] } : undefined,
    );
    const onEnd = { CANCELLED: [callback()] };
    const cancelling = engine.cancel({ tenantId: TENANT, taskId: task.taskId, onEnd });
    await clock.advance(1);
    expect(await cancelling).toEqual({ kind: "cancelled" });
    expect(sent.map((one) => one.task.taskId)).toEqual([byEnd.taskId]);
    expect(store.all()).toHaveLength(2);
  });

  it("is canceled later if the store fails when the claim is recalled, and the caller learns it", async () => {
    const { clock, engine, store, sent, task, state } = await claimed();
    const { commit } = store;
    let commits = 0;
    const failing: typeof commit = (items) =>
      ++commits === 2 ? Promise.reject(new StoreFullError("no space")) : commit(items);
    Object.assign(store, { commit: failing });
    const ref = { tenantId: TENANT, taskId: task.taskId };
    const answer = engine.cancel(ref);
    await clock.advance(1000);
    expect(await answer).toMatchObject({ kind: "requested" });
    expect(await state()).toMatchObject({ status: "CANCELLED", attemptNumber: 0 });
    expect(sent).toHaveLength(0);
  });

  it("returns its permit when the circuit opens meanwhile, and is no probe", async () => {
    const { clock, engine, enqueue, sent, get } = await setup({ maxAttempts: 1 });
    const breaker = { minCalls: 2, openMs: 1000 };
    const document = JSON.stringify({ breaker });
    await engine.changeDestination(TENANT, DESTINATION, { document });
    enqueue();
    enqueue();
    const { task } = enqueue({ scheduledAt: clock.now() + 100 });
    await clock.advance(98);
    expect(await get(task.taskId)).toMatchObject({ status: "IN_FLIGHT" });
    for (const { finish } of sent) finish(FAILED);
    await clock.advance(50);
    expect(await get(task.taskId)).toMatchObject({ status: "PENDING", attemptNumber: 0 });
    const { guards } = engine.destination(TENANT, DESTINATION);
    expect(guards.concurrency?.inFlight).toBe(0);
    const openUntil = guards.breaker?.openUntil ?? 0;
    await clock.advance(2000);
    expect(sent).toHaveLength(3);
    expect(sent[2]?.at).toBe(openUntil);
    expect(sent[2]?.task.claimedAt).toBe(openUntil);
  });

  it.each([
    ["is sent", undefined, 8],
    ["is paused", { pausedAt: T0 }, 9],
  ])("holds exactly one ticket of the retry budget if it %s", async (_, change, left) => {
    const policy = { initialDelayMs: 1000, jitterType: "NONE" } as const;
    const { clock, engine, enqueue, sent } = await setup(policy, T0, { retryBudget: false });
    const tokens = { maxTokens: 9, costPerRetry: 1, costPerThrottle: 1, refillPerSuccess: 0 };
    const document = JSON.stringify({ retryBudget: { kind: "TOKENS", ...tokens } });
    await engine.changeDestination(TENANT, DESTINATION, { document });
    enqueue();
    await clock.advance(1);
    sent[0]?.finish(FAILED);
    await clock.advance(997);
    const { guards } = engine.destination(TENANT, DESTINATION);
    expect(guards.retryBudget).toMatchObject({ tokens: 8 });
    if (change !== undefined) await engine.changeDestination(TENANT, DESTINATION, change);
    await clock.advance(10);
    expect(guards.retryBudget).toMatchObject({ tokens: left });
    expect(guards.concurrency?.retriesInFlight).toBe(9 - left);
  });

  it("is postponed, and not claimed repeatedly, when the budget charges more for it", async () => {
    const policy = { initialDelayMs: 10, jitterType: "NONE" } as const;
    const { clock, store, engine, enqueue, sent } = await setup(policy, T0, { retryBudget: false });
    const tokens = { maxTokens: 6, costPerRetry: 1, costPerThrottle: 4, refillPerSuccess: 0 };
    const document = JSON.stringify({ retryBudget: { kind: "TOKENS", ...tokens } });
    await engine.changeDestination(TENANT, DESTINATION, { document });
    const { commit } = store;
    let commits = 0;
    const counted: typeof commit = (items) => {
      if (++commits > 200) throw new Error("too many commits");
      return commit(items);
    };
    Object.assign(store, { commit: counted });
    for (let n = 0; n < 3; n++) enqueue();
    await clock.advance(1);
    for (const { finish } of sent) finish(statusOutcome(429));
    // One can pay, one is sent as a trial without a token, and the third waits for the next trial.
    await clock.advance(500);
    expect(sent).toHaveLength(5);
    await clock.advance(1500);
    expect(sent).toHaveLength(6);
    expect(commits).toBeLessThan(40);
  });
});
