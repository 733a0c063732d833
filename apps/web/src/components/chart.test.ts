/** Scales are invertible and monotonic, and put ticks at round values inside the axis. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  formatLogTick,
  linearScale,
  linearTicks,
  logScale,
  logTimeTicks,
  niceMax,
  timeAxis,
} from "./chart.tsx";

const positive = fc.double({ min: 1e-3, max: 1e12, noNaN: true });

describe("scales", () => {
  const makers = [
    ["linear", linearScale],
    ["log", logScale],
  ] as const;

  test.each(makers)("a %s scale inverts to the original value", (_, make) => {
    fc.assert(
      fc.property(positive, fc.double({ min: 0, max: 1, noNaN: true }), (end, share) => {
        const scale = make([0, end], [300, 20]);
        const value = end * share;
        expect(Math.abs(scale.invert(scale(value)) - value)).toBeLessThanOrEqual(end * 1e-9);
        expect(scale(0)).toBe(300);
        expect(scale(end)).toBeCloseTo(20, 6);
      }),
    );
  });

  test.each(makers)("a %s scale keeps values in order", (_, make) => {
    fc.assert(
      fc.property(positive, fc.float({ min: 0, max: 1, noNaN: true }), (end, share) => {
        const scale = make([0, end], [0, 100]);
        expect(scale(end * share)).toBeLessThanOrEqual(scale(end) + 1e-9);
      }),
    );
  });

  test("ticks are inside the domain, in order and limited in number", () => {
    fc.assert(
      fc.property(positive, fc.integer({ min: 1, max: 12 }), (end, maxTicks) => {
        const ticks = linearTicks([0, end], maxTicks);
        expect(ticks[0]).toBe(0);
        expect(ticks.length).toBeLessThanOrEqual(maxTicks + 1);
        expect(ticks.at(-1) ?? 0).toBeLessThanOrEqual(end * (1 + 1e-9));
        expect(ticks).toEqual(ticks.toSorted((a, b) => a - b));
      }),
    );
  });

  test("an axis contains its largest value", () => {
    fc.assert(
      fc.property(positive, (longest) => {
        expect(niceMax(longest)).toBeGreaterThanOrEqual(longest * (1 - 1e-9));
        expect(timeAxis(longest).endMs).toBeGreaterThanOrEqual(longest * (1 - 1e-9));
      }),
    );
  });

  test("each tick of a logarithmic time axis has its own short name", () => {
    const texts = logTimeTicks(10, 60 * 86_400_000).map(formatLogTick);
    expect(new Set(texts).size).toBe(texts.length);
    expect(texts).toEqual("0|10 ms|100 ms|1 s|10 s|1 min|10 min|1 h|10 h|2 d|20 d".split("|"));
    expect(logTimeTicks(10, 5000)).toEqual([0, 10, 100, 1000]);
  });

  test("a time axis uses the unit that fits its longest duration", () => {
    expect(timeAxis(6400).ticks(4).map(timeAxis(6400).format)).toEqual([
      "0 s",
      "2 s",
      "4 s",
      "6 s",
      "8 s",
    ]);
    expect(timeAxis(90_000).format(60_000)).toBe("60 s");
    expect(timeAxis(36_000_000).format(7_200_000)).toBe("2 h");
    expect(timeAxis(40).format(20)).toBe("20 ms");
    expect(timeAxis(1).format(0.2)).toBe("0.2 ms");
  });
});
