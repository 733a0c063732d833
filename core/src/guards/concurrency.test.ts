/**
 * Tests of slots, the limit for retries, the ramp, and limits that find a destination's capacity.
 * Tests of the limit algorithms step by step, with values computed by hand.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { expectGarbageRefused } from "../documents/saved-state.testing.ts";
import { seededRandom } from "../time/virtual.ts";
import { saturate } from "./concurrency.testing.ts";
import {
  CONCURRENCY_DEFAULTS,
  type Concurrency,
  type ConcurrencyOptions,
  type ConcurrencyOutcome,
  concurrencyLimit,
  createConcurrency,
  createEstimate,
  enterConcurrency,
  hasSlot,
  type LimitAlgorithm,
  type LimitEstimate,
  leaveConcurrency,
  paceReadyAt,
  recordCall,
  restartRamp,
  restoreConcurrency,
  saveConcurrency,
  slotReadyAt,
  uncountCall,
} from "./concurrency.ts";
import { createLatency, type Latency, recordLatency } from "./latency.ts";

describe("concurrency", () => {
  const T0 = 1_700_000_000_000;
  const ALGORITHMS: readonly LimitAlgorithm[] = ["FIXED", "GRADIENT", "VEGAS", "AIMD"];

  function concurrencyOf(options: Partial<ConcurrencyOptions>, now = T0): Concurrency {
    return createConcurrency({ ...CONCURRENCY_DEFAULTS, algorithm: "FIXED", ...options }, now);
  }

  function fill(concurrency: Concurrency, isRetry = false): number {
    let entered = 0;
    while (enterConcurrency(concurrency, isRetry, T0)) entered++;
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
      expect(enterConcurrency(concurrency, true, T0)).toBe(false);
      leaveConcurrency(concurrency, T0, true, "success", 1);
      expect([concurrency.inFlight, concurrency.retriesInFlight]).toEqual([3, 1]);
      expect(enterConcurrency(concurrency, true, T0)).toBe(true);
    });

    test("hasSlot agrees with entering, and takes no slot", () => {
      const concurrency = concurrencyOf({ max: 2, maxRetries: 1 });
      const asked = () => [hasSlot(concurrency, false), hasSlot(concurrency, true)];
      expect([asked(), asked()]).toEqual([
        [true, true],
        [true, true],
      ]);
      enterConcurrency(concurrency, true, T0);
      expect(asked()).toEqual([true, false]);
      enterConcurrency(concurrency, false, T0);
      expect(asked()).toEqual([false, false]);
    });

    test("the default limit starts at the maximum, however large it is", () => {
      for (const max of [8, 50, 500]) {
        expect(fill(createConcurrency({ ...CONCURRENCY_DEFAULTS, max }, T0))).toBe(max);
      }
    });

    test("a limit that measures latencies starts at 20, or at the maximum if that is less", () => {
      for (const algorithm of ["GRADIENT", "VEGAS"] as const) {
        expect(fill(concurrencyOf({ algorithm, max: 64 }))).toBe(20);
        expect(fill(concurrencyOf({ algorithm, max: 8 }))).toBe(8);
      }
    });

    test("a dropped call lowers an adaptive limit, an ignored one does not change it", () => {
      const concurrency = concurrencyOf({ algorithm: "AIMD", max: 20 });
      const end = (outcome: ConcurrencyOutcome) => {
        for (let n = 0; n < 20; n++) {
          fill(concurrency);
          leaveConcurrency(concurrency, T0 + 1, false, outcome, 1);
        }
        return concurrencyLimit(concurrency);
      };
      expect([end("ignored"), end("dropped"), end("ignored")]).toEqual([20, 10, 10]);
      expect(end("success")).toBeGreaterThan(10);
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
              if (rttMs % 97 === 0) restartRamp(concurrency, T0);
              const limit = concurrencyLimit(concurrency);
              if (step !== "enter") leaveConcurrency(concurrency, now, isRetry, step, rttMs);
              else if (enterConcurrency(concurrency, isRetry, T0))
                expect(before).toBeLessThan(limit);
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
      restartRamp(concurrency, T0);
      const limits = [1, 2, 3, 4].map(() => {
        const limit = concurrencyLimit(concurrency);
        enterConcurrency(concurrency, false, T0);
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
      restartRamp(concurrency, T0);
      leaveConcurrency(concurrency, T0, false, "ignored", 1);
      leaveConcurrency(concurrency, T0, false, "ignored", 1);
      expect(enterConcurrency(concurrency, false, T0)).toBe(false);
      leaveConcurrency(concurrency, T0, false, "ignored", 1);
      expect(enterConcurrency(concurrency, false, T0)).toBe(false);
      leaveConcurrency(concurrency, T0, false, "ignored", 1);
      expect(fill(concurrency)).toBe(1);
    });

    test("a drop is a step back, never below 1, and an ignored call is no step", () => {
      const concurrency = concurrencyOf({ max: 9 });
      restartRamp(concurrency, T0);
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
      restartRamp(concurrency, T0);
      for (let n = 0; n < 18; n++) leaveConcurrency(concurrency, T0, false, "success", 1);
      expect([concurrencyLimit(concurrency), concurrency.ramp]).toEqual([19, 19]);
      // Two in twenty were refused, which lowers the limit a little: the ramp of 17 is still below it.
      for (let n = 0; n < 2; n++) leaveConcurrency(concurrency, T0 + 1, false, "dropped", 1);
      expect([concurrencyLimit(concurrency), concurrency.ramp]).toEqual([17, 17]);
      // The whole next round is refused: the limit is halved, and the ramp is over.
      for (let n = 0; n < 20; n++) leaveConcurrency(concurrency, T0 + 3, false, "dropped", 1);
      expect(concurrencyLimit(concurrency)).toBe(1);
      for (let n = 0; n < 9; n++) leaveConcurrency(concurrency, T0 + 4, false, "success", 1);
      expect([concurrencyLimit(concurrency), concurrency.ramp]).toEqual([9, 0]);
    });
  });

  describe("while a call hangs", () => {
    const NEVER = Number.POSITIVE_INFINITY;
    /** Calls usually take so long; undefined: it is unknown. */
    const usually = (ms?: number): Latency => {
      const latency = createLatency(T0);
      if (ms !== undefined) recordLatency(latency, T0, ms);
      return latency;
    };

    describe("the ramp", () => {
      /** A ramp that has just restarted, with a call that hangs. */
      function hanging(options: Partial<ConcurrencyOptions> = {}) {
        const concurrency = concurrencyOf({ max: 9, ...options });
        restartRamp(concurrency, T0);
        enterConcurrency(concurrency, false, T0);
        return concurrency;
      }

      test.each([
        [undefined, 1000],
        [1, 100],
        [25, 100],
        [26, 104],
        [296, 1184],
        [1248, 4992],
        [1600, 5000],
        [60_000, 5000],
      ])("takes a step after four times the median, 100 ms to 5 s: %s ms, %d ms", (ms, waitMs) => {
        const concurrency = hanging();
        expect(slotReadyAt(concurrency, false, T0 + 1, usually(ms))).toBe(T0 + waitMs);
        expect(hasSlot(concurrency, false)).toBe(false);
        expect(slotReadyAt(concurrency, false, T0 + waitMs, usually(ms))).toBe(T0 + waitMs);
        expect(fill(concurrency)).toBe(1);
      });

      test("waits for as long again after each step", () => {
        const concurrency = hanging();
        for (let call = 1; call < 8; call++) {
          const now = T0 + 1000 * call;
          expect(slotReadyAt(concurrency, false, now - 1, usually())).toBe(now);
          expect(slotReadyAt(concurrency, false, now, usually())).toBe(now);
          expect(enterConcurrency(concurrency, false, now)).toBe(true);
          expect(hasSlot(concurrency, false)).toBe(false);
        }
        expect(concurrency.ramp).toBe(8);
      });

      test("takes one step for a long time in which nobody asked", () => {
        const concurrency = hanging();
        const now = T0 + 3_600_000;
        expect(slotReadyAt(concurrency, false, now, usually())).toBe(now);
        expect(enterConcurrency(concurrency, false, now)).toBe(true);
        expect(slotReadyAt(concurrency, false, now, usually())).toBe(now + 1000);
      });

      test("does not count the time in which no call was in flight", () => {
        const concurrency = concurrencyOf({ max: 9 });
        restartRamp(concurrency, T0);
        enterConcurrency(concurrency, false, T0 + 60_000);
        expect(slotReadyAt(concurrency, false, T0 + 60_000, usually())).toBe(T0 + 61_000);
      });

      test("waits again after a call has ended", () => {
        const concurrency = hanging();
        leaveConcurrency(concurrency, T0 + 900, false, "success", 900);
        enterConcurrency(concurrency, false, T0 + 900);
        enterConcurrency(concurrency, false, T0 + 900);
        expect(slotReadyAt(concurrency, false, T0 + 1000, usually())).toBe(T0 + 1900);
      });

      test("admits one more than the calls that hung before the stop", () => {
        const concurrency = concurrencyOf({ max: 9 });
        for (let n = 0; n < 5; n++) enterConcurrency(concurrency, false, T0);
        restartRamp(concurrency, T0 + 10);
        expect(slotReadyAt(concurrency, false, T0 + 1010, usually())).toBe(T0 + 1010);
        expect(fill(concurrency)).toBe(1);
      });

      test("follows a clock that was set back by an hour", () => {
        const concurrency = hanging();
        const back = T0 - 3_600_000;
        expect(slotReadyAt(concurrency, false, back, usually())).toBe(back + 1000);
        expect(slotReadyAt(concurrency, false, back + 1000, usually())).toBe(back + 1000);
      });
    });

    describe("the limit", () => {
      /** An outage has lowered the limit to 1, and the only call in flight hangs. */
      function hanging(options: Partial<ConcurrencyOptions> = {}) {
        const concurrency = concurrencyOf({ algorithm: "AIMD", max: 9, ...options });
        concurrency.estimate.limit = 1;
        enterConcurrency(concurrency, false, T0);
        return concurrency;
      }

      test.each([
        [undefined, 5000],
        [20, 5000],
        [1248, 5000],
        [2496, 9984],
      ])(
        "admits one more after four times the median, at least 5 s: %s ms, %d ms",
        (ms, waitMs) => {
          const concurrency = hanging();
          expect(slotReadyAt(concurrency, false, T0 + 1, usually(ms))).toBe(T0 + 5000);
          expect(slotReadyAt(concurrency, false, T0 + 5000, usually(ms))).toBe(T0 + waitMs);
          expect(slotReadyAt(concurrency, false, T0 + waitMs, usually(ms))).toBe(T0 + waitMs);
          expect(fill(concurrency)).toBe(1);
          expect(concurrency.estimate.limit).toBe(2);
        },
      );

      test("changes its instant once per second at most, so that a queue needs no timer per call", () => {
        const concurrency = hanging();
        const instants = new Set<number>();
        for (let ms = 1; ms <= 1000; ms++) {
          leaveConcurrency(concurrency, T0 + ms, false, "success", 1);
          enterConcurrency(concurrency, false, T0 + ms);
          concurrency.estimate.limit = 1;
          instants.add(slotReadyAt(concurrency, false, T0 + ms, usually(1)));
        }
        expect(instants.size).toBe(1);
      });

      test.each(["GRADIENT", "VEGAS"] as const)("%s does the same", (algorithm) => {
        const concurrency = hanging({ algorithm });
        expect(slotReadyAt(concurrency, false, T0 + 5000, usually())).toBe(T0 + 5000);
        expect(fill(concurrency)).toBe(1);
      });

      test("is never above the maximum, and a fixed limit is never exceeded", () => {
        for (const algorithm of ALGORITHMS) {
          const full = concurrencyOf({ algorithm, max: 3 });
          fill(full);
          expect(slotReadyAt(full, false, T0 + 3_600_000, usually())).toBe(NEVER);
        }
      });

      test("of retries is not exceeded", () => {
        const concurrency = hanging({ maxRetries: 0 });
        expect(slotReadyAt(concurrency, true, T0 + 3_600_000, usually())).toBe(NEVER);
      });
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

  describe("the pace of the ramp", () => {
    /** Calls start as soon as they may, `perSecond` of them, for some seconds. Returns the starts per second. */
    function run(concurrency: Concurrency, from: number, seconds: number, perSecond: number) {
      const starts: number[] = Array(seconds).fill(0);
      let waiting = 0;
      for (let ms = 0; ms < seconds * 1000; ms++) {
        waiting += perSecond / 1000;
        const now = from + ms;
        for (; waiting >= 1 && paceReadyAt(concurrency, now) <= now; waiting--) {
          if (!enterConcurrency(concurrency, false, now)) break;
          leaveConcurrency(concurrency, now, false, "success", 1);
          starts[Math.floor(ms / 1000)]!++;
        }
      }
      return starts;
    }

    test("is three times the calls per second before the stop, whatever the limit allows", () => {
      const concurrency = concurrencyOf({ max: 64 });
      expect(Math.max(...run(concurrency, T0, 60, 20))).toBeLessThanOrEqual(20);
      restartRamp(concurrency, T0 + 120_000);
      const starts = run(concurrency, T0 + 120_000, 60, 10_000);
      // Ten more at first.
      expect(starts[0]).toBeLessThanOrEqual(71);
      expect(Math.min(...starts.slice(1, 10))).toBeGreaterThanOrEqual(58);
      expect(Math.max(...starts.slice(1, 10))).toBeLessThanOrEqual(62);
      // What stays above it for long becomes usual.
      expect(Math.max(...starts.slice(1))).toBeLessThanOrEqual(70);
      expect(Math.max(...starts.slice(1))).toBeGreaterThan(62);
    });

    test("ends once fewer calls start than it allows", () => {
      const concurrency = concurrencyOf({ max: 64 });
      run(concurrency, T0, 60, 20);
      restartRamp(concurrency, T0 + 60_000);
      expect(concurrency.paceAt).toBeGreaterThan(T0 + 59_000);
      run(concurrency, T0 + 60_000, 5, 20);
      expect(concurrency.paceAt).toBe(0);
      expect(Math.max(...run(concurrency, T0 + 65_000, 2, 10_000))).toBeGreaterThan(1000);
    });

    test("continues while no slot is free", () => {
      const concurrency = concurrencyOf({ max: 64 });
      run(concurrency, T0, 60, 20);
      const now = T0 + 60_000;
      restartRamp(concurrency, now);
      for (let call = 0; call < 12; call++) {
        // The only slot of the ramp is taken for three seconds.
        concurrency.ramp = 1;
        enterConcurrency(concurrency, false, now + call * 3000);
        leaveConcurrency(concurrency, now + (call + 1) * 3000, false, "success", 3000);
      }
      expect(concurrency.paceAt).toBeGreaterThan(0);
    });

    test("is never below ten per second, and there is none before ten seconds of calls are known", () => {
      const rare = concurrencyOf({ max: 64 });
      run(rare, T0, 600, 0.1);
      restartRamp(rare, T0 + 600_000);
      expect(run(rare, T0 + 600_000, 3, 1000)[1]).toBe(10);
      const unknown = concurrencyOf({ max: 64 });
      run(unknown, T0, 5, 20);
      restartRamp(unknown, T0 + 5000);
      expect(unknown.paceAt).toBe(0);
    });

    test("gives back the turn of a call that was never sent, and follows a clock that is set back", () => {
      const concurrency = concurrencyOf({ max: 64 });
      run(concurrency, T0, 60, 20);
      const now = T0 + 60_000;
      restartRamp(concurrency, now);
      for (let n = 0; n < 11; n++) {
        expect(paceReadyAt(concurrency, now)).toBe(now);
        enterConcurrency(concurrency, false, now);
        leaveConcurrency(concurrency, now, false, "ignored", 1);
      }
      expect(paceReadyAt(concurrency, now)).toBe(now + 17);
      uncountCall(concurrency);
      expect(paceReadyAt(concurrency, now)).toBe(now);
      enterConcurrency(concurrency, false, now);
      expect(paceReadyAt(concurrency, now - 3_600_000)).toBe(now - 3_600_000 + 17);
    });
  });

  describe("save and restore", () => {
    test.each(ALGORITHMS)(
      "%s: a restored limit continues like the saved one, with no calls in flight",
      (algorithm) => {
        const saved = createConcurrency({ ...CONCURRENCY_DEFAULTS, algorithm }, 0);
        saturate(saved, { capacity: () => 30, queue: 3 }, 15);
        restartRamp(saved, T0);
        const restored = restoreConcurrency(
          saved.options,
          JSON.parse(JSON.stringify(saveConcurrency(saved))),
          15_000,
        );
        const fresh = { changedAt: 15_000, inFlight: 0, retriesInFlight: 0 };
        expect(saved.usualPerSecond).toBeGreaterThan(0);
        expect(restored).toEqual({ ...saved, ...fresh, counted: 0, countedFrom: 15_000 });
      },
    );

    test("a state of an older version continues with its limit", () => {
      const saved = concurrencyOf({ algorithm: "AIMD" });
      saved.estimate.limit = 33;
      restartRamp(saved, T0);
      const { pace, usualPerSecond, paceAt, ...older } = saveConcurrency(saved);
      const restored = restoreConcurrency(CONCURRENCY_DEFAULTS, older, T0);
      expect(restored).toMatchObject({ ramp: 1, usualPerSecond: 0, paceAt: 0 });
      expect(restored.estimate).toMatchObject({ limit: 33, pace: 1 });
    });

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
      restartRamp(saved, T0);
      expect(restoreConcurrency(CONCURRENCY_DEFAULTS, saveConcurrency(saved), T0).ramp).toBe(1);
    });

    test("garbage is refused by name", () => {
      const saved = saveConcurrency(concurrencyOf({}));
      expectGarbageRefused("concurrency", saved, (value) =>
        restoreConcurrency(CONCURRENCY_DEFAULTS, value, T0),
      );
    });
  });
});

describe("limit algorithms", () => {
  const T0 = 1_700_000_000_000;
  const ALGORITHMS: readonly LimitAlgorithm[] = ["FIXED", "GRADIENT", "VEGAS", "AIMD"];

  interface Sample {
    readonly rttMs: number;
    readonly inFlight?: number;
    readonly calls?: number;
    readonly drops?: number;
  }

  /** An estimate and a function that feeds it full samples, one per second. */
  function fed(algorithm: LimitAlgorithm, max = 200) {
    const estimate = createEstimate(algorithm, max, T0);
    let now = T0;
    const feed = ({ rttMs, inFlight = estimate.limit, calls = 10, drops = 0 }: Sample) => {
      now += 1000;
      for (let n = 0; n < drops; n++) recordCall(estimate, now - 1, inFlight, 1, true);
      for (let n = 1; n < calls; n++) recordCall(estimate, now - 1, inFlight, rttMs, false);
      recordCall(estimate, now, inFlight, rttMs, false);
      return estimate.limit;
    };
    return { estimate, feed };
  }

  describe("FIXED", () => {
    test("is the maximum and stays there", () => {
      const { feed } = fed("FIXED", 7);
      expect(feed({ rttMs: 60_000, drops: 100 })).toBe(7);
    });
  });

  describe("AIMD", () => {
    /** An estimate at a limit, and a function that ends many calls of a round at one instant. */
    function aimd(limit: number, max = 200) {
      const estimate = createEstimate("AIMD", max, T0);
      estimate.limit = limit;
      let now = T0;
      const end = ({ calls = limit, drops = 0, rttMs = 100, inFlight = limit }) => {
        now += 1000;
        for (let n = 0; n < calls; n++) recordCall(estimate, now, inFlight, rttMs, n < drops);
        return estimate.limit;
      };
      return { estimate, end };
    }

    test("starts at the maximum", () => {
      expect(createEstimate("AIMD", 500, T0).limit).toBe(500);
    });

    test("grows by a tenth per call while at least half is used, up to the maximum", () => {
      expect(aimd(20).end({ calls: 1, inFlight: 10 })).toBe(20.1);
      expect(aimd(20).end({ calls: 1, inFlight: 9 })).toBe(20);
      expect(aimd(199.95).end({ calls: 9 })).toBe(200);
    });

    test("grows with calls of any duration: a long call is not a sign of overload", () => {
      expect(aimd(20).end({ calls: 1, rttMs: 60_000 })).toBe(20.1);
    });

    test("falls by half of the probability that two calls were both refused or timed out", () => {
      const idle = { inFlight: 1 };
      expect(aimd(20).end({ ...idle, drops: 20 })).toBe(10);
      expect(aimd(20).end({ ...idle, drops: 10 })).toBeCloseTo(
        20 * (1 - (10 * 9) / (20 * 19) / 2),
        10,
      );
      expect(aimd(20).end({ ...idle, drops: 6 })).toBeCloseTo(
        20 * (1 - (6 * 5) / (20 * 19) / 2),
        10,
      );
      expect(aimd(20).end({ ...idle, drops: 1 })).toBe(20);
      expect(aimd(1).end({ ...idle, calls: 5, drops: 5 })).toBe(1);
    });

    test("falls once per round: as many calls as the limit, at least five", () => {
      const { end } = aimd(20);
      expect([end({ calls: 19, drops: 19 }), end({ calls: 1, drops: 1 })]).toEqual([20, 10]);
      expect([end({ calls: 9, drops: 9 }), end({ calls: 1, drops: 1 })]).toEqual([10, 5]);
      const small = aimd(2);
      expect([small.end({ calls: 4, drops: 4 }), small.end({ calls: 1, drops: 1 })]).toEqual([
        2, 1,
      ]);
    });

    test("a call sent before the round says nothing about the new limit", () => {
      const { estimate, end } = aimd(20);
      end({ drops: 20 });
      for (let n = 0; n < 50; n++) recordCall(estimate, T0 + 1000 + n, 20, 51, true);
      expect(estimate.limit).toBe(10);
      recordCall(estimate, T0 + 1051, 20, 51, true);
      expect(estimate.limit).toBe(5);
    });

    test("grows more slowly, by the square of the delay, while calls take longer than usual", () => {
      const { estimate, end } = aimd(20);
      end({ rttMs: 100, inFlight: 0 });
      end({ rttMs: 200, inFlight: 0 });
      expect(estimate.pace).toBeCloseTo(0.25, 2);
      const before = estimate.limit;
      expect(end({ calls: 1 }) - before).toBeCloseTo(0.025, 3);
      end({ calls: 40, rttMs: 50, inFlight: 0 });
      expect(estimate.pace).toBe(1);
    });

    test("a destination that stays slow is usual after some minutes, one that is quick again at once", () => {
      const { estimate, end } = aimd(20);
      end({ rttMs: 100, inFlight: 0 });
      for (let second = 0; second < 60; second++) end({ rttMs: 200, inFlight: 0 });
      expect(estimate.pace).toBeLessThan(0.4);
      for (let second = 0; second < 540; second++) end({ rttMs: 200, inFlight: 0 });
      expect(estimate.pace).toBeGreaterThan(0.85);
      end({ rttMs: 100, inFlight: 0 });
      expect(estimate.pace).toBe(1);
    });

    test("calls that take no time have no delay", () => {
      const { estimate, end } = aimd(20);
      end({ rttMs: 0 });
      end({ rttMs: 0.9 });
      expect(estimate.pace).toBe(1);
    });

    test("a clock set back starts the round again", () => {
      const { estimate } = aimd(20);
      for (let n = 0; n < 20; n++) recordCall(estimate, T0 - 3_600_000 + n, 0, 1, true);
      expect(estimate.limit).toBe(10);
    });

    test("keeps the slots that a destination with 30% of random failures needs", () => {
      const estimate = createEstimate("AIMD", 64, T0);
      const random = seededRandom("aimd");
      // 40 concurrent calls of 50 ms; the next call replaces each ended one.
      for (let n = 0; n < 40_000; n++) {
        recordCall(estimate, T0 + (n * 50) / 40, 40, 50, random.next() < 0.3);
        if (n > 4000) expect(estimate.limit).toBeGreaterThanOrEqual(40);
      }
    });
  });

  describe("samples", () => {
    test("the limit moves once per second, and not before ten calls", () => {
      const { estimate, feed } = fed("GRADIENT");
      feed({ rttMs: 100, calls: 9 });
      expect(estimate.limit).toBe(20);
      recordCall(estimate, T0 + 1001, 20, 100, false);
      expect(estimate.limit).toBeCloseTo(20.8, 10);
      for (let n = 0; n < 500; n++) recordCall(estimate, T0 + 2000, 20, 100, false);
      expect(estimate.limit).toBeCloseTo(20.8, 10);
      recordCall(estimate, T0 + 2001, 21, 100, false);
      expect(estimate.limit).toBeCloseTo(21.6, 10);
    });

    test("calls quicker than a tenth of a ms say nothing", () => {
      const { estimate, feed } = fed("VEGAS");
      feed({ rttMs: 0.09, calls: 50 });
      expect(estimate.samples).toBe(0);
      feed({ rttMs: 0.1 });
      expect(estimate.noLoadRttMs).toBeCloseTo(0.1, 12);
    });

    test("the maximum of calls in flight in a sample decides whether the limit was used", () => {
      const { estimate } = fed("GRADIENT");
      for (let n = 0; n < 9; n++) recordCall(estimate, T0 + 500, n === 3 ? 10 : 1, 100, false);
      recordCall(estimate, T0 + 1000, 1, 100, false);
      expect(estimate.limit).toBeCloseTo(20.8, 10);
    });

    test("one drop in eleven is ignored, one in ten lowers the limit", () => {
      for (const algorithm of ["GRADIENT", "VEGAS"] as const) {
        const noisy = fed(algorithm);
        expect(noisy.feed({ rttMs: 100, calls: 10, drops: 1 })).toBeGreaterThanOrEqual(20);
        const loaded = fed(algorithm);
        expect(loaded.feed({ rttMs: 100, calls: 9, drops: 1 })).toBe(
          algorithm === "VEGAS" ? 19 : 18,
        );
      }
    });

    test("the duration of a refused call does not count as latency", () => {
      const { estimate, feed } = fed("VEGAS");
      feed({ rttMs: 100, calls: 20, drops: 2 });
      expect(estimate.noLoadRttMs).toBe(100);
    });

    test("a clock set back restarts the sample's second", () => {
      const estimate = createEstimate("GRADIENT", 200, T0);
      for (let n = 0; n < 20; n++) recordCall(estimate, T0 - 60_000, 20, 100, false);
      expect(estimate.limit).toBe(20);
      recordCall(estimate, T0 - 59_000, 20, 100, false);
      expect(estimate.limit).toBeCloseTo(20.8, 10);
    });
  });

  describe("GRADIENT", () => {
    test("grows by a fifth of its queue of 4 while calls are at most 1.5 times as long as usual", () => {
      const { feed } = fed("GRADIENT");
      expect(feed({ rttMs: 100 })).toBeCloseTo(20.8, 10);
      expect(feed({ rttMs: 300 })).toBeCloseTo(21.6, 10);
    });

    test("falls by the gradient beyond that, never by more than half before smoothing", () => {
      const { feed } = fed("GRADIENT");
      feed({ rttMs: 100 });
      // Usual: (100 + 900) / 2 = 500, gradient 1.5 x 500 / 900 = 5/6.
      expect(feed({ rttMs: 900 })).toBeCloseTo(0.8 * 20.8 + 0.2 * ((20.8 * 5) / 6 + 4), 10);
      const { feed: feedMore } = fed("GRADIENT");
      for (let n = 0; n < 9; n++) feedMore({ rttMs: 1, inFlight: 0 });
      expect(feedMore({ rttMs: 10_000 })).toBeCloseTo(0.8 * 20 + 0.2 * (10 + 4), 10);
    });

    test("the usual duration is a plain mean of ten samples, then an exponential one over 600", () => {
      const { estimate, feed } = fed("GRADIENT");
      for (let n = 1; n <= 10; n++) feed({ rttMs: 10 * n });
      expect(estimate.longRttMs).toBeCloseTo(55, 10);
      feed({ rttMs: 100 });
      expect(estimate.longRttMs).toBeCloseTo(55 + (45 * 2) / 601, 10);
    });

    test("the usual duration falls by a twentieth at a time once calls take less than half of it", () => {
      const { estimate, feed } = fed("GRADIENT");
      for (let n = 0; n < 10; n++) feed({ rttMs: 1000 });
      feed({ rttMs: 400 });
      expect(estimate.longRttMs).toBeCloseTo((1000 - (600 * 2) / 601) * 0.95, 8);
    });

    test("does not grow while less than half is used", () => {
      const { feed } = fed("GRADIENT");
      expect(feed({ rttMs: 100, inFlight: 9 })).toBe(20);
      expect(feed({ rttMs: 100, inFlight: 10 })).toBeCloseTo(20.8, 10);
    });
  });

  describe("VEGAS", () => {
    /** At a limit of 100 (logarithm 2) with a latency of 100 ms without load. */
    const from100 = (rttMs: number, inFlight = 100) => {
      const { estimate, feed } = fed("VEGAS", 1000);
      feed({ rttMs: 100 });
      estimate.limit = 100;
      return feed({ rttMs, inFlight }) - 100;
    };

    test("uses the shortest sample as the latency without load, and does not move then", () => {
      const { estimate, feed } = fed("VEGAS");
      expect(feed({ rttMs: 100 })).toBe(20);
      expect(feed({ rttMs: 80 })).toBe(20);
      expect(estimate.noLoadRttMs).toBe(80);
    });

    test("grows by 6 logarithms while nothing queues, then by one, stays, and falls by one", () => {
      expect(from100(100)).toBe(12);
      expect(from100(100 / 0.9801)).toBe(12);
      expect(from100(100 / 0.979)).toBe(2);
      expect(from100(100 / 0.9501)).toBe(2);
      expect(from100(100 / 0.949)).toBe(0);
      expect(from100(100 / 0.8801)).toBe(0);
      expect(from100(100 / 0.879)).toBe(-2);
    });

    test("does not move while less than half is used", () => {
      expect(from100(100, 49)).toBe(0);
      expect(from100(100, 50)).toBe(12);
    });

    test("its logarithm is the integer part, at least 1", () => {
      const stepAt = (limit: number) => {
        const { estimate, feed } = fed("VEGAS", 100_000);
        feed({ rttMs: 100 });
        estimate.limit = limit;
        return (feed({ rttMs: 100 }) - limit) / 6;
      };
      expect([1, 9, 99, 100, 999, 1000, 10_000].map(stepAt)).toEqual([1, 1, 1, 2, 2, 3, 4]);
    });

    test("measures the latency without load again after 15 to 30 times the limit samples", () => {
      for (const [ms, samples] of [
        [0, 15],
        [500, 23],
        [999, 30],
      ] as const) {
        const estimate = createEstimate("VEGAS", 1, T0 + ms);
        const feedOnce = (n: number, rttMs: number) => {
          for (let k = 0; k < 10; k++) recordCall(estimate, T0 + ms + 1000 * n, 1, rttMs, false);
        };
        for (let n = 1; n < samples; n++) feedOnce(n, 100);
        feedOnce(samples, 300);
        expect(estimate.noLoadRttMs).toBe(300);
        expect(estimate.probeCount).toBe(0);
      }
    });
  });

  test("no algorithm leaves the range 1 to max, for any calls", () => {
    const anyCall = fc.record({
      gapMs: fc.oneof(fc.nat(50), fc.nat(3000)),
      rttMs: fc.oneof(fc.double({ min: 0, max: 20_000, noNaN: true }), fc.constantFrom(0, 1e9)),
      inFlight: fc.nat(300),
      dropped: fc.boolean(),
    });
    const anyMax = fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 500 }));
    fc.assert(
      fc.property(fc.constantFrom(...ALGORITHMS), anyMax, fc.array(anyCall), (name, max, calls) => {
        const estimate: LimitEstimate = createEstimate(name, max, T0);
        let now = T0;
        for (const { gapMs, rttMs, inFlight, dropped } of calls) {
          now += gapMs;
          for (let n = 0; n < 10; n++) recordCall(estimate, now, inFlight, rttMs, dropped);
          expect(estimate.limit).toBeGreaterThanOrEqual(1);
          expect(estimate.limit).toBeLessThanOrEqual(max);
        }
      }),
    );
  });
});
