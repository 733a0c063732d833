/**
 * Tests of guarded calls: the order of the guards, the reason of each refusal, and patience.
 * Tests of held calls: they wait in order, wake when there is capacity, and cost little.
 * Tests of reauthenticate: a 401 gets new credentials once and is never simply retried.
 */

import { Admission } from "@redrive/core";
import { afterEach, describe, expect, test, vi } from "vitest";
import { deferred, rejectionOf, START_AT, statusError, world } from "../call/world.testing.ts";
import { flaky } from "../testing.ts";
import { type DestinationInput, destination } from "./destination.ts";

describe("destination runtime", () => {
  const FAST = { initialDelayMs: 10, jitterType: "NONE" } as const;
  const ONCE = { maxAttempts: 1 } as const;

  function shopOf(input: DestinationInput = {}) {
    const given = world("guards");
    const { clock, random, onEvent } = given;
    return { ...given, shop: destination("shop", { clock, random, onEvent, ...input }) };
  }

  const fail = (status = 503) => Promise.reject(statusError(status));

  describe("the breaker", () => {
    const breaker = { minCalls: 4, openMs: 1000 };

    test("counts attempts and refuses before the operation is called", async () => {
      const { clock, shop } = shopOf({ breaker, policy: ONCE });
      for (let n = 0; n < 4; n++) await rejectionOf(clock.run(shop.run(() => fail())));
      let calls = 0;
      const error = await rejectionOf(shop.run(() => calls++));
      expect(error).toMatchObject({ code: "GAVE_UP", reason: "circuit-open", attempts: [] });
      expect((error as Error).message).toBe("shop: gave up after 0 attempts (circuit-open)");
      expect(calls).toBe(0);
    });

    test("that opens during a call ends the call at once, without a wait", async () => {
      const { clock, shop } = shopOf({ breaker: { ...breaker, minCalls: 2 }, policy: FAST });
      const { fn, calledAt } = flaky(clock, [{ throws: statusError(503) }]);
      const error = await rejectionOf(clock.run(shop.run(fn)));
      expect(calledAt).toHaveLength(2);
      expect(error).toMatchObject({ reason: "circuit-open", cause: { status: 503 } });
      expect(clock.now() - START_AT).toBe(10);
    });

    test("admits probes after its open time and closes on success", async () => {
      const { clock, shop } = shopOf({ breaker, policy: ONCE });
      for (let n = 0; n < 4; n++) await rejectionOf(clock.run(shop.run(() => fail())));
      await clock.advance(1200);
      const probe = deferred();
      const probing = shop.run(() => probe.promise);
      expect(await rejectionOf(shop.run(() => 1))).toMatchObject({ reason: "circuit-open" });
      probe.resolve();
      await probing;
      expect(shop.stats().breaker).toBe("CLOSED");
    });

    test("does not count the caller's own mistakes and aborts", async () => {
      const { clock, shop } = shopOf({ breaker: { minCalls: 1 }, policy: ONCE });
      const fault = () => {
        throw new TypeError("mistake");
      };
      await rejectionOf(clock.run(shop.run(fault)));
      await rejectionOf(clock.run(shop.run(() => fail(404))));
      const controller = new AbortController();
      const call = shop.run(() => new Promise(() => undefined), { signal: controller.signal });
      controller.abort();
      await rejectionOf(call);
      expect(shop.stats().breaker).toBe("CLOSED");
    });

    test("is separate per key: a failing shard does not stop calls to the others", async () => {
      const { clock, shop } = shopOf({ breaker: { minCalls: 2, openMs: 1000 }, policy: ONCE });
      for (let n = 0; n < 2; n++) {
        await rejectionOf(clock.run(shop.run(() => fail(), { key: "sick" })));
      }
      const refused = await rejectionOf(shop.run(() => 1, { key: "sick" }));
      expect(refused).toMatchObject({ reason: "circuit-open" });
      expect(await shop.run(() => 1, { key: "well" })).toBe(1);
      expect(await shop.run(() => 1)).toBe(1);
      expect(shop.stats()).toMatchObject({ breaker: "CLOSED", keys: { sick: "OPEN" } });
    });
  });

  describe("the retry budget", () => {
    const retryBudget = { kind: "TOKENS", maxTokens: 14, costPerRetry: 14 } as const;

    test("ends a call when it is empty, with its own reason", async () => {
      const { clock, shop } = shopOf({ retryBudget, policy: FAST });
      const { fn, calledAt } = flaky(clock, [{ throws: statusError(503) }]);
      const error = await rejectionOf(clock.run(shop.run(fn)));
      expect(calledAt).toHaveLength(2);
      expect(error).toMatchObject({ reason: "retry-budget", cause: { status: 503 } });
      const next = await rejectionOf(clock.run(shop.run(fn)));
      expect(calledAt).toHaveLength(3);
      expect(next).toMatchObject({ reason: "retry-budget", attempts: [{ attempt: 1 }] });
    });

    test("gets its token back from a retry that succeeds", async () => {
      const { clock, shop } = shopOf({ retryBudget, policy: FAST });
      for (let n = 0; n < 3; n++) {
        const { fn } = flaky(clock, [{ throws: statusError(503) }, { returns: n }]);
        expect(await clock.run(shop.run(fn))).toBe(n);
      }
    });

    test("can be turned off", async () => {
      const { clock, shop } = shopOf({ retryBudget: false, policy: { ...FAST, maxAttempts: 20 } });
      const { fn, calledAt } = flaky(clock, [{ throws: statusError(503) }]);
      await rejectionOf(clock.run(shop.run(fn, { maxDelayMs: 10 })));
      expect(calledAt).toHaveLength(20);
      expect(shop.stats().retryBudget).toBeUndefined();
    });
  });

  describe("patience", () => {
    test("waits for an open circuit instead of failing", async () => {
      const { clock, shop } = shopOf({ breaker: { minCalls: 1, openMs: 1000 }, policy: ONCE });
      await rejectionOf(clock.run(shop.run(() => fail())));
      expect(await clock.run(shop.run(() => "through", { patience: "wait" }))).toBe("through");
      expect(clock.now() - START_AT).toBeGreaterThanOrEqual(800);
      expect(clock.now() - START_AT).toBeLessThanOrEqual(1200);
    });

    test("uses no attempt while it waits", async () => {
      const { clock, shop, events } = shopOf({
        breaker: { minCalls: 1, openMs: 1000 },
        policy: { ...FAST, maxAttempts: 2 },
      });
      const { fn, calledAt } = flaky(clock, [{ throws: statusError(503) }, { returns: "ok" }]);
      expect(await clock.run(shop.run(fn, { patience: "wait" }))).toBe("ok");
      expect(calledAt).toHaveLength(2);
      expect((calledAt[1] ?? 0) - START_AT).toBeGreaterThanOrEqual(800);
      expect(events.filter(({ type }) => type === "retry")).toHaveLength(1);
    });

    test("waits for the retry budget too, and takes its token after the wait", async () => {
      const retryBudget = { ratio: 0, minPerSecond: 1, windowMs: 1000 };
      const policy = { ...FAST, maxAttempts: 4, maxDelayMs: 10 };
      const { clock, shop } = shopOf({ retryBudget, policy });
      const { fn, calledAt } = flaky(clock, [
        { throws: statusError(503) },
        { throws: statusError(503) },
        { returns: "ok" },
      ]);
      expect(await clock.run(shop.run(fn, { patience: "wait" }))).toBe("ok");
      const [first = 0, second = 0, third = 0] = calledAt;
      expect(second - first).toBe(10);
      expect(third - second).toBeGreaterThanOrEqual(900);
      expect(third - second).toBeLessThanOrEqual(1200);
    });

    test("ends with the total budget", async () => {
      const { clock, shop } = shopOf({
        breaker: { minCalls: 1, openMs: 60_000 },
        policy: { ...ONCE, totalBudgetMs: 500 },
      });
      await rejectionOf(clock.run(shop.run(() => fail())));
      const error = await rejectionOf(clock.run(shop.run(() => 1, { patience: "wait" })));
      expect(error).toMatchObject({ reason: "held", attempts: [] });
    });
  });

  describe("the rate", () => {
    test("admits calls one by one, each at its time", async () => {
      const { clock, shop } = shopOf({ rate: { perSecond: 10, burst: 1 } });
      const wentAt: number[] = [];
      const calls = Array.from({ length: 4 }, () => shop.run(() => wentAt.push(clock.now())));
      await clock.run(Promise.all(calls));
      expect(wentAt.map((at) => at - START_AT)).toEqual([0, 100, 200, 300]);
    });

    test("that holds a call past its deadline ends it at once, as held", async () => {
      const { clock, shop } = shopOf({ rate: { perSecond: 0.1, burst: 1 } });
      await shop.run(() => 1);
      const error = await rejectionOf(clock.run(shop.run(() => 1, { totalBudgetMs: 2000 })));
      expect(error).toMatchObject({ code: "GAVE_UP", reason: "held", attempts: [] });
    });

    test("does not count in the first attempt's duration", async () => {
      const { clock, shop } = shopOf({ rate: { perSecond: 1, burst: 1 } });
      await clock.run(Promise.all([shop.run(() => 1), shop.run(() => clock.sleep(5))]));
      expect(clock.now() - START_AT).toBeGreaterThanOrEqual(1000);
      expect(shop.stats().p99Ms).toBeLessThanOrEqual(6);
    });

    test("holds a retry no longer than needed, although the retry took the last token", async () => {
      const { clock, shop } = shopOf({
        rate: { perSecond: 10, burst: 1 },
        retryBudget: { ratio: 0, minPerSecond: 1, windowMs: 1000 },
        policy: { ...FAST, maxAttempts: 2 },
      });
      const { fn, calledAt } = flaky(clock, [{ throws: statusError(503) }, { returns: 1 }]);
      await clock.run(shop.run(fn));
      expect(calledAt.map((at) => at - START_AT)).toEqual([0, 100]);
    });

    test("adapts to throttling responses", async () => {
      const { clock, shop } = shopOf({ rate: { adaptive: true }, policy: ONCE });
      for (let n = 0; n < 20; n++) {
        await clock.run(shop.run(() => clock.sleep(50)));
      }
      await rejectionOf(clock.run(shop.run(() => fail(429))));
      const before = clock.now();
      await clock.run(Promise.all(Array.from({ length: 5 }, () => shop.run(() => 1))));
      expect(clock.now()).toBeGreaterThan(before);
    });
  });

  describe("the throttle", () => {
    test("refuses locally what the server would refuse anyway", async () => {
      const { clock, shop } = shopOf({ rate: { throttle: { k: 1 } }, policy: ONCE });
      const reasons: unknown[] = [];
      for (let n = 0; n < 60; n++) {
        const error = await rejectionOf(clock.run(shop.run(() => fail())));
        reasons.push((error as { reason?: unknown }).reason);
      }
      const refused = reasons.filter((reason) => reason === "overload").length;
      expect(refused).toBeGreaterThan(30);
      expect(shop.stats()).toMatchObject({ refused, firsts: 60 - refused });
    });
  });

  test("an open circuit refuses before the rate limit takes a token", async () => {
    const { clock, shop } = shopOf({
      breaker: { minCalls: 1, openMs: 1000 },
      rate: { perSecond: 1, burst: 2 },
      policy: ONCE,
    });
    await rejectionOf(clock.run(shop.run(() => fail())));
    for (let n = 0; n < 5; n++) {
      expect(await rejectionOf(shop.run(() => 1))).toMatchObject({ reason: "circuit-open" });
    }
    await clock.advance(1200);
    const before = clock.now();
    await clock.run(shop.run(() => 1));
    expect(clock.now()).toBe(before);
  });

  test("a refused call always rejects with an error", async () => {
    const { clock, shop } = shopOf({
      concurrency: { algorithm: "FIXED", max: 1, queue: 1 },
      policy: { ...ONCE, totalBudgetMs: 300, attemptTimeoutMs: 10_000 },
    });
    const holder = shop.run(() => new Promise(() => undefined), { totalBudgetMs: 60_000 });
    const waited = await rejectionOf(clock.run(shop.run(() => 1)));
    expect(waited).toMatchObject({ code: "GAVE_UP", reason: "held", attempts: [] });
    await rejectionOf(clock.run(holder));
  });
});

describe("held calls", () => {
  function shopOf(input: DestinationInput = {}) {
    const given = world("held");
    const { clock, random, onEvent } = given;
    return { ...given, shop: destination("shop", { clock, random, onEvent, ...input }) };
  }

  afterEach(() => vi.restoreAllMocks());

  const FAST = { initialDelayMs: 10, jitterType: "NONE" } as const;
  const ONCE = { maxAttempts: 1 } as const;
  const down = () => Promise.reject(statusError(503));

  describe("10,000 calls held by a rate of 1,000 per second", () => {
    test("start in order, and each asks the guards about once", async () => {
      const enters = vi.spyOn(Admission.prototype, "enter");
      const { clock, shop } = shopOf({
        rate: { perSecond: 1000, burst: 1 },
        policy: { ...ONCE, totalBudgetMs: 60_000 },
      });
      const order: number[] = [];
      const calls = Array.from({ length: 10_000 }, (_, n) => shop.run(() => void order.push(n)));
      await clock.run(Promise.all(calls));
      expect(order).toEqual(Array.from({ length: 10_000 }, (_, n) => n));
      expect(clock.now() - START_AT).toBe(9999);
      expect(enters.mock.calls.length).toBeLessThan(25_000);
    });
  });

  describe("patience", () => {
    const breaker = { minCalls: 1, openMs: 1000, halfOpenProbes: 1 } as const;

    test("a call that waits for a breaker starts when it closes, not when it would half-open", async () => {
      const { clock, shop } = shopOf({ breaker, policy: { ...ONCE, totalBudgetMs: 30_000 } });
      await rejectionOf(clock.run(shop.run(down)));
      const probe = deferred();
      const first = shop.run(() => probe.promise, { patience: "wait" });
      await clock.advance(1300);
      // The probe runs: the breaker would give it up only after the open time.
      const leftAt = shop.run(() => clock.now(), { patience: "wait" });
      await clock.advance(100);
      probe.resolve();
      await first;
      expect(await leftAt).toBe(START_AT + 1400);
    });

    test("a call that waits for one key's breaker does not delay calls with another key", async () => {
      const { clock, shop } = shopOf({ breaker, policy: { ...ONCE, totalBudgetMs: 30_000 } });
      await rejectionOf(clock.run(shop.run(down, { key: "sick" })));
      const waits = shop.run(() => "later", { key: "sick", patience: "wait" });
      expect(await shop.run(() => "at once", { key: "well", patience: "wait" })).toBe("at once");
      expect(await clock.run(waits)).toBe("later");
    });
  });

  describe("a held retry", () => {
    test("does not block first attempts", async () => {
      const { clock, shop, events } = shopOf({
        policy: { ...FAST, maxAttempts: 2, totalBudgetMs: 5000 },
        retryBudget: {
          kind: "TOKENS",
          maxTokens: 1,
          costPerRetry: 1,
          costPerThrottle: 1,
          refillPerSuccess: 0,
        },
      });
      let isDown = true;
      const flaky = () => (isDown ? down() : "up");
      const calls = [1, 2, 3].map(() => shop.run(flaky, { patience: "wait" }).catch(() => "lost"));
      await clock.advance(20);
      isDown = false;
      // One retry took the token, one was the trial of this second; both failed. The third waits.
      expect(events.filter(({ type }) => type === "hold")).toMatchObject([{ by: "retry-budget" }]);
      expect(await shop.run(() => "first")).toBe("first");
      expect(await clock.run(Promise.all(calls))).toEqual(["lost", "lost", "up"]);
      expect(clock.now() - START_AT).toBe(1010);
    });
  });

  describe("a fail-fast call that waits for a slot", () => {
    test("is refused as soon as the breaker opens", async () => {
      const { clock, shop } = shopOf({
        breaker: { minCalls: 1, openMs: 5000 },
        concurrency: { algorithm: "FIXED", max: 1, queue: 5 },
        policy: { ...ONCE, totalBudgetMs: 30_000 },
      });
      const running = shop.run(async () => {
        await clock.sleep(100);
        throw statusError(503);
      });
      const waiting = shop.run(() => "never");
      const ends = await clock.run(Promise.allSettled([running, waiting]));
      expect(ends[1]).toMatchObject({ reason: { reason: "circuit-open" } });
      expect(clock.now() - START_AT).toBe(100);
    });

    test("that is aborted leaves the queue and no timer", async () => {
      const { clock, shop } = shopOf({
        rate: { perSecond: 1, burst: 1 },
        policy: { ...ONCE, totalBudgetMs: 30_000 },
      });
      await shop.run(() => 1);
      const controller = new AbortController();
      const aborted = rejectionOf(shop.run(() => 1, { signal: controller.signal }));
      controller.abort(new Error("changed my mind"));
      expect(await aborted).toMatchObject({ message: "changed my mind" });
      await clock.advance(0);
      expect(clock.pending()).toBe(0);
    });
  });

  describe("the Retry-After gate", () => {
    test("one 503 with a hint holds every call; then one starts first and the others follow", async () => {
      const { clock, shop } = shopOf({
        retryAfterGate: { maxGateMs: 60_000 },
        policy: { ...ONCE, totalBudgetMs: 30_000 },
      });
      const asks = Object.assign(new Error("busy"), { status: 503 });
      const classify = () => ({ kind: "status", status: 503, retryAfterMs: 2000 }) as const;
      await rejectionOf(clock.run(shop.run(() => Promise.reject(asks), { classify })));
      const startedAt: number[] = [];
      const calls = [1, 2, 3].map(() =>
        shop.run(async () => {
          startedAt.push(clock.now() - START_AT);
          await clock.sleep(50);
        }),
      );
      await clock.run(Promise.all(calls));
      expect(startedAt).toEqual([2000, 2050, 2050]);
    });

    test("a call held past its deadline ends at once, as held by retry-after", async () => {
      const { clock, shop, events } = shopOf({ retryAfterGate: {}, policy: ONCE });
      const classify = () => ({ kind: "status", status: 503, retryAfterMs: 60_000 }) as const;
      await rejectionOf(clock.run(shop.run(down, { classify })));
      const error = await rejectionOf(clock.run(shop.run(() => 1)));
      expect(error).toMatchObject({ code: "GAVE_UP", reason: "held" });
      expect(events.at(-1)).toMatchObject({ type: "give-up", reason: "held", by: "retry-after" });
      expect(clock.now()).toBe(START_AT);
    });
  });

  describe("hedges", () => {
    test("take a rate token: the rate is never exceeded", async () => {
      const { clock, shop } = shopOf({
        hedge: { after: 10, max: 1 },
        idempotent: true,
        rate: { perSecond: 20, burst: 1 },
        policy: { ...ONCE, totalBudgetMs: 60_000 },
        retryBudget: false,
      });
      let sent = 0;
      const calls = Array.from({ length: 40 }, () =>
        shop.run(async () => {
          sent++;
          await clock.sleep(40);
        }),
      );
      await clock.run(Promise.all(calls));
      expect(sent).toBeLessThanOrEqual(1 + (clock.now() - START_AT) / 50);
    });

    test("that win keep their token: a bucket of two allows two", async () => {
      const { clock, shop } = shopOf({
        hedge: { after: 10, max: 1 },
        idempotent: true,
        retryBudget: {
          kind: "TOKENS",
          maxTokens: 2,
          costPerRetry: 1,
          costPerThrottle: 1,
          refillPerSuccess: 0,
        },
        policy: ONCE,
      });
      for (let n = 0; n < 40; n++) {
        await clock.run(shop.run(({ copy }) => clock.sleep(copy === 0 ? 100 : 1)));
      }
      expect(shop.stats().hedges).toBe(2);
    });
  });
});

describe("reauthentication", () => {
  function shopOf(input: DestinationInput = {}) {
    const given = world("credentials");
    const { clock, random, onEvent } = given;
    return { ...given, shop: destination("shop", { clock, random, onEvent, ...input }) };
  }

  /** A service that accepts only one token. */
  function guarded(good: () => string, token: () => string) {
    const fn = async () => {
      fn.calls++;
      if (token() !== good()) throw statusError(401);
      return "in";
    };
    fn.calls = 0;
    return fn;
  }

  describe("a 401", () => {
    test("is not retried without reauthenticate", async () => {
      const { clock, shop } = shopOf();
      let calls = 0;
      const fn = () => {
        calls++;
        throw statusError(401);
      };
      expect(await rejectionOf(clock.run(shop.run(fn)))).toMatchObject({ status: 401 });
      expect(calls).toBe(1);
    });

    test("gets new credentials and is repeated at once", async () => {
      let token = "old";
      const { clock, shop, events } = shopOf({
        reauthenticate: () => {
          token = "new";
        },
      });
      const fn = guarded(
        () => "new",
        () => token,
      );
      expect(await clock.run(shop.run(fn))).toBe("in");
      expect(fn.calls).toBe(2);
      expect(clock.now()).toBe(START_AT);
      expect(events.map(({ type }) => type)).toEqual([
        "attempt-failed",
        "reauthenticate",
        "success",
      ]);
    });

    test("starts a new renewal if the previous one never ends", async () => {
      let token = "old";
      let renewals = 0;
      const { clock, shop } = shopOf({
        policy: { totalBudgetMs: 1000, attemptTimeoutMs: 500 },
        reauthenticate: async () => {
          if (++renewals === 1) await new Promise(() => undefined);
          token = "new";
        },
      });
      const fn = guarded(
        () => "new",
        () => token,
      );
      expect(await rejectionOf(clock.run(shop.run(fn)))).toMatchObject({ status: 401 });
      expect(clock.now()).toBe(START_AT + 1000);
      expect(await clock.run(shop.run(fn))).toBe("in");
    });

    test("keeps a newer renewal when an older waiter gives up", async () => {
      let renewals = 0;
      let finish = () => {};
      const { clock, shop } = shopOf({
        policy: { totalBudgetMs: 1000, attemptTimeoutMs: 500 },
        reauthenticate: () =>
          ++renewals === 1
            ? new Promise(() => undefined)
            : new Promise<void>((resolve) => {
                finish = resolve;
              }),
      });
      const refused = () => Promise.reject(statusError(401));
      const run = () => shop.run(refused).catch(() => "refused");
      const calls = [run()];
      await clock.advance(300);
      calls.push(run());
      // The first gives up on the renewal that hangs; the next starts a new one; then the second gives up.
      await clock.advance(800);
      calls.push(run());
      await clock.advance(300);
      calls.push(run());
      await clock.advance(1);
      finish();
      expect(await clock.run(Promise.all(calls))).toEqual(Array(4).fill("refused"));
      expect(renewals).toBe(2);
    });

    test("is repeated even with a policy of one attempt, and only once", async () => {
      let renewals = 0;
      const { clock, shop } = shopOf({
        policy: { maxAttempts: 1 },
        reauthenticate: () => {
          renewals++;
        },
      });
      const fn = guarded(
        () => "other",
        () => "mine",
      );
      const error = await rejectionOf(clock.run(shop.run(fn)));
      expect(error).toMatchObject({ reason: "not-retryable", cause: { status: 401 } });
      expect(error).toMatchObject({ attempts: [{ attempt: 1, status: 401 }, { attempt: 2 }] });
      expect(fn.calls).toBe(2);
      expect(renewals).toBe(1);
    });

    test("is repeated with a policy of one attempt although the rate limit holds it", async () => {
      let token = "old";
      const { clock, shop } = shopOf({
        policy: { maxAttempts: 1 },
        rate: { perSecond: 10, burst: 1 },
        reauthenticate: () => {
          token = "new";
        },
      });
      const fn = guarded(
        () => "new",
        () => token,
      );
      expect(await clock.run(shop.run(fn))).toBe("in");
      expect(clock.now() - START_AT).toBe(100);
    });

    test("does not repeat a call that can be sent only once", async () => {
      const { clock, shop } = shopOf({ reauthenticate: () => undefined });
      const fn = guarded(
        () => "other",
        () => "mine",
      );
      await rejectionOf(clock.run(shop.run(fn, { once: true })));
      expect(fn.calls).toBe(1);
    });

    test("takes no token of the retry budget", async () => {
      const retryBudget = {
        kind: "TOKENS",
        maxTokens: 1,
        costPerRetry: 1,
        costPerThrottle: 1,
      } as const;
      let token = "old";
      const { clock, shop } = shopOf({
        retryBudget,
        reauthenticate: () => {
          token = "new";
        },
      });
      const fn = guarded(
        () => "new",
        () => token,
      );
      await clock.run(shop.run(fn));
      expect(shop.stats().retryBudget).toBe(true);
    });
  });

  describe("the renewal", () => {
    test("is shared by calls that fail at the same time", async () => {
      let renewals = 0;
      let token = "old";
      const { clock, shop } = shopOf({
        reauthenticate: async () => {
          renewals++;
          await clock.sleep(50);
          token = "new";
        },
      });
      const fn = guarded(
        () => "new",
        () => token,
      );
      const values = await clock.run(Promise.all([shop.run(fn), shop.run(fn), shop.run(fn)]));
      expect(values).toEqual(["in", "in", "in"]);
      expect(renewals).toBe(1);
    });

    test("starts again when credentials expire later", async () => {
      let renewals = 0;
      let [good, token] = ["1", "0"];
      const { clock, shop } = shopOf({
        reauthenticate: () => {
          renewals++;
          token = good;
        },
      });
      const fn = guarded(
        () => good,
        () => token,
      );
      await clock.run(shop.run(fn));
      good = "2";
      await clock.run(shop.run(fn));
      expect(renewals).toBe(2);
    });

    test("that fails ends the call with its own error", async () => {
      const own = new Error("password changed");
      const { clock, shop } = shopOf({ reauthenticate: () => Promise.reject(own) });
      expect(await rejectionOf(clock.run(shop.run(() => Promise.reject(statusError(401)))))).toBe(
        own,
      );
      const throws = () => {
        throw own;
      };
      const other = shopOf({ reauthenticate: throws });
      const call = other.shop.run(() => Promise.reject(statusError(401)));
      expect(await rejectionOf(other.clock.run(call))).toBe(own);
    });

    test("that never ends is given up with the total budget", async () => {
      const { promise } = deferred();
      const { clock, shop } = shopOf({
        reauthenticate: () => promise,
        policy: { totalBudgetMs: 2000 },
      });
      const call = shop.run(() => Promise.reject(statusError(401)));
      expect(await rejectionOf(clock.run(call))).toMatchObject({ status: 401 });
      expect(clock.now() - START_AT).toBe(2000);
      await clock.advance(0);
      expect(clock.pending()).toBe(0);
    });
  });
});
