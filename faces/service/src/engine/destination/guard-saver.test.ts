/** Tests that what the guards have learnt outlives the process, by a stop and by a kill, and heals. */
import {
  concurrencyLimit,
  createGuards,
  guardOptionsOf,
  latencyCalls,
  type Outcome,
  recordLatency,
  resolveDestination,
  seededRandom,
  statusOutcome,
  virtualClock,
} from "@redrive/core";
import { describe, expect, it } from "vitest";
import { unstarted } from "../../deliver/attempt-result.ts";
import type { Batch } from "../../model/batch.ts";
import { memoryStore } from "../../stores/memory/memory-store.ts";
import { newTask, T0, TENANT } from "../../stores/store.testing.ts";
import { Engine } from "../engine.ts";
import { DestinationRuntime } from "./destination-runtime.ts";
import { decodeGuards, encodeGuards } from "./guard-codec.ts";
import { GUARD_DOCUMENT, GuardSaver } from "./guard-saver.ts";

const PLACE = "https://example.com";
const FAILED = statusOutcome(500);

/** Engines on one store, one after the other; what they send is answered after 10 ms. */
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
        const end = (outcome: Outcome) => done({ ...unstarted(outcome, null), durationMs: 10 });
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
  await engine.changeDestination(TENANT, PLACE, {
    document: JSON.stringify({ breaker: false, ...document }),
  });
  const enqueue = (by: Engine, count: number) => {
    for (let n = 0; n < count; n++) {
      const times = { createdAt: clock.now(), scheduledAt: clock.now() };
      by.create(
        newTask(times),
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

/** A fixed ten retries in ten seconds, so that what a restart would add is plain to see. */
const TEN = { retryBudget: { kind: "RATIO", ratio: 0, minPerSecond: 1, windowMs: 10_000 } };

describe("what guards have learnt", () => {
  for (const ending of ["a stop", "a kill"] as const) {
    it(`outlives ${ending}: the retry budget is not refilled by it, and heals with time`, async () => {
      const { clock, engine, boot, enqueue, retriesSince } = await setup(TEN);
      enqueue(engine, 5);
      await clock.advance(3000);
      expect(retriesSince(T0)).toBe(10);
      if (ending === "a stop") await clock.run(engine.stop());
      const bootedAt = clock.now();
      await boot("node-2");
      await clock.advance(4000);
      // A kill takes what was running along; abandoned attempts draw like any others.
      expect(retriesSince(bootedAt)).toBe(0);
      await clock.advance(8000);
      expect(retriesSince(bootedAt)).toBeGreaterThan(0);
      expect(retriesSince(bootedAt)).toBeLessThanOrEqual(10);
    });
  }

  it("has the limit and the latency that were found, under the document that stands", async () => {
    const concurrency = { algorithm: "AIMD", max: 40 };
    const { clock, engine, boot, enqueue, answerWith } = await setup({
      concurrency,
      breaker: false,
    });
    answerWith(statusOutcome(200));
    enqueue(engine, 20);
    await clock.advance(1000);
    answerWith(statusOutcome(503));
    // The limit is cut once per round trip, so the failures come one after the other.
    for (let wave = 0; wave < 15; wave++) {
      enqueue(engine, 2);
      await clock.advance(150);
    }
    const { guards } = engine.destination(TENANT, PLACE);
    const limit = guards.concurrency && concurrencyLimit(guards.concurrency);
    expect(limit).toBeLessThan(10);
    await clock.run(engine.stop());
    const next = await boot("node-2");
    // The row is learnt with the first claim, for which the budget has to let a retry through.
    await clock.advance(12_000);
    const after = next.destination(TENANT, PLACE);
    expect(after.document.concurrency?.max).toBe(40);
    expect(after.guards.concurrency?.estimate.limit).toBeLessThan(10);
    const known = [guards, after.guards].map(({ latency }) => latencyCalls(latency, next.now()));
    expect(known).toEqual([20, 20]);
  });

  it("is the whole service's budget too", async () => {
    const { clock, store, engine, boot, enqueue } = await setup();
    enqueue(engine, 5);
    await clock.advance(500);
    await clock.run(engine.stop());
    const { serviceBudget: wholeBudget } = await boot("node-2");
    if (wholeBudget?.kind !== "RATIO") throw new Error("the default is RATIO");
    expect(wholeBudget.window.totals[1]).toBeGreaterThan(0);
    expect(await store.documents.list("retry-budget")).toHaveLength(1);
  });

  it("has the whole service's budget written though no destination waits to be", () => {
    const options = guardOptionsOf(resolveDestination({}, "service"));
    const notes = new GuardSaver(true, createGuards(options, T0).retryBudget);
    const [one, other] = ["one", "other"].map(
      (name) => new DestinationRuntime(seededRandom(1), { tenantId: TENANT, name }, T0, undefined),
    );
    const kinds = (now: number) => notes.take(now).map(({ kind }) => kind);
    if (one === undefined || other === undefined) throw new Error("two were made");
    notes.recordChange(one);
    expect(kinds(T0)).toEqual([GUARD_DOCUMENT, "retry-budget"]);
    notes.recordChange(other);
    expect(kinds(T0 + 500)).toEqual([GUARD_DOCUMENT]);
    expect(notes.isPending()).toBe(true);
    expect(kinds(T0 + 1000)).toEqual(["retry-budget"]);
    notes.recordFailure();
    expect(kinds(T0 + 1030)).toEqual(["retry-budget"]);
    expect(notes.isPending()).toBe(false);
  });

  it("is written once a second at most, with commits that are made anyway", async () => {
    const { clock, engine, enqueue, batches } = await setup();
    for (let second = 0; second < 10; second++) {
      enqueue(engine, 20);
      await clock.advance(1000);
    }
    const carriers = batches.filter(({ documents: notes }) =>
      notes.some(({ kind }) => kind === GUARD_DOCUMENT),
    );
    expect(carriers.length).toBeGreaterThanOrEqual(5);
    expect(carriers.length).toBeLessThanOrEqual(11);
    const alone = carriers.filter(({ settles, claims, creates }) =>
      [settles, claims, creates].every((items) => items.length === 0),
    );
    expect(alone.length).toBeLessThanOrEqual(5);
  });

  it("is written of many destinations soon after they went quiet, and never above its pace", async () => {
    const { clock, store, engine, batches, answerWith } = await setup();
    answerWith(statusOutcome(200));
    const destinations = Array.from({ length: 500 }, (_, n) => `https://${n}.example.com`);
    const times = { createdAt: clock.now(), scheduledAt: clock.now() };
    const nothing = () => {};
    for (const destination of destinations) {
      engine.create(newTask({ ...times, destination }), null, nothing, nothing);
    }
    await clock.advance(500 / 0.32 + 3000);
    const written = await store.documents.list(GUARD_DOCUMENT);
    expect(new Set(written.map(({ id }) => id))).toEqual(new Set(destinations));
    const notes = batches.flatMap(({ now, documents: all }) =>
      all.filter(({ kind }) => kind === GUARD_DOCUMENT).map(() => now),
    );
    // At most 320 a second: of any 321, the last came a second or more after the first.
    const spans = notes.slice(320).map((at, index) => at - (notes[index] ?? at));
    expect(Math.min(...spans)).toBeGreaterThanOrEqual(1000);
  });

  it("is kept to a node's own store: another's past would be counted by both", async () => {
    const { clock, store, engine, enqueue } = await setup(TEN, false);
    enqueue(engine, 5);
    await clock.advance(3000);
    await clock.run(engine.stop());
    expect(await store.documents.list(GUARD_DOCUMENT)).toEqual([]);
    expect(await store.documents.list("retry-budget")).toEqual([]);
  });

  it("starts anew when people change the budget, and goes on when they change something else", async () => {
    const { clock, engine, enqueue } = await setup(TEN);
    const retries = () => {
      const { retryBudget } = engine.destination(TENANT, PLACE).guards;
      return retryBudget?.kind === "RATIO" ? retryBudget.window.totals[1] : undefined;
    };
    enqueue(engine, 5);
    await clock.advance(3000);
    expect(retries()).toBe(10);
    const change = (document: object) =>
      engine.changeDestination(TENANT, PLACE, { document: JSON.stringify(document) });
    await change({ ...TEN, breaker: false, policy: { maxAttempts: 50 } });
    expect(retries()).toBe(10);
    await change({ ...TEN, breaker: false, retryBudget: { ...TEN.retryBudget, minPerSecond: 2 } });
    expect(retries()).toBe(0);
  });
});

describe("a note of guards", () => {
  const options = guardOptionsOf(resolveDestination({}, "service"));

  it("brings back what was put in, in few bytes", () => {
    const guards = createGuards(options, T0);
    for (const ms of [1, 5, 5, 90, 2000]) recordLatency(guards.latency, T0, ms);
    const text = encodeGuards(guards);
    expect(text.length).toBeLessThan(1500);
    const back = decodeGuards(options, text, T0);
    expect(encodeGuards(back)).toBe(text);
    expect([...back.latency.counts]).toEqual([...guards.latency.counts]);
  });

  it("that cannot be read gives fresh guards, and stops nothing", () => {
    const fresh = encodeGuards(createGuards(options, T0));
    for (const text of ["", "{}", "[]", "null", '{"version":2}', fresh.replace("1", "-1")]) {
      expect(encodeGuards(decodeGuards(options, text, T0))).toBe(fresh);
    }
    const huge = fresh.replace(/"size":\d+/u, '"size":1e9');
    expect(encodeGuards(decodeGuards(options, huge, T0))).toBe(fresh);
  });
});
