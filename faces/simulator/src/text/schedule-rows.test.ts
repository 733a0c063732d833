/** A schedule's rows and words are the schedule's own numbers, and chance is told only where there is some. */
import { presets } from "@redrive/core";
import fc from "fast-check";
import { expect, test } from "vitest";
import { anyPolicy } from "../schedule/policy.testing.ts";
import { schedule } from "../schedule/schedule.ts";
import { formatSamples, maxSumMs, scheduleRows } from "./schedule-rows.ts";

test("rows are the attempts, the first of them at once", () => {
  const policy = { maxAttempts: 3, initialDelayMs: 100, jitterType: "NONE" } as const;
  expect(scheduleRows(schedule(policy))).toEqual([
    ["attempt", "waitMs", "lowMs", "highMs", "ceilingMs", "startsAtMs"],
    [1, 0, 0, 0, 0, 0],
    [2, 100, 100, 100, 100, 100],
    [3, 200, 200, 200, 200, 300],
  ]);
});

test("no other seed draws a longer sum of as many waits than the longest", () => {
  fc.assert(
    fc.property(anyPolicy, fc.nat(), fc.nat(), (policy, seed, other) => {
      const drawn = schedule(policy, { seed });
      const longestMs = maxSumMs(policy, drawn);
      if (longestMs === undefined) return;
      expect(longestMs).toBeGreaterThan(drawn.sumMs);
      const again = schedule(policy, { seed: other }).waits.slice(0, drawn.waits.length);
      expect(again.at(-1)?.sumMs ?? 0).toBeLessThanOrEqual(longestMs);
    }),
    { numRuns: 200 },
  );
});

test("how many calls were tried is told only where chance has a part", () => {
  expect(formatSamples(presets.payment, 20_000)).toBe(" (20,000 tried)");
  expect(formatSamples({ jitterType: "NONE" }, 20_000)).toBe("");
});
