/** Histogram: quantiles are those of the sorted list, as a property. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { countDuration, createHistogram, quantileOf } from "./histogram.ts";

describe("histogram", () => {
  it("gives quantiles to within 1 % (or 1/64 ms) of the sorted list", () => {
    const spans = fc.array(fc.double({ min: 0, max: 1e6, noNaN: true }), {
      minLength: 1,
      maxLength: 300,
    });
    fc.assert(
      fc.property(spans, fc.constantFrom(0.5, 0.9, 0.99, 1), (list, quantile) => {
        const histogram = createHistogram();
        for (const ms of list) countDuration(histogram, ms);
        const sorted = [...list].sort((a, b) => a - b);
        const exact = sorted[Math.max(0, Math.ceil(quantile * list.length) - 1)] as number;
        const measured = quantileOf(histogram, quantile);
        expect(Math.abs(measured - exact)).toBeLessThanOrEqual(exact * 0.01 + 1 / 64);
      }),
    );
  });

  it("answers 0 without calls and never more than the longest", () => {
    const histogram = createHistogram();
    expect(quantileOf(histogram, 0.99)).toBe(0);
    countDuration(histogram, 12.5);
    expect(quantileOf(histogram, 1)).toBe(12.5);
  });
});
