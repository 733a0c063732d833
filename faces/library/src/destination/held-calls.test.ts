/** Tests of held calls: they wait in order, wake when there is capacity, and cost little meanwhile. */
import { Admission } from "@redrive/core";
import { afterEach, describe, expect, test, vi } from "vitest";
import { deferred, rejectionOf, START_AT, statusError, world } from "../call/world.testing.ts";
import { type DestinationInput, destination } from "./destination.ts";

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
  test("leave in order, and each asks the guards about once", async () => {
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

  test("a call that waits for a breaker leaves when it closes, not when it was to half open", async () => {
    const { clock, shop } = shopOf({ breaker, policy: { ...ONCE, totalBudgetMs: 30_000 } });
    await rejectionOf(clock.run(shop.run(down)));
    const probe = deferred();
    const first = shop.run(() => probe.promise, { patience: "wait" });
    await clock.advance(1300);
    // The probe is out: the breaker would give it up only after the open span.
    const leftAt = shop.run(() => clock.now(), { patience: "wait" });
    await clock.advance(100);
    probe.resolve();
    await first;
    expect(await leftAt).toBe(START_AT + 1400);
  });

  test("a call that waits for one key's breaker does not hold up those of another", async () => {
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
    // One retry has taken the token, one was the trial of this second; both failed. The third waits.
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

  test("that is aborted leaves the queue to the others, and no timer", async () => {
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
  test("one 503 with a hint holds every call; then one goes first and the others follow", async () => {
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

  test("a call that it holds past its deadline ends at once, as held by retry-after", async () => {
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
  test("take a rate token: no more is sent than the rate allows", async () => {
    const { clock, shop } = shopOf({
      hedge: { after: 10, max: 1 },
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

  test("that win keep their token: a bucket for two pays for two", async () => {
    const { clock, shop } = shopOf({
      hedge: { after: 10, max: 1 },
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
