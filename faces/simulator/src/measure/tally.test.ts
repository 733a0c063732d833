/** Tally: merges bins without losing a count and finds the fullest window. */
import { describe, expect, it } from "vitest";
import {
  ATTEMPTS,
  countArrivals,
  countAt,
  countLost,
  createTally,
  MAX_BINS,
  OFFERED,
  QUEUE_MS,
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

  it("finds the fullest window, and the fullest once the trouble is over", () => {
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

  it("counts why calls were lost", () => {
    const tally = createTally({ horizonMs: 1000, windowMs: 100 });
    countLost(tally, "budget", 5);
    countLost(tally, "budget", 9);
    expect([tally.lost, tally.reasons.get("budget"), tally.doneAtMs]).toEqual([2, 2, 9]);
  });
});
