/**
 * The rows and texts of a schedule have its numbers, and mention samples only for a random policy.
 */
import { presets } from "@redrive/core";
import fc from "fast-check";
import { expect, test } from "vitest";
import { anyPolicy } from "../schedule/policy.testing.ts";
import { schedule } from "../schedule/schedule.ts";
import { formatSamples, maxSumMs, scheduleRows } from "./schedule-rows.ts";

test("there is one row per attempt, and the first attempt starts at once", () => {
  const policy = { maxAttempts: 3, initialDelayMs: 100, jitterType: "NONE" } as const;
  expect(scheduleRows(schedule(policy))).toEqual([
    ["attempt", "waitMs", "lowMs", "highMs", "ceilingMs", "startsAtMs"],
    [1, 0, 0, 0, 0, 0],
    [2, 100, 100, 100, 100, 100],
    [3, 200, 200, 200, 200, 300],
  ]);
});

test("no seed draws a larger sum of as many waits than the maximum", () => {
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

test("the number of samples appears only for a random policy", () => {
  expect(formatSamples(presets.payment, 20_000)).toBe(" (20,000 tried)");
  expect(formatSamples({ jitterType: "NONE" }, 20_000)).toBe("");
});
