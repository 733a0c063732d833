/**
 * Tests of the guards: slots are granted in order, returned, and never lost.
 * Tests of saved state: a restarted process restores its guards and refuses invalid input.
 */
import {
  createGuards,
  DocumentError,
  guardOptionsOf,
  RedriveError,
  resolveDestination,
  seededRandom,
} from "@redrive/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { deferred, rejectionOf, START_AT, statusError, world } from "../call/world.testing.ts";
import { type DestinationInput, destination } from "./destination.ts";
import { KeyedGuards } from "./keyed-guards.ts";

const FAST = { initialDelayMs: 10, jitterType: "NONE" } as const;

function shopOf(input: DestinationInput = {}) {
  const given = world("slots");
  const { clock, random, onEvent } = given;
  return { ...given, shop: destination("shop", { clock, random, onEvent, ...input }) };
}

const fixed = (max: number, queue: number) => ({ algorithm: "FIXED", max, queue }) as const;

test("the throttle counts refusals of the server, not its failures", async () => {
  const refusedAt = async (status: number) => {
    const { clock, shop } = shopOf({ rate: { throttle: true }, policy: { maxAttempts: 1 } });
    const fail = () => Promise.reject(statusError(status));
    for (let n = 0; n < 50; n++) await rejectionOf(clock.run(shop.run(fail)));
    return shop.stats().refused;
  };
  expect(await refusedAt(500)).toBe(0);
  expect(await refusedAt(503)).toBeGreaterThan(20);
});

describe("slots", () => {
  test("are granted first come, first served", async () => {
    const { clock, shop } = shopOf({ concurrency: fixed(2, 10) });
    const order: number[] = [];
    const calls = Array.from({ length: 8 }, (_, n) =>
      shop.run(async () => {
        order.push(n);
        await clock.sleep(10);
      }),
    );
    await clock.run(Promise.all(calls));
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(clock.now() - START_AT).toBe(40);
  });

  test("never exceed the limit, and calls beyond the queue are refused as overload", async () => {
    const { clock, shop } = shopOf({ concurrency: fixed(3, 2) });
    let running = 0;
    let most = 0;
    const ends = await clock.run(
      Promise.allSettled(
        Array.from({ length: 10 }, () =>
          shop.run(async () => {
            most = Math.max(most, ++running);
            await clock.sleep(10);
            running--;
          }),
        ),
      ),
    );
    const refused = ends.filter(({ status }) => status === "rejected");
    expect(most).toBe(3);
    expect(refused).toHaveLength(5);
    for (const end of refused) {
      expect(end).toMatchObject({ reason: { code: "GAVE_UP", reason: "overload" } });
    }
    expect(shop.stats()).toMatchObject({ inFlight: 0, refused: 5 });
  });

  test("are returned however an attempt ends", async () => {
    const { clock, shop } = shopOf({ concurrency: fixed(1, 0), policy: { maxAttempts: 1 } });
    const fault = () => {
      throw new TypeError("mistake");
    };
    await clock.run(shop.run(() => 1));
    await rejectionOf(clock.run(shop.run(fault)));
    await rejectionOf(clock.run(shop.run(() => Promise.reject(statusError(503)))));
    const hang = () => new Promise(() => undefined);
    await rejectionOf(clock.run(shop.run(hang, { attemptTimeoutMs: 100 })));
    const controller = new AbortController();
    const aborted = rejectionOf(shop.run(hang, { signal: controller.signal }));
    controller.abort();
    await aborted;
    expect(shop.stats().inFlight).toBe(0);
    expect(await shop.run(() => "free")).toBe("free");
  });

  test("waiting time does not count in the attempt's duration", async () => {
    const { clock, shop } = shopOf({ concurrency: fixed(1, 5) });
    const calls = [1, 2, 3].map(() => shop.run(() => clock.sleep(100)));
    await clock.run(Promise.all(calls));
    expect(clock.now() - START_AT).toBe(300);
    expect(shop.stats().p99Ms).toBeLessThanOrEqual(104);
  });

  test("waiting time counts in the total budget", async () => {
    const policy = { maxAttempts: 1, attemptTimeoutMs: 1000, totalBudgetMs: 1000 };
    const { clock, shop } = shopOf({ concurrency: fixed(1, 5), policy });
    const first = shop.run(() => clock.sleep(400));
    const second = rejectionOf(shop.run(() => new Promise(() => undefined)));
    await clock.run(Promise.all([first, second]));
    // 600 ms are left for the attempt, late by at most a sixteenth.
    expect(clock.now() - START_AT).toBeLessThanOrEqual(1000 + 600 / 16 + 1);
    expect(clock.now() - START_AT).toBeGreaterThanOrEqual(1000);
  });

  test("a call that waited until less time is left than calls take does not start", async () => {
    const policy = { maxAttempts: 1, attemptTimeoutMs: 1000, totalBudgetMs: 1000 };
    const { clock, shop } = shopOf({ concurrency: fixed(1, 5), policy });
    let started = false;
    const first = shop.run(() => clock.sleep(700));
    const second = rejectionOf(
      shop.run(async () => {
        started = true;
      }),
    );
    const [, error] = await clock.run(Promise.all([first, second]));
    expect(error).toMatchObject({ code: "GAVE_UP", reason: "held" });
    expect([started, clock.now() - START_AT]).toEqual([false, 700]);
  });
});

describe("retries", () => {
  test("that can never get a slot end at once and delay no other call", async () => {
    const { clock, shop } = shopOf({
      concurrency: { ...fixed(2, 10), maxRetries: 0 },
      policy: { ...FAST, maxAttempts: 2, totalBudgetMs: 5000 },
    });
    const failing = rejectionOf(shop.run(() => Promise.reject(statusError(503))));
    const [one, two] = [deferred(), deferred()];
    const holders = [shop.run(() => one.promise), shop.run(() => two.promise)];
    await clock.advance(20);
    const behind = shop.run(() => "behind");
    one.resolve();
    expect(await clock.run(behind)).toBe("behind");
    two.resolve();
    await Promise.all(holders);
    expect(await clock.run(failing)).toMatchObject({ reason: "overload" });
    expect(clock.now() - START_AT).toBe(20);
  });

  test("after new credentials return the same kind of slot that they took", async () => {
    const { clock, shop } = shopOf({
      concurrency: { ...fixed(4, 0), maxRetries: 1 },
      reauthenticate: () => undefined,
      policy: FAST,
    });
    for (let n = 0; n < 3; n++) {
      const value = await clock.run(
        shop.run(({ attempt }) => (attempt === 1 ? Promise.reject(statusError(401)) : "in")),
      );
      expect(value).toBe("in");
    }
  });
});

test("a long queue that meets an open circuit is refused without deep recursion", async () => {
  const { clock, shop } = shopOf({
    concurrency: fixed(1, 2000),
    breaker: { minCalls: 1, openMs: 60_000 },
    policy: { maxAttempts: 1 },
  });
  const first = deferred();
  const holder = rejectionOf(shop.run(() => first.promise));
  const line = Array.from({ length: 2000 }, () => rejectionOf(shop.run(() => 1)));
  first.reject(statusError(503));
  await clock.run(holder);
  const ends = await clock.run(Promise.all(line));
  expect(ends.every((end) => (end as { reason?: string }).reason === "circuit-open")).toBe(true);
  expect(shop.stats().inFlight).toBe(0);
});

test("a long queue of operations that return at once runs without deep recursion", async () => {
  const { clock, shop } = shopOf({ concurrency: fixed(1, 2000) });
  const first = deferred<number>();
  const calls = [shop.run(() => first.promise)];
  for (let n = 1; n < 2000; n++) calls.push(shop.run(() => n));
  first.resolve(0);
  const values = await clock.run(Promise.all(calls));
  expect(values.at(-1)).toBe(1999);
});

test("after a breaker closes the limit ramps up from 1", async () => {
  const { clock, shop } = shopOf({
    concurrency: fixed(8, 0),
    breaker: { minCalls: 1, openMs: 100 },
    policy: { maxAttempts: 1 },
  });
  await rejectionOf(clock.run(shop.run(() => Promise.reject(statusError(503)))));
  await clock.advance(200);
  await clock.run(shop.run(() => 1));
  expect(shop.stats().concurrencyLimit).toBeLessThan(4);
  for (let n = 0; n < 10; n++) await clock.run(shop.run(() => 1));
  expect(shop.stats().concurrencyLimit).toBe(8);
});

test("a call that hangs after a breaker closed stops the others for a bounded time", async () => {
  const { clock, shop } = shopOf({
    concurrency: fixed(30, 30),
    breaker: { minCalls: 1, openMs: 100 },
    policy: { maxAttempts: 1, attemptTimeoutMs: 60_000, totalBudgetMs: 300_000 },
  });
  await rejectionOf(clock.run(shop.run(() => Promise.reject(statusError(503)))));
  await clock.advance(200);
  await clock.run(shop.run(() => clock.sleep(50)));
  let started = 0;
  const hanging = shop.run(() => clock.sleep(59_000));
  const others = Array.from({ length: 19 }, () =>
    shop.run(() => {
      started++;
      return clock.sleep(50);
    }),
  );
  // Calls take 50 ms: the ramp takes its next step after 200 ms, and then follows the answers.
  await clock.advance(150);
  expect(started).toBe(0);
  await clock.advance(1000);
  expect(started).toBe(19);
  await clock.run(Promise.all([hanging, ...others]));
  await clock.advance(0);
  expect(clock.pending()).toBe(0);
});

test("the default limit applies from the start: 50 calls at once are not refused", async () => {
  const { clock, shop } = shopOf({ concurrency: { max: 50 } });
  const calls = Array.from({ length: 50 }, () => shop.run(() => clock.sleep(20)));
  expect(await clock.run(Promise.all(calls))).toHaveLength(50);
});

test("a recovered shard does not take the slots of the others", async () => {
  const { clock, shop } = shopOf({
    concurrency: fixed(8, 0),
    breaker: { minCalls: 1, openMs: 100 },
    policy: { maxAttempts: 1 },
  });
  const key = "a";
  await rejectionOf(clock.run(shop.run(() => Promise.reject(statusError(503)), { key })));
  await clock.advance(200);
  await clock.run(shop.run(() => 1, { key }));
  expect(shop.stats().keys).toEqual({});
  expect(shop.stats().concurrencyLimit).toBe(8);
});

test("keys beyond ten thousand are deleted, oldest first", () => {
  const options = resolveDestination({ breaker: {} });
  const guards = createGuards(guardOptionsOf(options), START_AT);
  const keyedGuards = new KeyedGuards(options, guards, seededRandom(1));
  for (let n = 0; n < 10_050; n++) keyedGuards.breakerOf(`k${n}`, START_AT);
  expect(keyedGuards.breakers.size).toBe(10_000);
  expect(keyedGuards.breakers.has("k49")).toBe(false);
  expect(keyedGuards.breakers.has("k50")).toBe(true);
});

test("in any order of events, the slots in use are those of running attempts", async () => {
  const anyCall = fc.record({
    atMs: fc.integer({ min: 0, max: 40 }),
    tookMs: fc.integer({ min: 0, max: 30 }),
    status: fc.constantFrom(200, 200, 503, 401, 404),
    abortMs: fc.option(fc.integer({ min: 0, max: 40 }), { nil: undefined }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(anyCall, { minLength: 1, maxLength: 20 }), async (plan) => {
      const { clock, shop } = shopOf({
        concurrency: { ...fixed(3, 4), maxRetries: 2 },
        breaker: { minCalls: 5, openMs: 20 },
        hedge: { after: 12, max: 1 },
        reauthenticate: () => undefined,
        policy: { ...FAST, maxAttempts: 3 },
      });
      const running = new Set<AbortSignal>();
      const call = async ({ atMs, tookMs, status, abortMs }: (typeof plan)[number]) => {
        await clock.sleep(atMs);
        const controller = new AbortController();
        if (abortMs !== undefined) clock.alarm(abortMs, () => controller.abort());
        const overrides = { signal: controller.signal };
        await shop.run(async ({ signal }) => {
          running.add(signal);
          signal.addEventListener("abort", () => running.delete(signal));
          expect(running.size).toBeLessThanOrEqual(3);
          await clock.sleep(tookMs, signal).finally(() => running.delete(signal));
          if (status !== 200) throw statusError(status);
        }, overrides);
      };
      await clock.run(Promise.allSettled(plan.map(call)));
      // Long enough for the timer's last check.
      await clock.advance(10_000);
      expect(shop.stats().inFlight).toBe(0);
      expect(running.size).toBe(0);
      expect(clock.pending()).toBe(0);
    }),
    { numRuns: 30 },
  );
});

test("successes that are recorded together count as much as those recorded one by one", async () => {
  const anyStep = fc.oneof(
    { weight: 4, arbitrary: fc.constant("succeed" as const) },
    { weight: 1, arbitrary: fc.constantFrom("fail", "slow", "look", "other key") },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 3000 }) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 60 }), async (steps) => {
      const breaker = { minCalls: 5, slowCallMs: 5, slowRate: 0.5 };
      const { clock, shop } = shopOf({ policy: { maxAttempts: 1 }, breaker, retryBudget: false });
      // A budget must see every success at once, so none is deferred.
      const random = seededRandom("slots");
      const other = destination("shop", { clock, random, policy: { maxAttempts: 1 }, breaker });
      const seen = (one: typeof shop) => {
        const { guards, keys } = one.save();
        const { breaker: state, p50Ms, successes } = one.stats();
        return { breaker: guards.breaker, latency: guards.latency, keys, state, p50Ms, successes };
      };
      for (const step of steps) {
        if (typeof step === "number") await clock.advance(step);
        else if (step === "look") expect(seen(shop)).toEqual(seen(other));
        else {
          const key = step === "other key" ? { key: "k" } : {};
          const act = async () => {
            if (step === "fail") throw statusError(503);
            if (step === "slow") await clock.sleep(6);
          };
          await clock.run(Promise.allSettled([shop.run(act, key), other.run(act, key)]));
        }
      }
      expect(seen(shop)).toEqual(seen(other));
    }),
    { numRuns: 30 },
  );
});

const GUARDS = {
  policy: { maxAttempts: 1 },
  breaker: { minCalls: 2, openMs: 10_000 },
  concurrency: { algorithm: "AIMD", max: 8 },
  rate: { perSecond: 100, adaptive: true, throttle: { k: 100 } },
} as const;

const down = () => Promise.reject(statusError(500));

/** A destination whose breaker, and the breaker of one shard, are open. */
async function experienced() {
  const { clock, random } = world("life");
  const input = { ...GUARDS, clock, random };
  const shop = destination("shop", input);
  await clock.run(shop.run(() => "well"));
  for (let n = 0; n < 2; n++) {
    await rejectionOf(clock.run(shop.run(down)));
    await rejectionOf(clock.run(shop.run(down, { key: "eu" })));
  }
  const saved: unknown = JSON.parse(JSON.stringify(shop.save()));
  return { clock, input, shop, saved };
}

describe("a restored destination", () => {
  test("has its breakers open as before, per shard", async () => {
    const { input, saved } = await experienced();
    const next = destination("shop", { ...input, saved });
    expect(next.stats()).toMatchObject({ breaker: "OPEN", keys: { eu: "OPEN" } });
    expect(await rejectionOf(next.run(() => 1))).toMatchObject({ reason: "circuit-open" });
    const shard = next.run(() => 1, { key: "eu" });
    expect(await rejectionOf(shard)).toMatchObject({ reason: "circuit-open" });
    expect(await next.run(() => 1, { key: "us" })).toBe(1);
  });

  test("ages as if the process had not restarted", async () => {
    const { clock, input, saved } = await experienced();
    await clock.advance(60_000);
    expect(destination("shop", { ...input, saved }).stats().breaker).toBe("HALF_OPEN");
  });

  test("saves the same state again", async () => {
    const { input, saved } = await experienced();
    const again: unknown = JSON.parse(JSON.stringify(destination("s", { ...input, saved }).save()));
    expect(again).toEqual(saved);
  });

  test("creates a guard that was off when saved, and drops one that is off now", async () => {
    const { clock, random } = world();
    const bare = destination("shop", { clock, random }).save();
    const full = destination("shop", { ...GUARDS, clock, random, saved: bare });
    expect(full.stats()).toMatchObject({ breaker: "CLOSED", concurrencyLimit: 8 });
    const less = destination("shop", { clock, random, saved: full.save() });
    expect(less.stats().breaker).toBeUndefined();
  });
});

describe("invalid input is refused", () => {
  const restore = (saved: unknown) => () => destination("shop", { ...GUARDS, saved });

  test.each([null, 5, "text", [], {}, { version: 2 }, { version: 1 }])("%j", (saved) => {
    expect(restore(saved)).toThrow(DocumentError);
  });

  test("with a missing or an extra part", async () => {
    const { saved } = await experienced();
    const whole = saved as Record<string, unknown>;
    for (const name of Object.keys(whole)) {
      const { [name]: _, ...rest } = whole;
      expect(restore(rest)).toThrow(`saved.${name}`);
    }
    expect(restore({ ...whole, more: 1 })).toThrow('unknown field "saved.more"');
    expect(restore({ ...whole, keys: { eu: 5 } })).toThrow(RedriveError);
  });

  test("for any input: either our error or a working destination", async () => {
    const { saved } = await experienced();
    const whole = saved as { guards: Record<string, unknown> };
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...Object.keys(whole.guards)),
        fc.jsonValue(),
        async (name, value) => {
          const broken = { ...whole, guards: { ...whole.guards, [name]: value } };
          try {
            const shop = restore(broken)();
            await shop.run(() => 1).catch(() => undefined);
          } catch (error) {
            expect(error).toBeInstanceOf(RedriveError);
          }
        },
      ),
      { numRuns: 100 },
    );
  });
});
