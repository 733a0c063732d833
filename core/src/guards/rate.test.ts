/** Tests of the rate: never more than burst plus rate, in any interval. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { expectGarbageRefused } from "../documents/saved-state.testing.ts";
import {
  createRate,
  type Rate,
  type RateOptions,
  rateReadyAt,
  restoreRate,
  returnRate,
  saveRate,
  takeRate,
} from "./rate.ts";

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
