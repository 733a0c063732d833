/** Tests of slots, the limit for retries, the ramp, and limits that find a destination's capacity. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { expectGarbageRefused } from "../documents/saved-state.testing.ts";
import { saturate } from "./concurrency.testing.ts";
import {
  CONCURRENCY_DEFAULTS,
  type Concurrency,
  type ConcurrencyOptions,
  type ConcurrencyOutcome,
  concurrencyLimit,
  createConcurrency,
  enterConcurrency,
  hasSlot,
  leaveConcurrency,
  restartRamp,
  restoreConcurrency,
  saveConcurrency,
} from "./concurrency.ts";
import type { LimitAlgorithm } from "./limit-algorithms.ts";

const T0 = 1_700_000_000_000;
const ALGORITHMS: readonly LimitAlgorithm[] = ["FIXED", "GRADIENT", "VEGAS", "AIMD"];

function concurrencyOf(options: Partial<ConcurrencyOptions>, now = T0): Concurrency {
  return createConcurrency({ ...CONCURRENCY_DEFAULTS, algorithm: "FIXED", ...options }, now);
}

function fill(concurrency: Concurrency, isRetry = false): number {
  let entered = 0;
  while (enterConcurrency(concurrency, isRetry)) entered++;
  return entered;
}

describe("slots", () => {
  test("the limit admits its number of calls, and one more for each that leaves", () => {
    const concurrency = concurrencyOf({ max: 5 });
    expect(fill(concurrency)).toBe(5);
    leaveConcurrency(concurrency, T0, false, "success", 1);
    expect(concurrency.inFlight).toBe(4);
    expect(fill(concurrency)).toBe(1);
  });

  test("retries have their own limit within the limit", () => {
    const concurrency = concurrencyOf({ max: 5, maxRetries: 2 });
    expect(fill(concurrency, true)).toBe(2);
    expect(fill(concurrency)).toBe(3);
    leaveConcurrency(concurrency, T0, false, "success", 1);
    expect(enterConcurrency(concurrency, true)).toBe(false);
    leaveConcurrency(concurrency, T0, true, "success", 1);
    expect([concurrency.inFlight, concurrency.retriesInFlight]).toEqual([3, 1]);
    expect(enterConcurrency(concurrency, true)).toBe(true);
  });

  test("hasSlot agrees with entering, and takes no slot", () => {
    const concurrency = concurrencyOf({ max: 2, maxRetries: 1 });
    const asked = () => [hasSlot(concurrency, false), hasSlot(concurrency, true)];
    expect([asked(), asked()]).toEqual([
      [true, true],
      [true, true],
    ]);
    enterConcurrency(concurrency, true);
    expect(asked()).toEqual([true, false]);
    enterConcurrency(concurrency, false);
    expect(asked()).toEqual([false, false]);
  });

  test("an adaptive limit starts at 20, or at the maximum if that is less", () => {
    for (const algorithm of ["GRADIENT", "VEGAS", "AIMD"] as const) {
      expect(fill(concurrencyOf({ algorithm, max: 64 }))).toBe(20);
      expect(fill(concurrencyOf({ algorithm, max: 8 }))).toBe(8);
    }
  });

  test("a dropped call lowers an adaptive limit, an ignored one does not change it", () => {
    const concurrency = concurrencyOf({ algorithm: "AIMD" });
    fill(concurrency);
    leaveConcurrency(concurrency, T0, false, "ignored", 60_000);
    expect(concurrencyLimit(concurrency)).toBe(20);
    leaveConcurrency(concurrency, T0, false, "dropped", 1);
    expect(concurrencyLimit(concurrency)).toBe(18);
    leaveConcurrency(concurrency, T0, false, "success", 1);
    expect(concurrencyLimit(concurrency)).toBe(19);
  });

  test("no sequence makes a count negative or admits more calls than the limit", () => {
    const anyStep = fc.tuple(
      fc.constantFrom<"enter" | ConcurrencyOutcome>(
        "enter",
        "enter",
        "success",
        "dropped",
        "ignored",
      ),
      fc.boolean(),
      fc.nat(8000),
    );
    const anyAlgorithm = fc.constantFrom(...ALGORITHMS);
    fc.assert(
      fc.property(
        anyAlgorithm,
        fc.integer({ min: 1, max: 40 }),
        fc.array(anyStep),
        (algorithm, max, steps) => {
          const concurrency = concurrencyOf({ algorithm, max, maxRetries: Math.floor(max / 2) });
          let now = T0;
          for (const [step, isRetry, rttMs] of steps) {
            now += rttMs % 700;
            const before = concurrency.inFlight;
            if (rttMs % 97 === 0) restartRamp(concurrency);
            const limit = concurrencyLimit(concurrency);
            if (step !== "enter") leaveConcurrency(concurrency, now, isRetry, step, rttMs);
            else if (enterConcurrency(concurrency, isRetry)) expect(before).toBeLessThan(limit);
            expect(concurrencyLimit(concurrency)).toBeGreaterThanOrEqual(1);
            expect(concurrencyLimit(concurrency)).toBeLessThanOrEqual(max);
            expect(Number.isInteger(concurrencyLimit(concurrency))).toBe(true);
            expect(concurrency.inFlight).toBeGreaterThanOrEqual(0);
            expect(concurrency.retriesInFlight).toBeGreaterThanOrEqual(0);
            expect(concurrency.retriesInFlight).toBeLessThanOrEqual(Math.floor(max / 2));
          }
        },
      ),
    );
  });
});

describe("the ramp", () => {
  test("restarts at 1 and grows by one per success up to the limit it had", () => {
    const concurrency = concurrencyOf({ max: 4 });
    restartRamp(concurrency);
    const limits = [1, 2, 3, 4].map(() => {
      const limit = concurrencyLimit(concurrency);
      enterConcurrency(concurrency, false);
      leaveConcurrency(concurrency, T0, false, "success", 1);
      return [limit, concurrency.ramp];
    });
    expect(limits).toEqual([
      [1, 2],
      [2, 3],
      [3, 0],
      [4, 0],
    ]);
  });

  test("calls in flight when it restarts still count", () => {
    const concurrency = concurrencyOf({ max: 4 });
    fill(concurrency);
    restartRamp(concurrency);
    leaveConcurrency(concurrency, T0, false, "ignored", 1);
    leaveConcurrency(concurrency, T0, false, "ignored", 1);
    expect(enterConcurrency(concurrency, false)).toBe(false);
    leaveConcurrency(concurrency, T0, false, "ignored", 1);
    expect(enterConcurrency(concurrency, false)).toBe(false);
    leaveConcurrency(concurrency, T0, false, "ignored", 1);
    expect(fill(concurrency)).toBe(1);
  });

  test("a drop is a step back, never below 1, and an ignored call is no step", () => {
    const concurrency = concurrencyOf({ max: 9 });
    restartRamp(concurrency);
    const limitAfter = (outcome: ConcurrencyOutcome) => {
      leaveConcurrency(concurrency, T0, false, outcome, 1);
      return concurrencyLimit(concurrency);
    };
    expect(limitAfter("dropped")).toBe(1);
    expect([limitAfter("success"), limitAfter("success")]).toEqual([2, 3]);
    expect([limitAfter("ignored"), limitAfter("dropped"), limitAfter("dropped")]).toEqual([
      3, 2, 1,
    ]);
  });

  test("follows an adaptive limit that falls below it", () => {
    const concurrency = concurrencyOf({ algorithm: "AIMD", max: 20 });
    restartRamp(concurrency);
    for (let n = 0; n < 18; n++) leaveConcurrency(concurrency, T0, false, "success", 1);
    expect(concurrencyLimit(concurrency)).toBe(19);
    // Each call was sent after the previous cut: one cut per round trip.
    for (let n = 0; n < 5; n++) leaveConcurrency(concurrency, T0 + 2 * n, false, "dropped", 1);
    expect(concurrencyLimit(concurrency)).toBe(10);
    expect(concurrency.ramp).toBe(0);
  });
});

describe("a destination that handles 50 calls at once", () => {
  const steady = { capacity: () => 50, queue: 1_000_000 };
  const dip = (second: number) => (second >= 60 && second < 120 ? 10 : 50);
  const create = (algorithm: LimitAlgorithm) => concurrencyOf({ algorithm, max: 200 }, 0);
  const range = (limits: readonly number[], from: number, to: number) => {
    const part = limits.slice(from, to);
    return [Math.min(...part), Math.max(...part)] as const;
  };

  test("VEGAS settles just above 50 and stays, although the queue is endless", () => {
    const { limits, served } = saturate(create("VEGAS"), steady, 120);
    const [low, high] = range(limits, 30, 120);
    expect(low).toBeGreaterThanOrEqual(48);
    expect(high).toBeLessThanOrEqual(60);
    expect(Math.min(...served.slice(30))).toBeGreaterThanOrEqual(475);
  });

  test("GRADIENT lets calls queue for at most half of their duration, in the first minutes", () => {
    const { limits, served } = saturate(create("GRADIENT"), steady, 120);
    const [low, high] = range(limits, 60, 120);
    expect(low).toBeGreaterThanOrEqual(50);
    expect(high).toBeLessThanOrEqual(90);
    expect(Math.min(...served.slice(60))).toBeGreaterThanOrEqual(490);
  });

  test.each(["GRADIENT", "VEGAS", "AIMD"] as const)(
    "%s stays near 50 if calls beyond 55 are refused",
    (algorithm) => {
      const { limits, served } = saturate(create(algorithm), { ...steady, queue: 5 }, 120);
      const [low, high] = range(limits, 60, 120);
      expect(low).toBeGreaterThanOrEqual(40);
      expect(high).toBeLessThanOrEqual(70);
      expect(Math.min(...served.slice(60))).toBeGreaterThanOrEqual(400);
    },
  );

  test.each(["GRADIENT", "VEGAS", "AIMD"] as const)(
    "%s falls when the capacity is only 10, and grows again afterwards",
    (algorithm) => {
      const { limits } = saturate(create(algorithm), { capacity: dip, queue: 10 }, 200);
      expect(limits[115]).toBeLessThanOrEqual(30);
      const [low, high] = range(limits, 180, 200);
      expect(low).toBeGreaterThanOrEqual(45);
      expect(high).toBeLessThanOrEqual(85);
    },
  );
});

describe("save and restore", () => {
  test.each(ALGORITHMS)(
    "%s: a restored limit continues like the saved one, with no calls in flight",
    (algorithm) => {
      const saved = createConcurrency({ ...CONCURRENCY_DEFAULTS, algorithm }, 0);
      saturate(saved, { capacity: () => 30, queue: 3 }, 15);
      restartRamp(saved);
      const restored = restoreConcurrency(
        saved.options,
        JSON.parse(JSON.stringify(saveConcurrency(saved))),
        15_000,
      );
      expect(restored).toEqual({ ...saved, inFlight: 0, retriesInFlight: 0 });
    },
  );

  test("a lower maximum applies at once, a higher one is reached gradually", () => {
    const saved = saveConcurrency(concurrencyOf({ algorithm: "AIMD", max: 20 }));
    const limitUnder = (options: Partial<ConcurrencyOptions>) =>
      concurrencyLimit(restoreConcurrency({ ...CONCURRENCY_DEFAULTS, ...options }, saved, T0));
    expect(limitUnder({ max: 5 })).toBe(5);
    expect(limitUnder({ max: 500 })).toBe(20);
    expect(limitUnder({ max: 500, algorithm: "FIXED" })).toBe(500);
    const fixed = saveConcurrency(concurrencyOf({ max: 3 }));
    expect(
      concurrencyLimit(
        restoreConcurrency({ ...CONCURRENCY_DEFAULTS, algorithm: "FIXED" }, fixed, T0),
      ),
    ).toBe(64);
  });

  test("another algorithm keeps the ramp", () => {
    const saved = concurrencyOf({});
    restartRamp(saved);
    expect(restoreConcurrency(CONCURRENCY_DEFAULTS, saveConcurrency(saved), T0).ramp).toBe(1);
  });

  test("garbage is refused by name", () => {
    const saved = saveConcurrency(concurrencyOf({}));
    expectGarbageRefused("concurrency", saved, (value) =>
      restoreConcurrency(CONCURRENCY_DEFAULTS, value, T0),
    );
  });
});
