/** Tests of the limit algorithms step by step, with values computed by hand. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { seededRandom } from "../time/virtual.ts";
import {
  createEstimate,
  type LimitAlgorithm,
  type LimitEstimate,
  recordCall,
} from "./limit-algorithms.ts";

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
  const step = (limit: number, inFlight: number, rttMs: number, dropped: boolean) => {
    const estimate = createEstimate("AIMD", 200, T0);
    estimate.limit = limit;
    recordCall(estimate, T0, inFlight, rttMs, dropped);
    return estimate.limit;
  };

  test("grows by one per call while at least half is used", () => {
    expect(step(20, 10, 5000, false)).toBe(21);
    expect(step(20, 9, 1, false)).toBe(20);
    expect(step(200, 200, 1, false)).toBe(200);
  });

  test("falls by a tenth, rounded down, on a drop or a call of more than 5 s", () => {
    expect(step(20, 1, 1, true)).toBe(18);
    expect(step(19, 1, 5001, false)).toBe(17);
    expect(step(1, 1, 1, true)).toBe(1);
  });

  test("falls once per round trip: a call sent before a cut says nothing about the new limit", () => {
    const estimate = createEstimate("AIMD", 200, T0);
    estimate.limit = 100;
    for (let n = 0; n < 50; n++) recordCall(estimate, T0 + n, 50, 50, true);
    expect(estimate.limit).toBe(90);
    recordCall(estimate, T0 + 50, 50, 50, true);
    expect(estimate.limit).toBe(81);
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
      expect(loaded.feed({ rttMs: 100, calls: 9, drops: 1 })).toBe(algorithm === "VEGAS" ? 19 : 18);
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
