/** Tests of claims under a rate limit: a claim takes the tokens of the next 50 ms at once. */
import { describe, expect, it } from "vitest";
import { batch, create, DESTINATION, T0, TENANT } from "../stores/store.testing.ts";
import { FAILED, OK, setup } from "./engine.testing.ts";
import { fleet } from "./fleet.testing.ts";

const COMMIT_MS = 3;
/** A claim takes the tokens of this time. */
const AHEAD_MS = 50;
/** The default limit would hold calls too. */
const concurrency = { algorithm: "FIXED", max: 400 };

interface Rate {
  readonly perSecond: number;
  readonly burst: number;
}

/** A node whose commits take `commitMs`, and a backlog. */
async function backlogged(rate: Rate, count: number, commitMs: () => number = () => COMMIT_MS) {
  const tools = await setup({ initialDelayMs: 200, jitterType: "NONE" }, T0, {
    attemptsPerOrigin: 1000,
  });
  const { clock, engine, enqueue, store, script } = tools;
  const document = JSON.stringify({ rate, concurrency, breaker: false });
  await engine.changeDestination(TENANT, DESTINATION, { document });
  const scheduledAt = clock.now() + 1000;
  const taskIds = Array.from({ length: count }, () => enqueue({ scheduledAt }).task.taskId);
  await clock.advance(900);
  const { commit } = store;
  const slow: typeof commit = async (items) => {
    await new Promise<void>((resolve) => void clock.alarm(commitMs(), resolve));
    return commit(items);
  };
  Object.assign(store, { commit: slow });
  for (let n = 0; n < 2 * count; n++) script.push(OK);
  await clock.advance(100);
  return { ...tools, taskIds };
}

/** The first window of 100 ms in which more were sent than the rate and the burst allow. */
function excessOf(at: readonly number[], { perSecond, burst }: Rate): object | undefined {
  const most = perSecond / 10 + burst;
  let first = 0;
  for (const [index, end] of at.entries()) {
    while ((at[first] as number) <= end - 100) first++;
    const count = index - first + 1;
    if (count > most) return { end, count, most };
  }
  return undefined;
}

const atOf = (sent: readonly { readonly at: number }[]) => sent.map(({ at }) => at);

describe("a backlog under a rate limit", () => {
  it.each([
    { perSecond: 500, burst: 1 },
    { perSecond: 500, burst: 500 },
    { perSecond: 2000, burst: 10 },
    { perSecond: 2000, burst: 2000 },
    { perSecond: 5000, burst: 20 },
    { perSecond: 5000, burst: 5000 },
  ])("is sent at $perSecond per second with a burst of $burst, and never faster", async (rate) => {
    const { clock, sent, taskIds } = await backlogged(rate, 3 * rate.perSecond + rate.burst + 100);
    await clock.advance(1000);
    const before = sent.length;
    await clock.advance(2000);
    expect((sent.length - before) / 2).toBeGreaterThanOrEqual(0.95 * rate.perSecond);
    expect(excessOf(atOf(sent), rate)).toBeUndefined();
    expect(sent.map(({ task }) => task.taskId)).toEqual(taskIds.slice(0, sent.length));
    const claimedMs = sent.map(({ at, task }) => at - task.claimedAt);
    expect(Math.max(...claimedMs)).toBeLessThanOrEqual(AHEAD_MS + 2 * COMMIT_MS);
  });

  it("keeps the rate if commits take longer than the tokens that it claims", async () => {
    const rate = { perSecond: 2000, burst: 10 };
    let commits = 0;
    const commitMs = () => (++commits % 7 === 0 ? 150 : COMMIT_MS);
    const { clock, sent } = await backlogged(rate, 6000, commitMs);
    await clock.advance(3000);
    expect(sent.length).toBeGreaterThan(1000);
    expect(excessOf(atOf(sent), rate)).toBeUndefined();
  });

  it("keeps the rate if tasks are canceled after their claim, whose tokens others use", async () => {
    const rate = { perSecond: 500, burst: 1 };
    const { clock, engine, sent, taskIds } = await backlogged(rate, 2000);
    const canceled: string[] = [];
    for (let round = 0; round < 100; round++) {
      await clock.advance(10);
      const taskId = taskIds[sent.length + canceled.length + 10] as string;
      canceled.push(taskId);
      void engine.cancel({ tenantId: TENANT, taskId });
    }
    expect(sent.length).toBeGreaterThanOrEqual(0.95 * 500);
    expect(sent.some(({ task }) => canceled.includes(task.taskId))).toBe(false);
    expect(excessOf(atOf(sent), rate)).toBeUndefined();
  });

  it("returns the claims that wait when the node stops, without counting an attempt", async () => {
    const rate = { perSecond: 500, burst: 1 };
    const { clock, engine, boot, sent, store } = await backlogged(rate, 1000);
    await clock.advance(500);
    await Promise.all([engine.stop(0), clock.advance(200)]);
    expect(await store.claimsOf("node-1", 10)).toHaveLength(0);
    const before = sent.length;
    await boot("node-2");
    await clock.advance(1000);
    expect(sent.length - before).toBeGreaterThan(400);
    expect(sent.every(({ task }) => task.attemptNumber === 1)).toBe(true);
    expect(new Set(sent.map(({ task }) => task.taskId)).size).toBe(sent.length);
    expect(excessOf(atOf(sent), rate)).toBeUndefined();
  });

  it("returns the claims that wait when the destination is paused", async () => {
    const { clock, engine, sent, store } = await backlogged({ perSecond: 500, burst: 1 }, 1000);
    await clock.advance(500);
    const paused = engine.changeDestination(TENANT, DESTINATION, { pausedAt: clock.now() });
    await clock.advance(2 * COMMIT_MS);
    await paused;
    const before = sent.length;
    await clock.advance(200);
    expect(sent.length - before).toBeLessThanOrEqual(1);
    expect(await store.claimsOf("node-1", 10)).toHaveLength(0);
    expect(engine.destination(TENANT, DESTINATION).guards.concurrency?.inFlight).toBe(0);
  });

  it("follows another rate at once, and returns the claims that would wait too long", async () => {
    const { clock, engine, sent, store } = await backlogged({ perSecond: 500, burst: 1 }, 1000);
    await clock.advance(500);
    const rate = { perSecond: 10, burst: 1 };
    const document = JSON.stringify({ rate, concurrency, breaker: false });
    const changed = engine.changeDestination(TENANT, DESTINATION, { document });
    await clock.advance(2 * COMMIT_MS);
    await changed;
    const before = sent.length;
    await clock.advance(300);
    expect((await store.claimsOf("node-1", 100)).length).toBeLessThanOrEqual(2);
    await clock.advance(1700);
    expect(sent.length - before).toBeGreaterThanOrEqual(19);
    expect(excessOf(atOf(sent.slice(before)), rate)).toBeUndefined();
  });

  it("sends first attempts and retries in the order in which they were due", async () => {
    const rate = { perSecond: 500, burst: 1 };
    const { clock, script, sent } = await backlogged(rate, 1000);
    script.splice(0, 100, ...Array.from({ length: 100 }, () => FAILED));
    await clock.advance(3000);
    const retries = sent.filter(({ task }) => task.attemptNumber === 2);
    expect(retries).toHaveLength(100);
    expect(sent).toHaveLength(1100);
    // The backlog is older than the retries.
    expect(sent.slice(0, 1000).every(({ task }) => task.attemptNumber === 1)).toBe(true);
    expect(excessOf(atOf(sent), rate)).toBeUndefined();
  });

  it("shows the wait for a token as a wait for the rate", async () => {
    const { clock, engine, enqueue, sent } = await setup();
    const document = JSON.stringify({ rate: { perSecond: 5, burst: 1 } });
    await engine.changeDestination(TENANT, DESTINATION, { document });
    const started: unknown[] = [];
    engine.events.listen((event) => {
      if (event.type === "attempt.started") started.push([event.heldBy, event.waits]);
    });
    enqueue();
    enqueue();
    await clock.advance(300);
    expect(atOf(sent)).toEqual([T0, T0 + 200]);
    const wait = { cause: "rate", sinceAt: T0, durationMs: 200 };
    expect(started[1]).toEqual(["rate", [wait]]);
  });

  it("is claimed with one token at a time by a breaker that probes", async () => {
    const { clock, engine, enqueue, sent, store } = await setup({ maxAttempts: 1 });
    const breaker = { minCalls: 2, openMs: 1000 };
    const document = JSON.stringify({ breaker, rate: { perSecond: 100, burst: 2 } });
    await engine.changeDestination(TENANT, DESTINATION, { document });
    for (let n = 0; n < 10; n++) enqueue();
    await clock.advance(1);
    for (const { finish } of sent) finish(FAILED);
    await clock.advance(500);
    expect(await store.claimsOf("node-1", 10)).toHaveLength(0);
    const before = sent.length;
    await clock.advance(1000);
    expect(sent.length - before).toBe(1);
    expect(await store.claimsOf("node-1", 10)).toHaveLength(1);
  });
});

describe("a fleet under a rate limit", () => {
  const NAMES = ["node-1", "node-2", "node-3"];

  it.each([
    [{ perSecond: 500, burst: 1 }, undefined],
    [{ perSecond: 2000, burst: 20 }, undefined],
    [{ perSecond: 500, burst: 1 }, "node-2"],
  ])("keeps %j together if the lost node is %s", async (rate, lost) => {
    const document = { rate, concurrency, breaker: false };
    const { clock, store, sent, kill } = await fleet(NAMES, { document, durationMs: 5 });
    const now = clock.now();
    for (let made = 0; made < 12 * rate.perSecond; made += 200) {
      const creates = Array.from({ length: 200 }, (_, index) => inPartition(made + index, now));
      await clock.run(store.commit(batch({ now, creates })));
    }
    await clock.advance(5000);
    const before = sent.length;
    if (lost !== undefined) kill(lost);
    await clock.advance(2000);
    const isUsed = (sent.length - before) / 2 / rate.perSecond;
    expect(isUsed).toBeGreaterThan(lost === undefined ? 0.95 : 0.6);
    // A node rounds the instants of its tokens up to whole ms.
    expect(excessOf(atOf(sent), { ...rate, burst: rate.burst + NAMES.length - 1 })).toBeUndefined();
  });

  function inPartition(number: number, now: number) {
    const made = create({ scheduledAt: now, createdAt: now });
    const byte = (number % 256).toString(16).padStart(2, "0");
    const taskId = made.task.taskId.replace(/-80..(?=-.{12}$)/u, `-80${byte}`);
    return { ...made, task: { ...made.task, taskId } };
  }
});
