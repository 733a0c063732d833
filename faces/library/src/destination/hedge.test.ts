/** Tests of hedging: when a copy is sent, what it costs, which one wins, and what the loser does. */
import { seededRandom, statusOutcome } from "@redrive/core";
import { describe, expect, test } from "vitest";
import type { AttemptContext, Classify } from "../call/options.ts";
import { rejectionOf, START_AT, statusError, world } from "../call/world.testing.ts";
import { flaky, type Step } from "../testing.ts";
import { type DestinationInput, destination } from "./destination.ts";
import { hedge } from "./hedge.ts";

const FAST = { initialDelayMs: 10, jitterType: "NONE" } as const;

function shopOf(input: DestinationInput = {}) {
  const given = world("hedge");
  const { clock, random, onEvent } = given;
  return {
    ...given,
    shop: destination("shop", { clock, random, onEvent, idempotent: true, ...input }),
  };
}

const slow: Step<string> = { returns: "slow", afterMs: 1000 };
const quick: Step<string> = { returns: "quick", afterMs: 10 };

test("the Retry-After of one copy holds although the other copy has none", async () => {
  const { clock, shop } = shopOf({ hedge: { after: 100 }, policy: FAST });
  const asks: Step<string> = { throws: 10_000, afterMs: 150 };
  const fails: Step<string> = { throws: undefined, afterMs: 100 };
  const { fn, calledAt } = flaky(clock, [asks, fails, quick]);
  const classify: Classify<string> = (ending) =>
    "error" in ending ? statusOutcome(503, ending.error as number | undefined) : undefined;
  expect(await clock.run(shop.run(fn, { classify }))).toBe("quick");
  // Asked for 10 s at 150; the copy failed at 200.
  expect(calledAt.map((at) => at - START_AT)).toEqual([0, 100, 10_150]);
});

test("a destination that asked for a wait gets no further copy", async () => {
  const { clock, shop } = shopOf({ hedge: { after: 100, max: 3 }, policy: FAST });
  const asks: Step<string> = { throws: 10_000, afterMs: 150 };
  const fails: Step<string> = { throws: undefined, afterMs: 1000 };
  const { fn, calledAt } = flaky(clock, [asks, fails, quick]);
  const classify: Classify<string> = (ending) =>
    "error" in ending ? statusOutcome(503, ending.error as number | undefined) : undefined;
  expect(await clock.run(shop.run(fn, { classify }))).toBe("quick");
  expect(calledAt.map((at) => at - START_AT)).toEqual([0, 100, 10_150]);
});

describe("a slow call", () => {
  test("gets a copy after a fixed delay, and the first result is taken", async () => {
    const { clock, shop, events } = shopOf({ hedge: { after: 100 } });
    const { fn, calledAt, contexts } = flaky(clock, [slow, quick]);
    expect(await clock.run(shop.run(fn))).toBe("quick");
    expect(calledAt.map((at) => at - START_AT)).toEqual([0, 100]);
    expect(contexts.map(({ attempt }) => attempt)).toEqual([1, 1]);
    expect(events).toEqual([
      { type: "hedge", at: START_AT + 100, destination: "shop", attempt: 1, copy: 1, afterMs: 100 },
      {
        type: "success",
        at: START_AT + 110,
        destination: "shop",
        attempt: 1,
        copy: 1,
        durationMs: 110,
      },
    ]);
    expect(shop.stats()).toMatchObject({ firsts: 1, hedges: 1, retries: 0, successes: 1 });
  });

  test("aborts the loser, not the winner", async () => {
    const { clock, shop } = shopOf({ hedge: { after: 100 } });
    const { fn, contexts } = flaky(clock, [slow, quick]);
    await clock.run(shop.run(fn));
    expect(contexts[0]?.signal.aborted).toBe(true);
    expect(contexts[0]?.signal.reason).toMatchObject({ code: "HEDGE_LOST" });
    expect(contexts[1]?.signal.aborted).toBe(false);
  });

  test("can be won by the original, and the copy is aborted", async () => {
    const { clock, shop } = shopOf({ hedge: { after: 100 } });
    const { fn, contexts } = flaky(clock, [{ returns: "first", afterMs: 150 }, slow]);
    expect(await clock.run(shop.run(fn))).toBe("first");
    expect(contexts[1]?.signal.aborted).toBe(true);
    expect(contexts[0]?.signal.aborted).toBe(false);
  });

  test("gets as many copies as allowed, one delay apart", async () => {
    const { clock, shop } = shopOf({ hedge: { after: 100, max: 3 } });
    const { fn, calledAt } = flaky(clock, [slow]);
    await clock.run(shop.run(fn));
    expect(calledAt.map((at) => at - START_AT)).toEqual([0, 100, 200, 300]);
  });

  test("leaves no timer behind", async () => {
    const { clock, shop } = shopOf({ hedge: { after: 100, max: 3 } });
    await clock.run(shop.run(flaky(clock, [slow, quick]).fn));
    await clock.run(shop.run(flaky(clock, [quick]).fn));
    await clock.advance(0);
    expect(clock.pending()).toBe(0);
  });

  test("sends copies to the endpoints in rotation", async () => {
    const endpoints = ["https://b.example", "https://c.example"];
    const { clock, shop } = shopOf({ hedge: { after: 10, max: 3, endpoints } });
    const { fn, contexts } = flaky(clock, [slow]);
    await clock.run(shop.run(fn));
    expect(contexts.map(({ endpoint }) => endpoint)).toEqual([
      undefined,
      "https://b.example",
      "https://c.example",
      "https://b.example",
    ]);
  });
});

test("a quick call is not hedged", async () => {
  const { clock, shop } = shopOf({ hedge: { after: 100 } });
  const { fn, calledAt } = flaky(clock, [quick]);
  await clock.run(shop.run(fn));
  await clock.advance(500);
  expect(calledAt).toHaveLength(1);
});

describe("a live quantile", () => {
  test("is used once there are enough samples; nothing is hedged before", async () => {
    const { clock, shop } = shopOf({ hedge: { after: "p90" } });
    const early = flaky(clock, [slow]);
    await clock.run(shop.run(early.fn));
    expect(early.calledAt).toHaveLength(1);
    for (let n = 0; n < 40; n++) await clock.run(shop.run(() => clock.sleep(20)));
    const before = clock.now();
    const late = flaky(clock, [slow, quick]);
    expect(await clock.run(shop.run(late.fn))).toBe("quick");
    const [, copyAt = 0] = late.calledAt;
    expect(copyAt - before).toBeGreaterThanOrEqual(20);
    expect(copyAt - before).toBeLessThanOrEqual(22);
  });
});

describe("copies at a live quantile", () => {
  const ONCE = { maxAttempts: 1, attemptTimeoutMs: 60_000, totalBudgetMs: 300_000 } as const;
  const exponential = (draw: number) => -200 * Math.log(1 - draw);

  /** The share of calls that are hedged, of `count` calls after `warmUp` calls, 20 ms apart. */
  async function hedgedShare(
    after: "p50" | "p95" | "p99",
    latencyOf: (draw: number, call: number) => number,
    { warmUp = 4000, count = 16_000 } = {},
  ): Promise<number> {
    const { clock, shop } = shopOf({ hedge: { after }, policy: ONCE, retryBudget: false });
    const draws = seededRandom(after);
    const calls: Promise<unknown>[] = [];
    let before = 0;
    for (let call = 0; call < warmUp + count; call++) {
      if (call === warmUp) before = shop.stats().hedges;
      calls.push(shop.run(({ signal }) => clock.sleep(latencyOf(draws.next(), call), signal)));
      await clock.advance(20);
    }
    await clock.run(Promise.all(calls));
    return (shop.stats().hedges - before) / count;
  }

  test.each([
    ["p50", 0.5],
    ["p95", 0.05],
    ["p99", 0.01],
  ] as const)("%s: the losers that are aborted do not lower it", async (after, share) => {
    expect(await hedgedShare(after, exponential)).toBeCloseTo(share, after === "p50" ? 1 : 2);
  });

  test("p95: 4.5 to 5.5 % of the calls, also a minute after they have become three times slower", async () => {
    const warmUp = 8000;
    // 3,000 calls, or 60 s, after the change.
    const slower = (draw: number, call: number) => exponential(draw) * (call < 5000 ? 1 : 3);
    for (const latencyOf of [exponential, slower]) {
      const share = await hedgedShare("p95", latencyOf, { warmUp });
      expect(share).toBeGreaterThan(0.045);
      expect(share).toBeLessThan(0.055);
    }
  });

  test("calls that all take about as long are not hedged", async () => {
    for (const ms of [20.3, 151, 1020]) {
      const steady = (draw: number) => ms + 0.4 * draw;
      expect(await hedgedShare("p95", steady, { warmUp: 100, count: 500 })).toBe(0);
    }
  });

  test("the losers do not lower the estimated duration of a call", async () => {
    const { clock, shop } = shopOf({ hedge: { after: "p50" }, policy: ONCE, retryBudget: false });
    const draws = seededRandom("median");
    const calls: Promise<unknown>[] = [];
    for (let call = 0; call < 8000; call++) {
      calls.push(shop.run(({ signal }) => clock.sleep(exponential(draws.next()), signal)));
      await clock.advance(20);
    }
    const { p50Ms = 0 } = shop.stats();
    expect(Math.abs(p50Ms - 200 * Math.LN2)).toBeLessThan(10);
    await clock.run(Promise.all(calls));
  });
});

describe("a copy", () => {
  test("is not sent while a call waits for a guard: it never takes that call's token", async () => {
    const rate = { perSecond: 10, burst: 1 };
    const { clock, shop } = shopOf({ hedge: { after: 100 }, rate });
    const startedAt: number[] = [];
    const calls = Array.from({ length: 5 }, () =>
      shop.run(() => {
        startedAt.push(clock.now() - START_AT);
        return clock.sleep(1000);
      }),
    );
    await clock.advance(500);
    // Each token is for a call that waits. Then copies follow.
    expect(startedAt).toEqual([0, 100, 200, 300, 400, 500]);
    expect(shop.stats()).toMatchObject({ firsts: 5, hedges: 1 });
    await clock.run(Promise.all(calls));
  });

  test("takes a token of the retry budget, and is not sent when the budget is empty", async () => {
    const retryBudget = { kind: "TOKENS", maxTokens: 14, refillPerSuccess: 0 } as const;
    const { clock, shop } = shopOf({ hedge: { after: 10 }, retryBudget });
    const first = flaky(clock, [{ returns: "a", afterMs: 50 }]);
    await clock.run(shop.run(first.fn));
    expect(first.calledAt).toHaveLength(2);
    const second = flaky(clock, [{ returns: "b", afterMs: 50 }]);
    await clock.run(shop.run(second.fn));
    expect(second.calledAt).toHaveLength(1);
  });

  test("takes a slot, and is not sent when there is none", async () => {
    const concurrency = { algorithm: "FIXED", max: 1, queue: 0 } as const;
    const retryBudget = { kind: "TOKENS", maxTokens: 14 } as const;
    const { clock, shop } = shopOf({ hedge: { after: 10 }, concurrency, retryBudget });
    const { fn, calledAt } = flaky(clock, [slow]);
    await clock.run(shop.run(fn));
    expect(calledAt).toHaveLength(1);
    // The token that it took was returned.
    expect(shop.stats()).toMatchObject({ retryBudget: true, inFlight: 0, hedges: 0 });
  });

  test.each([
    ["a POST without a key", { method: "POST" }],
    ["a call declared not idempotent", { idempotent: false }],
    ["a call with nothing to send twice", { once: true }],
  ])("is not sent for %s", async (_, overrides) => {
    const { clock, shop } = shopOf({ hedge: { after: 10 }, idempotent: undefined as never });
    const { fn, calledAt } = flaky(clock, [slow]);
    await clock.run(shop.run(fn, overrides));
    expect(calledAt).toHaveLength(1);
  });

  test("is sent for a POST with a key", async () => {
    const { clock, shop } = shopOf({ hedge: { after: 10 } });
    const { fn, calledAt } = flaky(clock, [slow]);
    await clock.run(shop.run(fn, { method: "POST", idempotencyKey: "k" }));
    expect(calledAt).toHaveLength(2);
  });

  test("that fails waits for the original, and vice versa", async () => {
    const { clock, shop } = shopOf({ hedge: { after: 10 }, policy: { maxAttempts: 1 } });
    const copyFails = flaky(clock, [
      { returns: "original", afterMs: 50 },
      { throws: statusError(503) },
    ]);
    expect(await clock.run(shop.run(copyFails.fn))).toBe("original");
    const firstFails = flaky(clock, [
      { throws: statusError(503), afterMs: 20 },
      { returns: "copy", afterMs: 50 },
    ]);
    expect(await clock.run(shop.run(firstFails.fn))).toBe("copy");
  });

  test("does not count in maxAttempts", async () => {
    const policy = { ...FAST, maxAttempts: 2 };
    const { clock, shop } = shopOf({ hedge: { after: 10 }, policy });
    const { fn, calledAt, contexts } = flaky(clock, [{ throws: statusError(503), afterMs: 30 }]);
    const error = await rejectionOf(clock.run(shop.run(fn)));
    expect(error).toMatchObject({ reason: "attempts" });
    expect(calledAt).toHaveLength(4);
    expect(contexts.map(({ attempt }) => attempt)).toEqual([1, 1, 2, 2]);
    expect(shop.stats()).toMatchObject({ firsts: 1, retries: 1, hedges: 2 });
  });

  test("gets at most the time that the whole call has left", async () => {
    const policy = { maxAttempts: 1, attemptTimeoutMs: 1000, totalBudgetMs: 1000 };
    const { clock, shop } = shopOf({ hedge: { after: 900 }, policy });
    await rejectionOf(clock.run(shop.run(() => new Promise(() => undefined))));
    expect(clock.now() - START_AT).toBeLessThanOrEqual(1000 + 63);
  });

  test("that ends the whole call before it returns leaves nothing behind", async () => {
    const { clock, shop } = shopOf({
      hedge: { after: 10, max: 2 },
      concurrency: { algorithm: "FIXED", max: 4, queue: 0 },
    });
    const controller = new AbortController();
    let calls = 0;
    const call = shop.run(
      () => {
        if (++calls === 2) controller.abort(new Error("enough"));
        return new Promise(() => undefined);
      },
      { signal: controller.signal },
    );
    expect(await rejectionOf(clock.run(call))).toMatchObject({ message: "enough" });
    await clock.advance(10_000);
    expect(calls).toBe(2);
    expect(clock.pending()).toBe(0);
    expect(shop.stats().inFlight).toBe(0);
  });

  test("that succeeds at once is reported before it wins", async () => {
    const { clock, shop, events } = shopOf({ hedge: { after: 10 } });
    let calls = 0;
    const fn = (_: AttemptContext) => (++calls === 1 ? clock.sleep(100) : undefined);
    await clock.run(shop.run(fn));
    expect(events.map(({ type }) => type)).toEqual(["hedge", "success"]);
  });
});

describe("hedge()", () => {
  test("needs no setup", async () => {
    const { clock, random } = world();
    const { fn, calledAt } = flaky(clock, [slow, quick]);
    expect(await clock.run(hedge(fn, { after: 50, idempotent: true, clock, random }))).toBe(
      "quick",
    );
    expect(calledAt.map((at) => at - START_AT)).toEqual([0, 50]);
  });

  test("does not retry by default", async () => {
    const { clock, random } = world();
    const { fn, calledAt } = flaky(clock, [{ throws: statusError(503) }]);
    await rejectionOf(clock.run(hedge(fn, { after: 50, idempotent: true, clock, random })));
    expect(calledAt).toHaveLength(1);
  });

  test("checks its options", async () => {
    expect(() => hedge(() => 1, { after: 0, idempotent: true })).toThrow(
      "hedge.after must be 1 to 600000 ms",
    );
    expect(() => hedge(() => 1, { after: 5, max: 11, idempotent: true })).toThrow("hedge.max");
  });
});
