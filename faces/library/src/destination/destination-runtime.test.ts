/** Tests of a guarded call: the order of the guards, what each refusal says, and what patience is. */
import { describe, expect, test } from "vitest";
import { deferred, rejectionOf, START_AT, statusError, world } from "../call/world.testing.ts";
import { flaky } from "../extras/testing.ts";
import { type DestinationInput, destination } from "./destination.ts";

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

  test("counts attempts, and refuses before the function is called", async () => {
    const { clock, shop } = shopOf({ breaker, policy: ONCE });
    for (let n = 0; n < 4; n++) await rejectionOf(clock.run(shop.run(() => fail())));
    let calls = 0;
    const error = await rejectionOf(shop.run(() => calls++));
    expect(error).toMatchObject({ code: "GAVE_UP", reason: "circuit-open", attempts: [] });
    expect((error as Error).message).toBe("shop: gave up after 0 attempts (circuit-open)");
    expect(calls).toBe(0);
  });

  test("that opens under a call ends it: nothing sleeps toward a closed door", async () => {
    const { clock, shop } = shopOf({ breaker: { ...breaker, minCalls: 2 }, policy: FAST });
    const { fn, calledAt } = flaky(clock, [{ throws: statusError(503) }]);
    const error = await rejectionOf(clock.run(shop.run(fn)));
    expect(calledAt).toHaveLength(2);
    expect(error).toMatchObject({ reason: "circuit-open", cause: { status: 503 } });
    expect(clock.now() - START_AT).toBe(10);
  });

  test("lets probes through after its time, and closes on success", async () => {
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

  test("does not hear of the caller's own mistakes and aborts", async () => {
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

  test("is one per key: a sick shard closes no door to its neighbours", async () => {
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

  test("ends a call that it has nothing left for, and says so", async () => {
    const { clock, shop } = shopOf({ retryBudget, policy: FAST });
    const { fn, calledAt } = flaky(clock, [{ throws: statusError(503) }]);
    const error = await rejectionOf(clock.run(shop.run(fn)));
    expect(calledAt).toHaveLength(2);
    expect(error).toMatchObject({ reason: "retry-budget", cause: { status: 503 } });
    const next = await rejectionOf(clock.run(shop.run(fn)));
    expect(calledAt).toHaveLength(3);
    expect(next).toMatchObject({ reason: "retry-budget", attempts: [{ attempt: 1 }] });
  });

  test("is paid back by the retry that succeeds", async () => {
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
  test("waits behind an open circuit instead of failing", async () => {
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

  test("waits for the retry budget too, and pays when the wait is over", async () => {
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
  test("lets calls go one by one, each in its time", async () => {
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

  test("is no burden on the first attempt's measured time", async () => {
    const { clock, shop } = shopOf({ rate: { perSecond: 1, burst: 1 } });
    await clock.run(Promise.all([shop.run(() => 1), shop.run(() => clock.sleep(5))]));
    expect(clock.now() - START_AT).toBeGreaterThanOrEqual(1000);
    expect(shop.stats().p99Ms).toBeLessThanOrEqual(6);
  });

  test("holds a retry no longer than itself, though the retry took the last token", async () => {
    const { clock, shop } = shopOf({
      rate: { perSecond: 10, burst: 1 },
      retryBudget: { ratio: 0, minPerSecond: 1, windowMs: 1000 },
      policy: { ...FAST, maxAttempts: 2 },
    });
    const { fn, calledAt } = flaky(clock, [{ throws: statusError(503) }, { returns: 1 }]);
    await clock.run(shop.run(fn));
    expect(calledAt.map((at) => at - START_AT)).toEqual([0, 100]);
  });

  test("adapts to throttling answers", async () => {
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
  test("refuses on this side what the other side would refuse anyway", async () => {
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

test("an open circuit refuses before the rate is drawn on", async () => {
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

test("a refused call never rejects with nothing", async () => {
  const { clock, shop } = shopOf({
    concurrency: { algorithm: "FIXED", max: 1, queue: 1 },
    policy: { ...ONCE, totalBudgetMs: 300, attemptTimeoutMs: 10_000 },
  });
  const holder = shop.run(() => new Promise(() => undefined), { totalBudgetMs: 60_000 });
  const waited = await rejectionOf(clock.run(shop.run(() => 1)));
  expect(waited).toMatchObject({ code: "GAVE_UP", reason: "held", attempts: [] });
  await rejectionOf(clock.run(holder));
});
