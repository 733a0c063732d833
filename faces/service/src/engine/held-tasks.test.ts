/** Tests of tasks that a guard holds: their order, their events, and how they end. */
import { statusOutcome } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { DESTINATION, T0, TENANT } from "../stores/store.testing.ts";
import { FAILED, OK, setup } from "./engine.testing.ts";
import type { EngineEvent } from "./events.ts";

const RETRY_AFTER_100_MS = { initialDelayMs: 100, maxDelayMs: 100, jitterType: "NONE" } as const;
const ONE_PER_SECOND = { rate: { perSecond: 1, burst: 1 }, breaker: false };

/** An engine whose destination has this document, with its events. */
async function guarded(document: object, policy: Parameters<typeof setup>[0] = RETRY_AFTER_100_MS) {
  const tools = await setup(policy, T0, { claimAheadMs: 0 });
  const { engine, sent, clock } = tools;
  await engine.changeDestination(TENANT, DESTINATION, { document: JSON.stringify(document) });
  const events: EngineEvent[] = [];
  engine.events.listen((event) => events.push({ ...event }));
  const startedAt = clock.now();
  /** The attempts that were sent, and when. */
  const sends = () =>
    sent.map(({ at, task }) => [task.taskId, task.attemptNumber, at - startedAt] as const);
  return { ...tools, events, sends, startedAt };
}

describe("among lanes that a guard holds until the same instant", () => {
  it("the lane whose task was due first goes first, whichever was held first", async () => {
    const document = { ...ONE_PER_SECOND, rate: { perSecond: 1, burst: 2 } };
    const { clock, enqueue, script, sends } = await guarded(document);
    script.push(FAILED, FAILED, OK, OK, OK);
    const failing = [enqueue(), enqueue()].map(({ task }) => task.taskId);
    await clock.advance(500);
    const { taskId } = enqueue().task;
    await clock.advance(5000);
    expect(sends().slice(2)).toEqual([
      [failing[0], 2, 1000],
      [failing[1], 2, 2000],
      [taskId, 1, 3000],
    ]);
  });

  it("first attempts go before retries that were due at the same instant", async () => {
    const { clock, enqueue, script, sends } = await guarded(ONE_PER_SECOND);
    script.push(FAILED, OK, OK);
    const failing = enqueue().task.taskId;
    await clock.advance(110);
    const { taskId } = enqueue().task;
    await clock.advance(3000);
    expect(sends()).toEqual([
      [failing, 1, 0],
      [taskId, 1, 1000],
      [failing, 2, 2000],
    ]);
  });

  it("a new task does not overtake a due retry when a slot becomes free", async () => {
    const document = { concurrency: { max: 1, algorithm: "FIXED" }, breaker: false };
    const { clock, enqueue, sent, sends } = await guarded(document);
    const first = enqueue().task.taskId;
    await clock.advance(10);
    sent[0]?.finish(FAILED);
    await clock.advance(40);
    const second = enqueue().task.taskId;
    await clock.advance(150);
    sent[1]?.finish(OK);
    const third = enqueue().task.taskId;
    await clock.advance(50);
    sent[2]?.finish(OK);
    await clock.advance(1);
    expect(sends().map(([taskId]) => taskId)).toEqual([first, second, first, third]);
  });

  it("a retry without a token does not delay first attempts", async () => {
    const tokens = { kind: "TOKENS", maxTokens: 1, costPerRetry: 1, costPerThrottle: 1 };
    const retryBudget = { ...tokens, refillPerSuccess: 0 };
    const { clock, enqueue, script, sends } = await guarded({ retryBudget, breaker: false });
    script.push(...Array.from({ length: 20 }, () => FAILED));
    for (let n = 0; n < 3; n++) enqueue();
    await clock.advance(500);
    const { taskId } = enqueue().task;
    await clock.advance(1);
    expect(sends().at(-1)).toEqual([taskId, 1, 500]);
  });
});

describe("a task that a guard holds", () => {
  it("has its waits in the log of the attempt and in its events, and others have none", async () => {
    const breaker = { minCalls: 1, openMs: 5000 };
    const { clock, enqueue, script, events, store, startedAt } = await guarded({ breaker });
    script.push(FAILED, OK, OK);
    const failing = enqueue().task.taskId;
    await clock.advance(1000);
    const held = enqueue().task.taskId;
    await clock.advance(20_000);
    const logs = async (taskId: string) =>
      (await store.query.attempts(TENANT, taskId, { limit: 9 })).attempts;
    const [first, second] = await logs(failing);
    expect(first).toMatchObject({ waits: [], delaySource: "circuit-open" });
    expect(second?.waits).toEqual([]);
    const [start] = events.filter((one) => one.taskId === held && one.type === "attempt.started");
    const durationMs = (start?.at ?? 0) - startedAt - 1000;
    expect(durationMs).toBeGreaterThan(4000 - 1000);
    const waits = [{ cause: "circuit-open", sinceAt: startedAt + 1000, durationMs }];
    expect((await logs(held))[0]?.waits).toEqual(waits);
    const of = (taskId: string) => events.filter((one) => one.taskId === taskId && one.waits);
    expect(of(failing)).toEqual([]);
    expect(of(held).map((one) => [one.type, one.waits])).toEqual([
      ["attempt.started", waits],
      ["task.succeeded", waits],
    ]);
  });

  it("has the guard in its start event, and a task that was not held has none", async () => {
    const { clock, enqueue, script, events } = await guarded(ONE_PER_SECOND);
    script.push(OK, OK);
    enqueue();
    enqueue();
    await clock.advance(3000);
    const started = events.filter(({ type }) => type === "attempt.started");
    expect(started.map(({ lagMs, heldBy }) => [lagMs, heldBy])).toEqual([
      [0, undefined],
      [1000, "rate"],
    ]);
    expect(Object.keys(started[0] ?? {})).not.toContain("heldBy");
  });

  it.each([
    ["circuit-open", { breaker: { minCalls: 1, openMs: 5000 } }, "the open circuit"],
    ["rate", { rate: { perSecond: 0.1, burst: 1 }, breaker: false }, "the rate limit"],
  ])("ends as held by %s when its time is over before any attempt", async (by, document, words) => {
    const policy = { maxAttempts: 1, totalBudgetMs: 2000 };
    const { clock, enqueue, script, events, sent, get } = await guarded(document, policy);
    script.push(FAILED, OK);
    enqueue();
    await clock.advance(20);
    const { taskId } = enqueue().task;
    await clock.advance(20_000);
    expect(sent).toHaveLength(1);
    const lastError = `held by ${words} until its time was over`;
    const ended = { status: "EXHAUSTED", reason: "held", attemptNumber: 0, lastError };
    expect(await get(taskId)).toMatchObject(ended);
    const event = events.find((one) => one.taskId === taskId && one.type === "task.exhausted");
    expect(event).toMatchObject({ reason: "held", by, attemptNumber: 0 });
  });

  it("names the guard that held it when its time ran out, not a later one", async () => {
    const { clock, enqueue, events, sent, sends } = await guarded({}, { totalBudgetMs: 2000 });
    enqueue();
    await clock.advance(1);
    sent[0]?.finish({ ...statusOutcome(503), retryAfterMs: 10_000 });
    const held = Array.from({ length: 5 }, () => enqueue().task.taskId);
    await clock.advance(11_000);
    expect(sends()).toHaveLength(1);
    const ends = events.filter(({ type, taskId = "" }) => {
      return type === "task.exhausted" && held.includes(taskId);
    });
    expect(ends.map(({ by }) => by)).toEqual(held.map(() => "retry-after"));
  });
});

it("a waiting retry ends when its destination no longer allows retries", async () => {
  const { clock, engine, enqueue, sent, script, get } = await guarded({});
  script.push(FAILED, FAILED);
  const { taskId } = enqueue().task;
  await clock.advance(50);
  const concurrency = { max: 5, maxRetries: 0 };
  const document = JSON.stringify({ concurrency });
  await engine.changeDestination(TENANT, DESTINATION, { document });
  await clock.advance(1000);
  const ended = { status: "EXHAUSTED", reason: "overload", attemptNumber: 1 };
  expect(await get(taskId)).toMatchObject(ended);
  const next = enqueue().task.taskId;
  await clock.advance(1000);
  expect(await get(next)).toMatchObject(ended);
  expect(sent).toHaveLength(2);
  const { guards } = engine.destination(TENANT, DESTINATION);
  expect(guards.concurrency).toMatchObject({ inFlight: 0, retriesInFlight: 0 });
});

describe("claimAheadMs", () => {
  it.each([
    [0, 0],
    [3, 3],
    [undefined, 5],
  ])("%s: a single task is claimed %s ms before it is due", async (claimAheadMs, ms) => {
    const tools = await setup({}, T0, claimAheadMs === undefined ? {} : { claimAheadMs });
    const { clock, enqueue, sent } = tools;
    enqueue({ scheduledAt: T0 + 1000 });
    await clock.advance(2000);
    expect(sent.map(({ at, task }) => [at, at - task.claimedAt])).toEqual([[T0 + 1000, ms]]);
  });

  it.each([-1, 1001, Number.NaN])("must not be %s", async (claimAheadMs) => {
    await expect(setup({}, T0, { claimAheadMs })).rejects.toThrow(/claimAheadMs/);
  });
});
