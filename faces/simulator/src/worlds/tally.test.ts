/** Tally: merges bins without losing a count, and finds the peak window. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  ATTEMPTS,
  countArrivals,
  countAt,
  countDuration,
  countLost,
  createHistogram,
  createTally,
  MAX_BINS,
  OFFERED,
  QUEUE_MS,
  quantileOf,
  recordQueue,
} from "./tally.ts";

describe("tally", () => {
  it("merges bins when a run outlasts its horizon, losing no count", () => {
    const tally = createTally({ horizonMs: 1000, windowMs: 100 });
    for (let at = 0; at < 2_000_000; at += 100) countAt(tally, OFFERED, at);
    recordQueue(tally, 50, 7);
    expect(tally.bins).toBeLessThanOrEqual(MAX_BINS);
    expect(tally.lanes[OFFERED]?.reduce((sum, count) => sum + count, 0)).toBe(20_000);
    expect(tally.lanes[QUEUE_MS]?.[0]).toBe(7);
  });

  it("finds the peak window, and the peak after the last phase", () => {
    const tally = createTally({ horizonMs: 10_000, windowMs: 100, triggerEndMs: 1000 });
    countArrivals(tally, 10, 50);
    countArrivals(tally, 90, 10);
    countArrivals(tally, 1200, 5);
    countArrivals(tally, 1250, 6);
    countArrivals(tally, 1300, 4);
    expect(tally.peak).toEqual({ count: 60, atMs: 0 });
    expect(tally.peakAfter).toEqual({ count: 11, atMs: 1200 });
    expect(tally.lanes[ATTEMPTS]?.[0]).toBe(60);
  });

  it("counts lost calls by reason", () => {
    const tally = createTally({ horizonMs: 1000, windowMs: 100 });
    countLost(tally, "budget", 5);
    countLost(tally, "budget", 9);
    expect([tally.lost, tally.reasons.get("budget"), tally.doneAtMs]).toEqual([2, 2, 9]);
  });
});

// Histogram: its quantiles are those of the sorted list, as a property.

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

  it("returns 0 without calls and never more than the maximum", () => {
    const histogram = createHistogram();
    expect(quantileOf(histogram, 0.99)).toBe(0);
    countDuration(histogram, 12.5);
    expect(quantileOf(histogram, 1)).toBe(12.5);
  });
});
