/** Tests of the latency histogram, against quantiles of the exact list. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { expectGarbageRefused } from "../documents/saved-state.testing.ts";
import { seededRandom } from "../time/virtual.ts";
import {
  createLatency,
  type Latency,
  latencyCalls,
  medianMs,
  quantileBoundMs,
  quantileMs,
  recordLatency,
  recordUnfinished,
  restoreLatency,
  saveLatency,
} from "./latency.ts";

const T0 = 1_700_000_000_000;
const QUANTILES = [0, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1];

function recorded(values: readonly number[], now = T0): Latency {
  const latency = createLatency(T0);
  for (const ms of values) recordLatency(latency, now, ms);
  return latency;
}

/** The nearest-rank quantile of a list. */
function exactQuantile(values: readonly number[], quantile: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(quantile * sorted.length) - 1)] ?? 0;
}

describe("quantiles", () => {
  test("differ by at most 1/32 from the exact ones, from 1 ms to 20 minutes", () => {
    const anyMs = fc.oneof(
      fc.integer({ min: 1, max: 200 }),
      fc.integer({ min: 1, max: 20_000 }),
      fc.integer({ min: 1, max: 1_200_000 }),
    );
    fc.assert(
      fc.property(fc.array(anyMs, { minLength: 1, maxLength: 200 }), (values) => {
        const latency = recorded(values);
        for (const quantile of QUANTILES) {
          const exact = exactQuantile(values, quantile);
          const found = quantileMs(latency, T0, quantile) ?? 0;
          expect(Number.isInteger(found)).toBe(true);
          expect(Math.abs(found - exact)).toBeLessThanOrEqual(exact / 32);
        }
      }),
    );
  });

  test("are exact up to 31 ms", () => {
    for (let ms = 1; ms <= 31; ms++) expect(medianMs(recorded([ms]), T0)).toBe(ms);
    expect(medianMs(recorded([33]), T0)).toBe(33);
    expect(medianMs(recorded([32]), T0)).toBe(33);
  });

  test("without calls there are none", () => {
    expect(medianMs(createLatency(T0), T0)).toBeUndefined();
  });

  test("less than 1 ms counts as 1 ms, more than the maximum as the maximum, fractions are dropped", () => {
    expect(medianMs(recorded([0]), T0)).toBe(1);
    expect(medianMs(recorded([0.2]), T0)).toBe(1);
    expect(medianMs(recorded([-5]), T0)).toBe(1);
    expect(medianMs(recorded([7.9]), T0)).toBe(7);
    expect(medianMs(recorded([1e12]), T0)).toBe(2_064_384);
  });

  test("the middle of a bucket represents all of it", () => {
    const latency = recorded(Array.from({ length: 100 }, (_, n) => n + 1));
    expect(medianMs(latency, T0)).toBe(51);
    expect(quantileMs(latency, T0, 0.95)).toBe(94);
    expect(quantileMs(latency, T0, 0.25)).toBe(25);
  });
});

describe("aging", () => {
  test("calls expire after 30 to 60 s", () => {
    const latency = recorded([20], T0);
    expect(medianMs(latency, T0 + 59_999)).toBe(20);
    expect(medianMs(latency, T0 + 60_000)).toBeUndefined();
    const late = recorded([20], T0 + 29_999);
    expect(medianMs(late, T0 + 59_999)).toBe(20);
    expect(medianMs(late, T0 + 60_000)).toBeUndefined();
  });

  test("old and new calls count together until the old ones expire", () => {
    const latency = recorded([8, 8, 8], T0);
    recordLatency(latency, T0 + 31_000, 20);
    expect(quantileMs(latency, T0 + 31_000, 0.75)).toBe(8);
    expect(quantileMs(latency, T0 + 31_000, 1)).toBe(20);
    expect(latencyCalls(latency, T0 + 31_000)).toBe(4);
    expect(quantileMs(latency, T0 + 60_000, 0.75)).toBe(20);
    expect(latencyCalls(latency, T0 + 60_000)).toBe(1);
    expect(medianMs(latency, T0 + 90_000)).toBeUndefined();
  });

  test("after a pause of many windows nothing counts", () => {
    const latency = recorded([8], T0);
    recordLatency(latency, T0 + 31_000, 20);
    expect(medianMs(latency, T0 + 31_000 + 3_600_000)).toBeUndefined();
  });

  test("a clock set back by an hour changes nothing, and aging continues from there", () => {
    const latency = recorded([8], T0 + 10_000);
    const backAt = T0 - 3_600_000;
    expect(medianMs(latency, backAt)).toBe(8);
    expect(medianMs(latency, backAt + 49_999)).toBe(8);
    expect(medianMs(latency, backAt + 50_000)).toBeUndefined();
  });
});

describe("caching", () => {
  test("a quantile is computed again after 250 ms, if there was a call", () => {
    const latency = recorded(new Array<number>(100).fill(8));
    expect(quantileMs(latency, T0, 1)).toBe(8);
    recordLatency(latency, T0 + 1, 20);
    expect(quantileMs(latency, T0 + 249, 1)).toBe(8);
    expect(quantileMs(latency, T0 + 250, 1)).toBe(20);
  });

  test("or after an eighth more calls", () => {
    const latency = recorded(new Array<number>(80).fill(8));
    expect(quantileMs(latency, T0, 1)).toBe(8);
    for (let n = 0; n < 9; n++) recordLatency(latency, T0, 20);
    expect(quantileMs(latency, T0, 1)).toBe(8);
    recordLatency(latency, T0, 20);
    expect(quantileMs(latency, T0, 1)).toBe(20);
  });

  test("more quantiles than the cache holds are all correct", () => {
    const latency = recorded(Array.from({ length: 31 }, (_, n) => n + 1));
    const ask = () => QUANTILES.map((quantile) => quantileMs(latency, T0, quantile));
    expect(ask()).toEqual([1, 4, 16, 28, 30, 31, 31, 31]);
    expect(ask()).toEqual(ask());
  });
});

describe("attempts that were aborted", () => {
  /** Ends drawn from an exponential distribution, cut off as the loser of a hedge is. */
  function censored(cutMs: (draw: number) => number, count = 40_000): Latency {
    const random = seededRandom("censored");
    const latency = createLatency(T0);
    for (let n = 0; n < count; n++) {
      const ms = -1000 * Math.log(1 - random.next());
      const cut = cutMs(random.next());
      if (cut < ms) recordUnfinished(latency, T0, cut);
      else recordLatency(latency, T0, ms);
    }
    return latency;
  }

  test.each([0.25, 0.5, 0.9, 0.95, 0.99])(
    "do not shift the quantile %s, however many there are",
    (quantile) => {
      const exact = -1000 * Math.log(1 - quantile);
      // Half of the attempts that outlast the median are aborted, at any age.
      const some = censored((draw) => (draw < 0.5 ? 693 + 4000 * draw : 1e9));
      const bound = quantileBoundMs(some, T0, quantile) ?? 0;
      expect(Math.abs(bound - exact) / exact).toBeLessThan(0.05);
      expect(Math.abs((quantileMs(some, T0, quantile) ?? 0) - exact) / exact).toBeLessThan(0.06);
    },
  );

  test("weigh on the longer calls: the estimator of Kaplan and Meier, by hand", () => {
    const latency = recorded([1, 3, 5, 7]);
    recordUnfinished(latency, T0, 2);
    recordUnfinished(latency, T0, 4);
    // Six attempts. After 1 ms 5/6 are left; after 3 ms 3/4 of those; after 5 ms half of those.
    const shareAt = [1 / 6, 1 - (5 / 6) * (3 / 4), 1 - (5 / 6) * (3 / 4) * (1 / 2)];
    for (const [index, share] of shareAt.entries()) {
      expect(quantileMs(latency, T0, share - 0.001)).toBe(2 * index + 1);
      expect(quantileMs(latency, T0, share + 0.001)).toBe(2 * index + 3);
    }
  });

  test("that are longer than every call end the quantiles: nothing more is known", () => {
    const latency = recorded([1, 2]);
    for (let n = 0; n < 8; n++) recordUnfinished(latency, T0, 20);
    expect([quantileMs(latency, T0, 0.2), quantileMs(latency, T0, 0.95)]).toEqual([2, 20]);
  });

  test("are not calls, and do not count without one", () => {
    const latency = createLatency(T0);
    recordUnfinished(latency, T0, 20);
    expect([latencyCalls(latency, T0), medianMs(latency, T0)]).toEqual([0, undefined]);
  });

  test("are forgotten like calls", () => {
    const latency = recorded([10]);
    for (let n = 0; n < 9; n++) recordUnfinished(latency, T0, 20);
    recordLatency(latency, T0 + 31_000, 10);
    expect(medianMs(latency, T0 + 31_000)).toBe(20);
    expect(medianMs(latency, T0 + 60_000)).toBe(10);
  });

  test("make a quantile stale as calls do", () => {
    const latency = recorded(new Array<number>(80).fill(8));
    expect(quantileMs(latency, T0, 0.95)).toBe(8);
    for (let n = 0; n < 10; n++) recordUnfinished(latency, T0, 5);
    recordLatency(latency, T0, 20);
    expect(quantileMs(latency, T0, 0.99)).toBe(20);
  });
});

describe("save and restore", () => {
  test("a restored histogram agrees with the saved one and expires like it", () => {
    const latency = recorded([8, 9, 500], T0);
    recordUnfinished(latency, T0, 300);
    recordLatency(latency, T0 + 31_000, 20);
    recordUnfinished(latency, T0 + 31_000, 2);
    const restored = restoreLatency(JSON.parse(JSON.stringify(saveLatency(latency))));
    expect(saveLatency(restored)).toEqual(saveLatency(latency));
    for (const now of [T0 + 31_000, T0 + 59_999, T0 + 60_000, T0 + 90_000]) {
      for (const quantile of QUANTILES) {
        expect(quantileMs(restored, now, quantile)).toBe(quantileMs(latency, now, quantile));
      }
    }
  });

  test("a state of an older version has no aborted attempts", () => {
    const { unfinished, ...older } = saveLatency(recorded([8, 9, 500], T0));
    expect(unfinished).toEqual([]);
    expect(medianMs(restoreLatency(older), T0)).toBe(9);
  });

  test("garbage is refused by name", () => {
    expectGarbageRefused("latency", saveLatency(createLatency(T0)), restoreLatency);
  });
});
