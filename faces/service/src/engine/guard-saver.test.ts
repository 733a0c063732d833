/** Tests that the guard state survives a stop and a kill of the process, and ages normally. */
import {
  ABORTED,
  Admission,
  classifyOutcome,
  concurrencyLimit,
  createGuards,
  guardOptionsOf,
  latencyCalls,
  type Outcome,
  recordLatency,
  resolveDestination,
  SharedBudget,
  SUCCESS,
  seededRandom,
  statusOutcome,
  virtualClock,
} from "@redrive/core";
import { describe, expect, it } from "vitest";
import { notStarted } from "../deliver/attempt.ts";
import type { Batch } from "../model/batch.ts";
import { GUARD_DOCUMENT } from "../model/document-table.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { documentsOf, pinnedTask, T0, TENANT } from "../stores/store.testing.ts";
import { DestinationRuntime, decodeGuards, encodeGuards } from "./destination-runtime.ts";
import { Engine } from "./engine.ts";
import { GuardSaver } from "./guard-saver.ts";

const NAME = "https://example.com";
const FAILED = statusOutcome(500);

/** Engines on one store, one after the other. Their attempts end after 10 ms. */
async function setup(document: object = {}, exclusive = true) {
  const clock = virtualClock(T0);
  const store = memoryStore({ exclusive });
  const policy = { tenantId: TENANT, policyId: "background", version: 1, createdAt: T0 };
  const waits = { maxAttempts: 100, backoff: "FIXED", initialDelayMs: 10, jitterType: "NONE" };
  const body = JSON.stringify({ ...waits, totalBudgetMs: 86_400_000 });
  await store.addPolicy({ ...policy, document: body });
  const batches: Batch[] = [];
  const sent: { readonly at: number; readonly isRetry: boolean }[] = [];
  let answer: Outcome = FAILED;
  const boot = async (nodeId: string) => {
    const engine = await Engine.open({
      clock,
      random: seededRandom("notes"),
      store: {
        ...store,
        commit(batch) {
          batches.push(batch);
          return store.commit(batch);
        },
      },
      nodeId,
      deliver: (task, { signal }, done) => {
        sent.push({ at: clock.now(), isRetry: task.attemptNumber > 1 });
        const ended = answer;
        const end = (outcome: Outcome) => done({ ...notStarted(outcome, null), durationMs: 10 });
        const cancel = clock.alarm(10, () => end(ended));
        signal.addEventListener("abort", () => {
          cancel();
          end({ kind: "aborted" });
        });
      },
    });
    await engine.start();
    return engine;
  };
  const engine = await boot("node-1");
  await engine.changeDestination(TENANT, NAME, {
    document: JSON.stringify({ breaker: false, ...document }),
  });
  const enqueue = (by: Engine, count: number) => {
    for (let n = 0; n < count; n++) {
      const times = { createdAt: clock.now(), scheduledAt: clock.now() };
      by.create(
        pinnedTask(times),
        null,
        () => {},
        () => {},
      );
    }
  };
  const retriesSince = (at: number) => sent.filter((one) => one.isRetry && one.at >= at).length;
  const answerWith = (outcome: Outcome) => {
    answer = outcome;
  };
  return { clock, store, engine, boot, enqueue, batches, retriesSince, answerWith };
}

/** Exactly ten retries in ten seconds, so that extra retries after a restart are visible. */
const TEN = { retryBudget: { kind: "RATIO", ratio: 0, minPerSecond: 1, windowMs: 10_000 } };

describe("the guard state", () => {
  for (const ending of ["a stop", "a kill"] as const) {
    it(`survives ${ending}: the retry budget is not refilled, and recovers with time`, async () => {
      const { clock, engine, boot, enqueue, retriesSince } = await setup(TEN);
      enqueue(engine, 5);
      await clock.advance(3000);
      expect(retriesSince(T0)).toBe(10);
      if (ending === "a stop") await clock.run(engine.stop());
      const bootedAt = clock.now();
      await boot("node-2");
      await clock.advance(4000);
      // A kill ends the running attempts; abandoned attempts take from the budget like any others.
      expect(retriesSince(bootedAt)).toBe(0);
      await clock.advance(8000);
      expect(retriesSince(bootedAt)).toBeGreaterThan(0);
      expect(retriesSince(bootedAt)).toBeLessThanOrEqual(10);
    });
  }

  it("contains the limit and the latency, under the stored document", async () => {
    const concurrency = { algorithm: "AIMD", max: 20 };
    const { clock, engine, boot, enqueue, answerWith } = await setup({
      concurrency,
      breaker: false,
    });
    answerWith(statusOutcome(200));
    enqueue(engine, 20);
    await clock.advance(1000);
    answerWith(statusOutcome(503));
    // The limit is reduced once per round, so the failures come in waves.
    for (let wave = 0; wave < 3; wave++) {
      enqueue(engine, 20);
      await clock.advance(150);
    }
    const { guards } = engine.destination(TENANT, NAME);
    const limit = guards.concurrency && concurrencyLimit(guards.concurrency);
    expect(limit).toBeLessThan(10);
    await clock.run(engine.stop());
    const next = await boot("node-2");
    // The first claim loads the row, and the budget must first allow a retry.
    await clock.advance(12_000);
    const after = next.destination(TENANT, NAME);
    expect(after.document.concurrency?.max).toBe(20);
    expect(after.guards.concurrency?.estimate.limit).toBeLessThan(10);
    const known = [guards, after.guards].map(({ latency }) => latencyCalls(latency, next.now()));
    expect(known).toEqual([20, 20]);
  });

  it("includes the service retry budget", async () => {
    const { clock, store, engine, boot, enqueue } = await setup();
    enqueue(engine, 5);
    await clock.advance(500);
    await clock.run(engine.stop());
    const serviceBudget = (await boot("node-2")).serviceBudget?.whole;
    if (serviceBudget?.kind !== "RATIO") throw new Error("the default is RATIO");
    expect(serviceBudget.window.totals[1]).toBeGreaterThan(0);
    expect(await documentsOf(store, "retry-budget")).toHaveLength(1);
  });

  it("includes the service retry budget also when no destination is pending", () => {
    const options = guardOptionsOf(resolveDestination({}, "service"));
    const { retryBudget } = createGuards(options, T0);
    const saver = new GuardSaver(true, retryBudget && new SharedBudget(retryBudget), () => true);
    const [one, other] = ["one", "other"].map(
      (name) => new DestinationRuntime(seededRandom(1), { tenantId: TENANT, name }, T0, undefined),
    );
    const kinds = (now: number) => saver.take(now).map(({ kind }) => kind);
    if (one === undefined || other === undefined) throw new Error("two were created");
    saver.recordChange(one);
    expect(kinds(T0)).toEqual([GUARD_DOCUMENT, "retry-budget"]);
    saver.recordChange(other);
    expect(kinds(T0 + 500)).toEqual([GUARD_DOCUMENT]);
    expect(saver.isPending()).toBe(true);
    expect(kinds(T0 + 1000)).toEqual(["retry-budget"]);
    saver.recordFailure();
    expect(kinds(T0 + 1030)).toEqual(["retry-budget"]);
    expect(saver.isPending()).toBe(false);
  });

  it("is saved at most once a second, in commits that happen anyway", async () => {
    const { clock, engine, enqueue, batches } = await setup();
    for (let second = 0; second < 10; second++) {
      enqueue(engine, 20);
      await clock.advance(1000);
    }
    const carriers = batches.filter(({ documents }) =>
      documents.some(({ kind }) => kind === GUARD_DOCUMENT),
    );
    expect(carriers.length).toBeGreaterThanOrEqual(5);
    expect(carriers.length).toBeLessThanOrEqual(11);
    const alone = carriers.filter(({ settles, claims, creates }) =>
      [settles, claims, creates].every((items) => items.length === 0),
    );
    expect(alone.length).toBeLessThanOrEqual(5);
  });

  it("is saved for many destinations soon after they become idle, within the rate limit", async () => {
    const { clock, store, engine, batches, answerWith } = await setup();
    answerWith(statusOutcome(200));
    const destinations = Array.from({ length: 500 }, (_, n) => `https://${n}.example.com`);
    const times = { createdAt: clock.now(), scheduledAt: clock.now() };
    const nothing = () => {};
    for (const destination of destinations) {
      engine.create(pinnedTask({ ...times, destination }), null, nothing, nothing);
    }
    await clock.advance(500 / 0.32 + 3000);
    const written = await documentsOf(store, GUARD_DOCUMENT);
    expect(new Set(written.map(({ id }) => id))).toEqual(new Set(destinations));
    const savedAts = batches.flatMap(({ now, documents }) =>
      documents.filter(({ kind }) => kind === GUARD_DOCUMENT).map(() => now),
    );
    // At most 320 a second: of any 321, the last comes at least a second after the first.
    const durations = savedAts.slice(320).map((at, index) => at - (savedAts[index] ?? at));
    expect(Math.min(...durations)).toBeGreaterThanOrEqual(1000);
  });

  it("is saved only in an exclusive store, because two nodes would both count shared state", async () => {
    const { clock, store, engine, enqueue } = await setup(TEN, false);
    enqueue(engine, 5);
    await clock.advance(3000);
    await clock.run(engine.stop());
    expect(await documentsOf(store, GUARD_DOCUMENT)).toEqual([]);
    expect(await documentsOf(store, "retry-budget")).toEqual([]);
  });

  it("of the budget starts fresh when a user changes the budget, and stays when another part changes", async () => {
    const { clock, engine, enqueue } = await setup(TEN);
    const retries = () => {
      const { retryBudget } = engine.destination(TENANT, NAME).guards;
      return retryBudget?.kind === "RATIO" ? retryBudget.window.totals[1] : undefined;
    };
    enqueue(engine, 5);
    await clock.advance(3000);
    expect(retries()).toBe(10);
    const change = (document: object) =>
      engine.changeDestination(TENANT, NAME, { document: JSON.stringify(document) });
    await change({ ...TEN, breaker: false, policy: { maxAttempts: 50 } });
    expect(retries()).toBe(10);
    await change({ ...TEN, breaker: false, retryBudget: { ...TEN.retryBudget, minPerSecond: 2 } });
    expect(retries()).toBe(0);
  });
});

describe("the text of guard state", () => {
  const options = guardOptionsOf(resolveDestination({}, "service"));

  it("restores the same state, in few bytes", () => {
    const guards = createGuards(options, T0);
    for (const ms of [1, 5, 5, 90, 2000]) recordLatency(guards.latency, T0, ms);
    const text = encodeGuards(guards);
    expect(text.length).toBeLessThan(1500);
    const back = decodeGuards(options, text, T0);
    expect(encodeGuards(back)).toBe(text);
    expect([...back.latency.counts]).toEqual([...guards.latency.counts]);
  });

  it("contains attempts that were aborted, in few bytes", () => {
    const { policy } = resolveDestination({}, "service");
    const admission = new Admission(createGuards(options, T0), undefined, seededRandom(1));
    const { breaker } = admission.guards;
    for (const outcome of [SUCCESS, ABORTED]) {
      const permit = admission.enter(
        { kind: "first", patient: true, throttled: false },
        breaker,
        T0,
      );
      const verdict = classifyOutcome(policy, outcome);
      if (permit) admission.leave(permit, breaker, policy, outcome, verdict, 90, T0 + 90);
    }
    const text = encodeGuards(admission.guards);
    expect(text.length).toBeLessThan(1500);
    const { latency } = decodeGuards(options, text, T0 + 90);
    expect([latency.total, latency.unfinishedTotal]).toEqual([1, 1]);
    expect([...(latency.unfinished ?? [])]).toEqual([
      ...(admission.guards.latency.unfinished ?? []),
    ]);
  });

  it("of an older version is read: it has no aborted attempts and no pace of the limit", () => {
    const guards = createGuards(options, T0);
    recordLatency(guards.latency, T0, 90);
    if (guards.concurrency) guards.concurrency.estimate.limit = 7;
    const older = JSON.parse(encodeGuards(guards));
    delete older.latency.unfinished;
    delete older.concurrency.pace;
    const back = decodeGuards(options, JSON.stringify(older), T0);
    expect(latencyCalls(back.latency, T0)).toBe(1);
    expect(back.concurrency?.estimate).toMatchObject({ limit: 7, pace: 1 });
  });

  it("gives new guards if it is unreadable, and prevents no start", () => {
    const fresh = encodeGuards(createGuards(options, T0));
    for (const text of ["", "{}", "[]", "null", '{"version":2}', fresh.replace("1", "-1")]) {
      expect(encodeGuards(decodeGuards(options, text, T0))).toBe(fresh);
    }
    const huge = fresh.replace(/"size":\d+/u, '"size":1e9');
    expect(encodeGuards(decodeGuards(options, huge, T0))).toBe(fresh);
  });
});
