/**
 * Tests of the rate: never more than burst plus rate, in any interval.
 * Tests of the adaptive rate against the AWS SDKs: the published tables and values of the real code.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { expectGarbageRefused } from "../documents/saved-state.testing.ts";
import {
  ADAPTIVE_RATE_DEFAULTS,
  type AdaptiveRate,
  adaptiveRateReadyAt,
  createAdaptiveRate,
  createRate,
  cubeRoot,
  type Rate,
  type RateOptions,
  rateReadyAt,
  recordAdaptiveRateResponse,
  restoreAdaptiveRate,
  restoreRate,
  returnAdaptiveRate,
  returnRate,
  saveAdaptiveRate,
  saveRate,
  takeAdaptiveRate,
  takeRate,
} from "./rate.ts";

describe("rate", () => {
  const T0 = 1_700_000_000_000;

  function drain(rate: Rate, now: number): number {
    let taken = 0;
    while (takeRate(rate, now)) taken++;
    return taken;
  }

  const anyOptions: fc.Arbitrary<RateOptions> = fc.record({
    perSecond: fc.oneof(
      fc.constantFrom(0.1, 0.3, 1, 3, 7, 1000, 100_000),
      fc.double({ min: 0.01, max: 5000, noNaN: true }),
    ),
    burst: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 50 })),
  });

  const anyGaps = fc.array(fc.oneof(fc.nat(3), fc.nat(400), fc.nat(20_000)), { maxLength: 60 });

  describe("the bound", () => {
    test("in any t ms at most burst + perSecond x t / 1000 calls pass, whatever is returned", () => {
      fc.assert(
        fc.property(anyOptions, anyGaps, fc.infiniteStream(fc.nat(5)), (options, gaps, draws) => {
          const rate = createRate(options, T0);
          const passed: number[] = [];
          const unused: number[] = [];
          let now = T0;
          for (const gap of gaps) {
            now += gap;
            for (let n = 0; n < 60 && takeRate(rate, now); n++) {
              const isUsed = draws.next().value > 1;
              (isUsed ? passed : unused).push(now);
              // Some are returned at once, some later, and some never.
              const takenAt = draws.next().value > 2 ? unused.pop() : undefined;
              if (takenAt !== undefined) returnRate(rate, takenAt, now);
            }
          }
          const worst = passed.reduce((most, fromAt, from) => {
            const spare = passed.slice(from).map((toAt, n) => {
              return n + 1 - (options.burst + (options.perSecond * (toAt - fromAt)) / 1000);
            });
            return Math.max(most, ...spare);
          }, 0);
          expect(worst).toBeLessThan(1e-6);
        }),
      );
    });

    test("a token that is returned at once is available to the next call", () => {
      const rate = createRate({ perSecond: 1, burst: 1 }, T0);
      for (let n = 0; n < 100; n++) {
        expect(takeRate(rate, T0)).toBe(true);
        expect(takeRate(rate, T0)).toBe(false);
        returnRate(rate, T0, T0);
      }
      expect(drain(rate, T0)).toBe(1);
      expect(rateReadyAt(rate, T0)).toBe(T0 + 1000);
    });

    test("a token can be returned after later calls have taken theirs", () => {
      const rate = createRate({ perSecond: 1, burst: 2 }, T0);
      takeRate(rate, T0);
      expect(takeRate(rate, T0 + 250)).toBe(true);
      expect(takeRate(rate, T0 + 250)).toBe(false);
      returnRate(rate, T0, T0 + 250);
      expect(rateReadyAt(rate, T0 + 250)).toBe(T0 + 250);
      expect(drain(rate, T0 + 250)).toBe(1);
    });

    test("a token that time has already refilled is not returned twice", () => {
      const rate = createRate({ perSecond: 1, burst: 2 }, T0);
      takeRate(rate, T0);
      expect(takeRate(rate, T0 + 1000)).toBe(true);
      returnRate(rate, T0, T0 + 1000);
      expect(drain(rate, T0 + 1000)).toBe(1);
    });

    test("a return never leaves more capacity than if the token had not been taken", () => {
      const anyTakes = fc.array(fc.nat(300), { maxLength: 20 });
      fc.assert(
        fc.property(anyOptions, anyTakes, fc.nat(50), anyTakes, (options, before, wait, after) => {
          const [taken, untouched] = [createRate(options, T0), createRate(options, T0)];
          let now = T0;
          // Both get the same calls: those that the rate with the missing token admits.
          const pass = (gap: number) => {
            now += gap;
            if (takeRate(taken, now)) expect(takeRate(untouched, now)).toBe(true);
          };
          before.forEach(pass);
          now += wait;
          const takenAt = now;
          if (!takeRate(taken, takenAt)) return;
          after.forEach(pass);
          returnRate(taken, takenAt, now);
          expect(drain(taken, now)).toBeLessThanOrEqual(drain(untouched, now));
        }),
      );
    });

    test("a caller that waits until it is ready gets the full rate", () => {
      for (const perSecond of [0.1, 3, 7, 250]) {
        const rate = createRate({ perSecond, burst: 2 }, T0);
        let now = T0;
        for (let n = 0; n < 101; n++) {
          now = rateReadyAt(rate, now);
          expect(takeRate(rate, now)).toBe(true);
        }
        const idealMs = (99 * 1000) / perSecond;
        expect(now - T0).toBeGreaterThanOrEqual(Math.floor(idealMs));
        expect(now - T0).toBeLessThanOrEqual(idealMs + 1);
      }
    });
  });

  test("checking every ms costs nothing, and fails until the announced instant", () => {
    fc.assert(
      fc.property(anyOptions, fc.nat(2000), (options, gap) => {
        const rate = createRate(options, T0);
        drain(rate, T0);
        drain(rate, T0 + gap);
        const readyAt = rateReadyAt(rate, T0 + gap);
        const from = Math.max(T0 + gap, readyAt - 200);
        let early = 0;
        for (let now = from; now < readyAt; now++) early += Number(takeRate(rate, now));
        expect(early).toBe(0);
        expect(takeRate(rate, readyAt)).toBe(true);
      }),
    );
  });

  describe("burst and idle time", () => {
    test("a burst starts at once, then one call per interval", () => {
      const rate = createRate({ perSecond: 10, burst: 5 }, T0);
      expect(drain(rate, T0)).toBe(5);
      expect(rateReadyAt(rate, T0)).toBe(T0 + 100);
      expect(drain(rate, T0 + 99)).toBe(0);
      expect(drain(rate, T0 + 100)).toBe(1);
      expect(drain(rate, T0 + 350)).toBe(2);
    });

    test("idle time refills a full burst and no more", () => {
      const rate = createRate({ perSecond: 10, burst: 5 }, T0);
      drain(rate, T0);
      expect(drain(rate, T0 + 3_600_000)).toBe(5);
    });

    test("a tenth of a call per second is one in ten seconds", () => {
      const rate = createRate({ perSecond: 0.1, burst: 1 }, T0);
      expect(drain(rate, T0)).toBe(1);
      expect(rateReadyAt(rate, T0 + 1)).toBe(T0 + 10_000);
      expect(drain(rate, T0 + 9999)).toBe(0);
      expect(drain(rate, T0 + 10_000)).toBe(1);
    });

    test("a fractional interval is rounded up for the caller, not for the rate", () => {
      const rate = createRate({ perSecond: 3, burst: 1 }, T0);
      expect(drain(rate, T0)).toBe(1);
      expect(rateReadyAt(rate, T0)).toBe(T0 + 334);
      expect(rateReadyAt(rate, T0 + 334)).toBe(T0 + 334);
    });

    test("at 100 000 per second, one ms admits a hundred", () => {
      const rate = createRate({ perSecond: 100_000, burst: 100 }, T0);
      for (let ms = 0; ms < 100; ms++) expect(drain(rate, T0 + ms)).toBe(100);
      const narrow = createRate({ perSecond: 100_000, burst: 1 }, T0);
      for (let ms = 0; ms < 100; ms++) expect(drain(narrow, T0 + ms)).toBe(1);
    });
  });

  describe("a clock that goes backwards", () => {
    test("admits nothing extra and holds no call longer than the remaining time", () => {
      const rate = createRate({ perSecond: 1, burst: 1 }, T0);
      takeRate(rate, T0);
      expect(takeRate(rate, T0 - 500)).toBe(false);
      expect(rateReadyAt(rate, T0 - 3_600_000)).toBe(T0 - 3_600_000 + 1000);
      expect(takeRate(rate, T0 - 3_600_000 + 1000)).toBe(true);
    });

    test("readings that vary by some ms admit nothing extra", () => {
      const rate = createRate({ perSecond: 10, burst: 1 }, T0);
      takeRate(rate, T0);
      for (let n = 0; n < 100; n++) {
        expect(takeRate(rate, T0 + 50)).toBe(false);
        expect(takeRate(rate, T0 + 10)).toBe(false);
      }
    });
  });

  describe("save and restore", () => {
    const options = { perSecond: 3, burst: 4 };

    test("a restored rate is ready when the saved one would have been", () => {
      const rate = createRate(options, T0);
      drain(rate, T0 + 100);
      const restored = restoreRate(options, JSON.parse(JSON.stringify(saveRate(rate))));
      expect(restored).toEqual(rate);
      expect(rateReadyAt(restored, T0 + 300)).toBe(T0 + 434);
    });

    test("a smaller burst limits what a larger one has spent", () => {
      const wide = createRate({ perSecond: 10, burst: 100 }, T0);
      drain(wide, T0);
      const restored = restoreRate({ perSecond: 10, burst: 2 }, saveRate(wide));
      expect(rateReadyAt(restored, T0)).toBe(T0 + 100);
    });

    test("garbage is refused by name", () => {
      const saved = saveRate(createRate(options, T0));
      expectGarbageRefused("rate", saved, (value) => restoreRate(options, value));
    });
  });
});

describe("adaptive rate", () => {
  const T0 = 1_700_000_000_250;

  const create = (now: number) => createAdaptiveRate(ADAPTIVE_RATE_DEFAULTS, now);

  /** A limiter that was throttled at 10 calls per second and has tokens for one second. */
  function throttledAt(now: number): AdaptiveRate {
    const rate = create(now - 5000);
    for (let ms = -5000; ms < 0; ms += 100) recordAdaptiveRateResponse(rate, now + ms, false);
    recordAdaptiveRateResponse(rate, now, true);
    return rate;
  }

  describe("a token that is returned", () => {
    /** Throttled at T0, one second later: some tokens are available. */
    function ready(): AdaptiveRate {
      const rate = throttledAt(T0);
      adaptiveRateReadyAt(rate, T0 + 1000);
      return rate;
    }

    test("at once is available to the next call, and the bucket does not overflow", () => {
      const rate = ready();
      const before = rate.tokens;
      takeAdaptiveRate(rate, T0 + 1000);
      returnAdaptiveRate(rate, T0 + 1000, T0 + 1000);
      expect(rate.tokens).toBeCloseTo(before, 9);
      for (let n = 0; n < 50; n++) returnAdaptiveRate(rate, T0 + 1000, T0 + 1000);
      expect(rate.tokens).toBe(rate.capacity);
    });

    test("later is reduced by what time has refilled", () => {
      for (const ms of [0, 10, 50, 5000]) {
        const rate = ready();
        while (takeAdaptiveRate(rate, T0 + 1000));
        const left = rate.tokens;
        const refilled = (ms / 1000) * rate.fillRate;
        returnAdaptiveRate(rate, T0 + 1000, T0 + 1000 + ms);
        const whole = Math.min(rate.capacity, left + Math.max(1, refilled));
        expect(rate.tokens).toBeCloseTo(whole, 9);
      }
    });

    test("is not counted if the call started before the limiter was throttled", () => {
      const rate = create(T0 - 5000);
      expect(takeAdaptiveRate(rate, T0 - 1)).toBe(true);
      returnAdaptiveRate(rate, T0 - 1, T0 - 1);
      recordAdaptiveRateResponse(rate, T0, true);
      while (takeAdaptiveRate(rate, T0));
      returnAdaptiveRate(rate, T0 - 1, T0);
      expect(takeAdaptiveRate(rate, T0)).toBe(false);
    });
  });

  // The tables of Amazon's "new retries" specification for SDKs, as smithy-kotlin's and
  // smithy-swift's tests have them (read 2026-11-15).
  describe("the SDKs' specification", () => {
    /** The tables give no measured rate; one that never limits leaves only the cubic curve. */
    function cubic(): AdaptiveRate {
      const rate = create(0);
      rate.enabled = true;
      rate.lastMaxRate = 10;
      rate.throttledAt = 5000;
      rate.plateauSeconds = cubeRoot((10 * 0.3) / 0.4);
      return rate;
    }

    /** Fixes the measured rate before each response, so only the curve is tested. */
    function ratesOf(
      rate: AdaptiveRate,
      responses: readonly (readonly [number, boolean])[],
    ): number[] {
      return responses.map(([second, throttled]) => {
        rate.measuredRate = 1000;
        rate.measuredAt = 1000 * second;
        recordAdaptiveRateResponse(rate, 1000 * second, throttled);
        return rate.fillRate;
      });
    }

    test("cubic success #1", () => {
      const seconds = [5, 6, 7, 8, 9, 10, 11];
      const rates = ratesOf(
        cubic(),
        seconds.map((second) => [second, false] as const),
      );
      const table = [7, 9.64893600966, 10.000030849917364, 10.453284520772092, 13.408697022224185];
      for (const [n, expected] of [...table, 21.26626835427364, 36.425998516920465].entries()) {
        expect(rates[n]).toBeCloseTo(expected, 9);
      }
    });

    test("cubic success #2, with two throttling responses", () => {
      const responses = [5, 6, 7, 8, 9, 10, 11, 12].map((s) => [s, s === 7 || s === 8] as const);
      const rates = ratesOf(cubic(), responses);
      const table = [7, 9.64893600966, 6.754255206761999, 4.727978644733399, 6.606547753887045];
      const rest = [6.763279816944947, 7.598174833907107, 11.511232804773524];
      for (const [n, expected] of [...table, ...rest].entries()) {
        expect(rates[n]).toBeCloseTo(expected, 9);
      }
    });

    test("end-to-end test for client sending rates", () => {
      const measured = [0, 0, 4.8, 4.8, 4.16, 4.16, 4.16, 5.632, 5.632, 4.3264, 4.3264, 4.3264];
      const measuredLater = [5.66528, 5.66528, 4.333056, 4.333056, 4.333056];
      const fill = [0.5, 0.5, 0.5, 0.5, 0.5, 0.6912, 1.0976, 1.6384, 2.3328, 3.02848, 3.486639];
      const fillLater = [3.821874, 4.053386, 4.200373, 4.282037, 2.997426, 3.452226];
      const rate = create(0);
      for (const [n, expected] of [...fill, ...fillLater].entries()) {
        const ms = 200 * (n + 1);
        recordAdaptiveRateResponse(rate, ms, ms === 2000 || ms === 3200);
        expect(rate.measuredRate).toBeCloseTo([...measured, ...measuredLater][n] ?? 0, 6);
        expect(rate.fillRate).toBeCloseTo(expected, 6);
      }
    });
  });

  // Computed by DefaultRateLimiter of @smithy/core 3.40.0 with `Date.now` replaced (2026-11-15):
  // 60 responses from T0 on with the gaps below, numbers 12, 13, 30 and 47 throttled.
  test("agrees with @smithy/core 3.40.0 response by response", () => {
    const gaps = [100, 150, 50, 300, 200, 120, 80, 500, 40, 60];
    const figures: Readonly<
      Record<number, readonly [measured: number, fill: number, tokens?: number]>
    > = {
      0: [0, 0.5],
      5: [5.44, 0.5],
      9: [5.888, 1.63839971],
      11: [7.5776, 2.53264961],
      12: [7.5776, 5.30432],
      13: [7.5776, 3.713024],
      14: [6.31552, 4.24273412, 3.713024],
      20: [6.0126208, 5.25882243, 5.2244374],
      29: [4.72010097, 5.72318823, 5.65324202],
      30: [4.72010097, 3.30407068, 3.30407068],
      31: [4.72010097, 3.68237121, 3.30407068],
      40: [2.85376081, 4.72027609, 4.72009539],
      46: [5.23415043, 5.09190956, 5.0077651],
      47: [4.24683009, 2.97278106, 2.97278106],
      48: [4.24683009, 3.07389193, 2.97278106],
      59: [6.04997464, 4.25161323, 4.24874968],
    };
    const rate = create(T0);
    let now = T0;
    for (let n = 0; n < 60; n++) {
      now += gaps[n % gaps.length] ?? 0;
      recordAdaptiveRateResponse(rate, now, [12, 13, 30, 47].includes(n));
      const [measured, fill, tokens] = figures[n] ?? [rate.measuredRate, rate.fillRate];
      expect(rate.measuredRate).toBeCloseTo(measured, 6);
      expect(rate.fillRate).toBeCloseTo(fill, 5);
      // The original skips its first refill; the two buckets are equal once they were full.
      expect(rate.tokens).toBeCloseTo(tokens ?? rate.tokens, 5);
      expect(rate.capacity).toBe(Math.max(1, rate.fillRate));
      expect(rate.enabled).toBe(n >= 12);
    }
  });

  describe("admitting calls", () => {
    test("every call may start until the first throttling response", () => {
      const rate = create(T0);
      for (let n = 0; n < 1000; n++) expect(takeAdaptiveRate(rate, T0)).toBe(true);
      expect(adaptiveRateReadyAt(rate, T0)).toBe(T0);
    });

    test("then each call takes a token, at the fill rate", () => {
      const rate = throttledAt(T0);
      while (takeAdaptiveRate(rate, T0)) expect(rate.tokens).toBeGreaterThanOrEqual(0);
      const readyAt = adaptiveRateReadyAt(rate, T0);
      expect(readyAt - T0).toBe(Math.ceil(((1 - rate.tokens) * 1000) / rate.fillRate));
      expect(takeAdaptiveRate(rate, readyAt - 1)).toBe(false);
      expect(takeAdaptiveRate(rate, readyAt)).toBe(true);
    });

    test("never slower than one call in two seconds, and never more than one second's calls at once", () => {
      const rate = throttledAt(T0);
      for (let n = 1; n <= 60; n++) recordAdaptiveRateResponse(rate, T0 + 100 * n, true);
      expect(rate.fillRate).toBe(0.5);
      expect(rate.capacity).toBe(1);
      while (takeAdaptiveRate(rate, T0 + 6000)) expect(rate.tokens).toBeLessThan(1);
      expect(adaptiveRateReadyAt(rate, T0 + 6000) - T0).toBeLessThanOrEqual(8000);
      expect(takeAdaptiveRate(rate, T0 + 3_600_000)).toBe(true);
      expect(takeAdaptiveRate(rate, T0 + 3_600_000)).toBe(false);
    });

    test("never faster than twice what was really sent", () => {
      const rate = throttledAt(T0);
      for (let n = 1; n <= 100; n++) recordAdaptiveRateResponse(rate, T0 + 1000 * n, false);
      expect(rate.measuredRate).toBeCloseTo(1, 9);
      expect(rate.fillRate).toBe(2 * rate.measuredRate);
    });
  });

  test("the cube root is right to 14 digits, and 0 for 0", () => {
    expect(cubeRoot(0)).toBeCloseTo(0, 12);
    expect(cubeRoot(27)).toBeCloseTo(3, 14);
    fc.assert(
      fc.property(fc.double({ min: 1e-6, max: 1e9, noNaN: true }), (value) => {
        expect(Math.abs(cubeRoot(value) / Math.cbrt(value) - 1)).toBeLessThan(1e-14);
      }),
    );
  });

  test("a clock set back by an hour changes nothing, and the limiter continues from there", () => {
    const rate = throttledAt(T0);
    const { tokens, fillRate } = rate;
    const backAt = T0 - 3_600_000;
    adaptiveRateReadyAt(rate, backAt);
    expect([rate.tokens, rate.fillRate]).toEqual([tokens, fillRate]);
    expect(rate.throttledAt).toBe(backAt);
    for (let n = 1; n <= 20; n++) recordAdaptiveRateResponse(rate, backAt + 100 * n, false);
    const undisturbed = throttledAt(T0);
    for (let n = 1; n <= 20; n++) recordAdaptiveRateResponse(undisturbed, T0 + 100 * n, false);
    expect(rate.fillRate).toBeCloseTo(undisturbed.fillRate, 9);
    expect(rate.measuredRate).toBe(undisturbed.measuredRate);
  });

  describe("save and restore", () => {
    test("a restored limiter continues like the saved one", () => {
      const rate = throttledAt(T0);
      const saved = JSON.parse(JSON.stringify(saveAdaptiveRate(rate)));
      const restored = restoreAdaptiveRate(ADAPTIVE_RATE_DEFAULTS, saved);
      expect(restored).toEqual(rate);
      for (const each of [rate, restored]) recordAdaptiveRateResponse(each, T0 + 700, false);
      expect(restored).toEqual(rate);
    });

    test("a raised minimum applies at once", () => {
      const options = { ...ADAPTIVE_RATE_DEFAULTS, minFillRate: 9 };
      expect(restoreAdaptiveRate(options, saveAdaptiveRate(create(T0))).fillRate).toBe(9);
    });

    test("garbage is refused by name", () => {
      expectGarbageRefused("adaptiveRate", saveAdaptiveRate(create(T0)), (value) =>
        restoreAdaptiveRate(ADAPTIVE_RATE_DEFAULTS, value),
      );
    });
  });
});
