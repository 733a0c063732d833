/**
 * Tests of the consumer: what a message is answered with.
 * Tests of duplicates: a message whose id was handled before is skipped.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { retry } from "../call/retry.ts";
import { deferred, START_AT, statusError, world } from "../call/world.testing.ts";
import { destination } from "../destination/destination.ts";
import type { IdempotencyStore } from "../idempotency/idempotency-store.ts";
import { memoryStore } from "../idempotency/memory-store.ts";
import { type ConsumeOptions, consume } from "./consume.ts";
import { deliver, guardedShop, kinds, message, START, setup } from "./consumer.testing.ts";
import type { MessageHandler } from "./message.ts";

describe("a message that is handled", () => {
  test("is acknowledged", async () => {
    const { consumer, events } = setup(() => "done");
    expect(await consumer.handle(message("m1"))).toEqual({ kind: "ack", isDuplicate: false });
    expect(events).toMatchObject([{ type: "handled", id: "m1", attempt: 1, consumer: "messages" }]);
  });

  test("passes its id to the handler, as the key of what it calls", async () => {
    const keys: string[] = [];
    const { consumer } = setup((_, { idempotencyKey }) => void keys.push(idempotencyKey));
    await consumer.handle(message("order-7"));
    expect(keys).toEqual(["order-7"]);
  });
});

describe("a message that fails", () => {
  test("is retried until an attempt succeeds", async () => {
    const attempts: number[] = [];
    const seen = setup((_, { attempt }) => {
      attempts.push(attempt);
      if (attempt < 3) throw statusError(503);
    });
    expect(kinds(await deliver(seen))).toEqual(["retry", "retry", "ack"]);
    expect(attempts).toEqual([1, 2, 3]);
  });

  test("becomes a dead letter after its last attempt, with every attempt in its history", async () => {
    const policy = { maxAttempts: 3, initialDelayMs: 200, jitterType: "NONE" } as const;
    const seen = setup(() => Promise.reject(statusError(503)), { policy });
    const all = await deliver(seen);
    expect(kinds(all)).toEqual(["retry", "retry", "dead-letter"]);
    expect(all.at(-1)).toMatchObject({
      reason: "attempts",
      error: { status: 503 },
      state: {
        attempts: 3,
        startedAt: START_AT,
        history: [
          { attempt: 1, at: START_AT, verdict: "transient", delayMs: 200 },
          { attempt: 2, at: START_AT + 200, verdict: "transient", delayMs: 400 },
          { attempt: 3, at: START_AT + 600, verdict: "transient", error: "Error: status 503" },
        ],
      },
    });
  });

  test("is not retried if the policy does not retry its error", async () => {
    const seen = setup(() => Promise.reject(statusError(404)));
    expect(await deliver(seen)).toMatchObject([{ kind: "dead-letter", reason: "not-retryable" }]);
  });

  test("waits as long as the error asks for", async () => {
    const error = Object.assign(statusError(429), { headers: { "retry-after": "7" } });
    const seen = setup(() => Promise.reject(error), { policy: { jitterType: "NONE" } });
    const [first] = await deliver(seen);
    expect(first).toMatchObject({ kind: "retry", delayMs: 7000, state: { isThrottled: true } });
  });

  test("has the total budget of its policy, counted from its first delivery", async () => {
    const policy = { maxAttempts: 100, totalBudgetMs: 1000, jitterType: "NONE" } as const;
    const seen = setup(() => Promise.reject(statusError(503)), { policy });
    const all = await deliver(seen);
    expect(all.at(-1)).toMatchObject({ kind: "dead-letter", reason: "budget" });
    expect(seen.clock.now() - START_AT).toBeLessThanOrEqual(1000);
  });

  test("becomes a dead letter if no time is left when it arrives", async () => {
    const { consumer, clock } = setup(() => "done", { policy: { totalBudgetMs: 1000 } });
    const state = { ...START, startedAt: clock.now() - 1000 };
    const answer = await consumer.handle(message("m1", { state }));
    expect(answer).toMatchObject({ kind: "dead-letter", reason: "budget" });
  });

  test("waits as often and as long as the same call in the library", async () => {
    await fc.assert(
      fc.asyncProperty(policies, fc.string({ minLength: 1 }), async (policy, id) => {
        const fail = () => Promise.reject(statusError(503));
        const { clock: time, random: draws } = world();
        const wired = { clock: time, random: draws, retryBudget: false } as const;
        const shop = destination("shop", { policy, ...wired });
        const { consumer } = setup(fail, { destination: shop, minDelayMs: 1 });
        const answers = await deliver({ consumer, clock: time }, id);
        const waits = answers.flatMap((one) => (one.kind === "retry" ? one.delayMs : []));
        const { clock, random, onEvent, events } = world();
        const wiring = { clock, random: random.fork("shop"), onEvent, idempotencyKey: id };
        await clock.run(retry(fail, { ...policy, ...wiring }).catch(() => undefined));
        const expected = events.flatMap((event) => (event.type === "retry" ? event.delayMs : []));
        expect(waits).toEqual(expected.map((delayMs) => Math.max(1, delayMs)));
      }),
      { numRuns: 50 },
    );
  });

  test("never comes back without a delay", async () => {
    await fc.assert(
      fc.asyncProperty(policies, fc.integer({ min: 1, max: 5000 }), async (policy, minDelayMs) => {
        const seen = setup(() => Promise.reject(statusError(503)), { policy, minDelayMs });
        for (const answer of await deliver(seen)) {
          if ("delayMs" in answer) expect(answer.delayMs).toBeGreaterThanOrEqual(minDelayMs);
        }
      }),
      { numRuns: 50 },
    );
  });
});

const policies = fc.record({
  maxAttempts: fc.integer({ min: 1, max: 8 }),
  initialDelayMs: fc.integer({ min: 0, max: 1000 }),
  jitterType: fc.constantFrom("FULL", "EQUAL", "DECORRELATED", "NONE"),
  totalBudgetMs: fc.constant(86_400_000),
} as const);

describe("a message whose delivery was lost", () => {
  test("uses an attempt for each loss but the first, in which no handler may have run", async () => {
    const attempts: number[] = [];
    const { consumer, events } = setup((_, { attempt }) => void attempts.push(attempt));
    for (const deliveries of [2, 3]) await consumer.handle(message("m1", { deliveries }));
    expect(attempts).toEqual([1, 2]);
    expect(events[0]).toMatchObject({ type: "lost", lost: 1, delayMs: 0 });
  });

  test("never waits in the process again, so that a further loss is one of its handler", async () => {
    const { shop } = guardedShop({ rate: { perSecond: 0.1, burst: 1 } });
    const { consumer } = setup(() => "done", { destination: shop });
    await consumer.handle(message("first"));
    const held = await consumer.handle(message("m1", { deliveries: 2 }));
    expect(held).toMatchObject({ kind: "defer", by: "guard", state: { attempts: 0, lost: 1 } });
  });

  test("is delayed first if the broker delivers it again at once", async () => {
    let calls = 0;
    const { consumer } = setup(() => void calls++);
    const answer = await consumer.handle(message("m1", { deliveries: 2, isImmediate: true }));
    expect(answer).toMatchObject({ kind: "retry", state: { attempts: 0, lost: 1 } });
    expect(answer.kind === "retry" && answer.delayMs).toBeGreaterThanOrEqual(100);
    expect(calls).toBe(0);
  });

  test("is poison after three losses in a row, and its handler does not run", async () => {
    let calls = 0;
    const { consumer } = setup(() => void calls++);
    const state = { ...START, attempts: 2, lost: 2 };
    const answer = await consumer.handle(message("m1", { deliveries: 2, state }));
    expect(answer).toMatchObject({ kind: "dead-letter", reason: "poison", state: { lost: 3 } });
    expect(calls).toBe(0);
  });

  test("is abandoned if the lost delivery was its last attempt", async () => {
    const { consumer } = setup(() => "done", { policy: { maxAttempts: 2 }, maxLost: 10 });
    const answer = await consumer.handle(message("m1", { deliveries: 4 }));
    expect(answer).toMatchObject({ kind: "dead-letter", reason: "abandoned" });
  });

  test("is not handled again if it must not be repeated", async () => {
    const { consumer } = setup(() => "done", { idempotent: false });
    const answer = await consumer.handle(message("m1", { deliveries: 2 }));
    expect(answer).toMatchObject({ kind: "dead-letter", reason: "not-idempotent" });
  });

  test("starts to count again after a result", async () => {
    const { consumer } = setup(() => Promise.reject(statusError(503)));
    const answer = await consumer.handle(message("m1", { deliveries: 2 }));
    expect(answer).toMatchObject({ kind: "retry", state: { attempts: 1, lost: 0 } });
  });

  test("runs alone among the suspects, beside other messages", async () => {
    const release = deferred();
    const { consumer } = setup(() => release.promise);
    const state = { ...START, attempts: 2, lost: 2 };
    const first = consumer.handle(message("suspect 1", { state }));
    const other = consumer.handle(message("other"));
    const second = await consumer.handle(message("suspect 2", { state }));
    expect(second).toMatchObject({ kind: "defer", by: "suspect", state });
    release.resolve();
    expect(kinds(await Promise.all([first, other]))).toEqual(["ack", "ack"]);
    expect(await consumer.handle(message("suspect 2", { state }))).toMatchObject({ kind: "ack" });
  });
});

describe("consume", () => {
  const mistakes: [object, string][] = [
    [{ concurrency: 0 }, "concurrency must be a whole number from 1 to 10000, got 0"],
    [{ minDelayMs: 0 }, "minDelayMs must be a whole number from 1 to 3600000, got 0"],
    [{ concurency: 5 }, 'unknown field "concurency", did you mean "concurrency"?'],
    [{ destination: "shop" }, 'destination must be a destination, got "shop"'],
    [{ onEvent: 3 }, "onEvent must be a function, got 3"],
    [{ pause: 5 }, "pause must be an object, got 5"],
    [{ pause: { share: 2 } }, "pause.share must be a number from 0.1 to 0.99, got 2"],
    [{ pause: { minErrors: 30 } }, "pause.minErrors must be at most pause.window, 20, got 30"],
    [
      { pause: { probeMs: 9000, maxProbeMs: 1000 } },
      "pause.maxProbeMs must be at least pause.probeMs, 9000, got 1000",
    ],
    [
      { retentionMs: 46 * 86_400_000 },
      "retentionMs must be a whole number from 60000 to 3888000000",
    ],
  ];

  test.each(mistakes)("refuses %o", (options, text) => {
    expect(() => consume(() => undefined, options)).toThrow(text);
  });

  test("refuses a policy beside a destination, which has its own", () => {
    const options = { policy: "read", destination: destination("shop") } as const;
    expect(() => consume(() => undefined, options)).toThrow("must be an option of the destination");
  });

  test("refuses a handler that is no function", () => {
    expect(() => consume(undefined as never)).toThrow("handler must be a function, got undefined");
  });
});

describe("a message with an id that was handled before", () => {
  const stored = (handler: MessageHandler<unknown>, more: ConsumeOptions = {}) => {
    const { clock } = world();
    const store = memoryStore({ clock });
    return { ...setup(handler, { clock, store, ...more }), clock, store };
  };

  test("is acknowledged, and its handler does not run", async () => {
    let calls = 0;
    const { consumer, events } = stored(() => void calls++);
    for (const isDuplicate of [false, true, true]) {
      expect(await consumer.handle(message("m1"))).toEqual({ kind: "ack", isDuplicate });
    }
    expect(calls).toBe(1);
    expect(events.map(({ type }) => type)).toEqual(["handled", "duplicate", "duplicate"]);
  });

  test("is handled again after the retention", async () => {
    const { consumer, clock } = stored(() => "done", { retentionMs: 60_000 });
    await consumer.handle(message("m1"));
    await clock.advance(60_000);
    expect(await consumer.handle(message("m1"))).toEqual({ kind: "ack", isDuplicate: false });
  });

  test("is skipped for 45 days, if the retention says so", async () => {
    const retentionMs = 45 * 86_400_000;
    const { consumer, clock } = stored(() => "done", { retentionMs });
    await consumer.handle(message("m1"));
    await clock.advance(retentionMs - 1);
    expect(await consumer.handle(message("m1"))).toEqual({ kind: "ack", isDuplicate: true });
    await clock.advance(1);
    expect(await consumer.handle(message("m1"))).toEqual({ kind: "ack", isDuplicate: false });
    expect(() => stored(() => "done", { retentionMs: retentionMs + 1 })).toThrow("retentionMs");
  });

  test("is deferred for as long as a handler runs that nothing could stop", async () => {
    let calls = 0;
    const seen = stored(
      async () => {
        calls++;
        await seen.clock.sleep(600_000);
      },
      { policy: { attemptTimeoutMs: 1000, totalBudgetMs: 3_600_000 } },
    );
    const other = setup(() => void calls++, { clock: seen.clock, store: seen.store });
    const first = seen.consumer.handle(message("m1"));
    for (let minute = 0; minute < 9; minute++) {
      await seen.clock.advance(60_000);
      const second = await other.consumer.handle(message("m1"));
      expect(second).toMatchObject({ kind: "defer", by: "in-progress" });
    }
    await seen.clock.advance(60_000);
    expect(await first).toEqual({ kind: "ack", isDuplicate: false });
    expect(await other.consumer.handle(message("m1"))).toEqual({ kind: "ack", isDuplicate: true });
    expect(calls).toBe(1);
  });

  test("is handled if the earlier attempt failed", async () => {
    const seen = stored((_, { attempt }) => (attempt < 3 ? Promise.reject(new Error("no")) : 1));
    expect(kinds(await deliver(seen))).toEqual(["retry", "retry", "ack"]);
  });

  test("is deferred while another delivery of it is handled, and uses no attempt", async () => {
    const release = deferred();
    const { consumer } = stored(() => release.promise);
    const first = consumer.handle(message("m1"));
    const second = await consumer.handle(message("m1"));
    expect(second).toMatchObject({ kind: "defer", by: "in-progress", state: { attempts: 0 } });
    const delayMs = second.kind === "defer" ? second.delayMs : Number.NaN;
    expect(delayMs).toBeGreaterThanOrEqual(2500);
    expect(delayMs).toBeLessThanOrEqual(7500);
    release.resolve();
    expect(await first).toMatchObject({ kind: "ack" });
  });

  test("belongs to its own consumer: another one with the same store handles it", async () => {
    const { consumer, store } = stored(() => "done");
    const other = setup(() => "done", { store, name: "audit" });
    await consumer.handle(message("m1"));
    expect(await other.consumer.handle(message("m1"))).toMatchObject({ isDuplicate: false });
  });

  test("may have any id", async () => {
    const { consumer } = stored(() => "done");
    for (const id of ["\u0000\n", "ü", "x".repeat(10_000)]) {
      expect(await consumer.handle(message(id))).toMatchObject({ isDuplicate: false });
      expect(await consumer.handle(message(id))).toMatchObject({ isDuplicate: true });
    }
  });

  test("waits while the store fails", async () => {
    const { store: good } = stored(() => "done");
    let isDown = true;
    const claim: typeof good.claim = (key, given) =>
      isDown ? Promise.reject(new Error("down")) : good.claim(key, given);
    let calls = 0;
    const failing = { ...bound(good), claim };
    const { consumer, clock, events } = setup(() => void calls++, { store: failing });
    const held = await consumer.handle(message("m1"));
    expect(held).toMatchObject({ kind: "defer", by: "store", state: { attempts: 0 } });
    expect(events[0]).toMatchObject({ type: "store-failed", id: "m1" });
    expect(calls).toBe(0);
    isDown = false;
    // Until the store is asked again, the queue keeps its messages.
    expect(consumer.free).toBe(0);
    const next = consumer.handle(message("m1"));
    await clock.advance(5000);
    expect(await next).toMatchObject({ kind: "ack" });
    expect(consumer.free).toBe(10);
  });

  test("is poison if its process died three times while it ran, and no other receive counts", async () => {
    const { store, clock } = stored(() => "done");
    const policy = { attemptTimeoutMs: 1000 };
    const died: string[] = [];
    for (const id of ["p1", "p2", "p3"]) {
      // Its clock stands still: nothing is ever heard of it again.
      const process = setup(() => new Promise(() => died.push(id)), { store, policy });
      void process.consumer.handle(message("m1", { receivesElsewhere: 50 }));
      await clock.advance(60_000);
    }
    let calls = 0;
    const { consumer, events } = setup(() => void calls++, { clock, store, policy });
    const answer = await consumer.handle(message("m1", { receivesElsewhere: 50 }));
    expect(answer).toMatchObject({ kind: "dead-letter", reason: "poison", state: { lost: 3 } });
    expect([died, calls]).toEqual([["p1", "p2", "p3"], 0]);
    expect(events[0]).toMatchObject({ type: "lost", lost: 3 });
  });

  /** A store that fails or does not answer from the moment that the test says, and another process on it. */
  function breakable(kind: "refused" | "silent") {
    const { clock } = world();
    const good = bound(memoryStore({ clock }));
    const state = { isDown: false, released: 0 };
    const whenUp =
      <Values extends unknown[], T>(fn: (...values: Values) => Promise<T>) =>
      async (...values: Values) => {
        if (!state.isDown) return await fn(...values);
        return await (kind === "refused"
          ? Promise.reject(new Error("down"))
          : new Promise<T>(() => undefined));
      };
    const store = {
      claim: whenUp(good.claim),
      renew: whenUp(good.renew),
      settle: whenUp(good.settle),
      release: whenUp(good.release),
      sweep: good.sweep,
    };
    let calls = 0;
    const policy = { attemptTimeoutMs: 1000 };
    const here = setup(() => void calls++, { clock, store, policy });
    const elsewhere = setup(() => void calls++, { clock, store: good, policy });
    return { clock, state, store, here, elsewhere, calls: () => calls };
  }

  test.each(["refused", "silent"] as const)(
    "is not handled again if the store is %s between its handler and its record, for ten leases",
    async (kind) => {
      const { clock, state, here, elsewhere, calls, store } = breakable(kind);
      const { claim } = store;
      store.claim = async (...values) => {
        const claimed = await claim(...values);
        state.isDown = true;
        return claimed;
      };
      const first = here.consumer.handle(message("m1"));
      // The broker has the answer soon, whatever the store does.
      await clock.advance(6000);
      expect(await first).toEqual({ kind: "ack", isDuplicate: false });
      store.claim = claim;
      // Its lease is 21 s, and nobody can renew it.
      await clock.advance(210_000);
      expect(await here.consumer.handle(message("m1"))).toEqual({ kind: "ack", isDuplicate: true });
      state.isDown = false;
      await clock.advance(10_000);
      const again = await elsewhere.consumer.handle(message("m1"));
      expect(again).toEqual({ kind: "ack", isDuplicate: true });
      expect(calls()).toBe(1);
      const failures = here.events.filter(({ type }) => type === "store-failed");
      expect(failures.length).toBeLessThan(20);
    },
  );

  test("whose record only is refused keeps its claim, so that no other process handles it", async () => {
    const { clock, state, here, elsewhere, calls, store } = breakable("refused");
    const { settle } = store;
    store.settle = () => Promise.reject(new Error("disk full"));
    await here.consumer.handle(message("m1"));
    for (let minute = 0; minute < 5; minute++) {
      await clock.advance(60_000);
      const other = await elsewhere.consumer.handle(message("m1"));
      expect(other).toMatchObject({ kind: "defer", by: "in-progress" });
    }
    store.settle = settle;
    await clock.advance(10_000);
    expect(await elsewhere.consumer.handle(message("m1"))).toMatchObject({ isDuplicate: true });
    expect([calls(), state.isDown]).toEqual([1, false]);
  });

  test("waits no longer than 5 s for a store that does not answer, and gives a late claim back", async () => {
    const { clock, here, elsewhere, calls, store } = breakable("silent");
    const { claim } = store;
    const late = deferred();
    store.claim = async (...values) => {
      await late.promise;
      return await claim(...values);
    };
    const first = here.consumer.handle(message("m1"));
    await clock.advance(6000);
    expect(await first).toMatchObject({ kind: "defer", by: "store" });
    late.resolve();
    await clock.advance(0);
    expect(await elsewhere.consumer.handle(message("m1"))).toMatchObject({ kind: "ack" });
    expect(calls()).toBe(1);
  });

  test("keeps its claim although some renewals are not answered", async () => {
    const { clock, store, elsewhere } = breakable("silent");
    const { renew } = store;
    let renewals = 0;
    store.renew = async (...values) =>
      ++renewals % 2 === 0 ? await renew(...values) : await new Promise<never>(() => undefined);
    const policy = { attemptTimeoutMs: 1000, totalBudgetMs: 3_600_000 };
    const slow = setup(() => clock.sleep(300_000), { clock, store, policy });
    const first = slow.consumer.handle(message("m1"));
    for (let second = 0; second < 290; second += 10) {
      await clock.advance(10_000);
      const other = await elsewhere.consumer.handle(message("m1"));
      expect(other).toMatchObject({ kind: "defer", by: "in-progress" });
    }
    await clock.advance(20_000);
    expect(await first).toEqual({ kind: "ack", isDuplicate: false });
  });

  test("is recorded before the consumer has stopped", async () => {
    const { clock, here, elsewhere, store } = breakable("refused");
    const { settle } = store;
    store.settle = () => Promise.reject(new Error("down"));
    await here.consumer.handle(message("m1"));
    let isStopped = false;
    const stopped = here.consumer.stop().then(() => {
      isStopped = true;
    });
    await clock.advance(10_000);
    expect(isStopped).toBe(false);
    store.settle = settle;
    await clock.advance(10_000);
    expect(isStopped).toBe(true);
    await stopped;
    expect(await elsewhere.consumer.handle(message("m1"))).toMatchObject({ isDuplicate: true });
  });

  test("does not keep a consumer from stopping for longer than it may drain", async () => {
    const { clock, here, store } = breakable("refused");
    store.settle = () => Promise.reject(new Error("down"));
    await here.consumer.handle(message("m1"));
    const stopped = here.consumer.stop(20_000);
    await clock.advance(20_000);
    await stopped;
    await clock.advance(0);
    expect(clock.pending()).toBe(0);
  });

  test("was handled even if the store could not record it", async () => {
    const { store: good } = stored(() => "done");
    const settle = () => Promise.reject(new Error("down"));
    const { consumer, events } = setup(() => "done", { store: { ...bound(good), settle } });
    expect(await consumer.handle(message("m1"))).toEqual({ kind: "ack", isDuplicate: false });
    expect(events.map(({ type }) => type)).toEqual(["handled", "store-failed"]);
  });
});

/** The store's functions, for a store that replaces some of them. */
function bound(store: IdempotencyStore): IdempotencyStore {
  return {
    claim: (key, claim) => store.claim(key, claim),
    renew: (key, owner, leaseMs) => store.renew(key, owner, leaseMs),
    settle: (key, owner, settlement) => store.settle(key, owner, settlement),
    release: (key, owner) => store.release(key, owner),
    sweep: (limit) => store.sweep(limit),
  };
}
