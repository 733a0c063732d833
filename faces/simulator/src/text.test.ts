/**
 * The rows and texts of a schedule have its numbers, and mention samples only for a random policy.
 */

import { presets } from "@redrive/core";
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import type { LabRow } from "./labs/lab.ts";
import { herd } from "./schedule/herd.ts";
import { anyPolicy } from "./schedule/policy.testing.ts";
import { schedule } from "./schedule/schedule.ts";
import {
  boundsOf,
  deviationOf,
  formatSamples,
  herdRows,
  maxSumMs,
  type NumberRow,
  peaksOver,
  ratesOver,
  rowVerdict,
  scheduleRows,
} from "./text.ts";

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

// Several herds as rows: one window width for all, and 0 after a herd has ended.

test("there is one row per window and one column per herd", () => {
  const of = (maxAttempts: number) =>
    herd(
      { maxAttempts, initialDelayMs: 10, jitterType: "NONE", backoff: "FIXED" },
      { clients: 5, windowMs: 10 },
    );
  const rows = herdRows([
    { name: "short", herd: of(2) },
    { name: "long", herd: of(3) },
  ]);
  expect(rows).toEqual([
    ["atMs", "short", "long"],
    [0, 0, 0],
    [10, 5, 5],
    [20, 0, 5],
  ]);
});

// Bounds, deviations and verdicts of rows, for every kind of tolerance.

function row(published: number, ours: number, tolerance: LabRow["tolerance"]): NumberRow {
  return { what: "a: b", published, ours, tolerance, basis: "stated", ok: true };
}

describe("bounds", () => {
  it.each([
    [{ kind: "relative", share: 0.05 }, [95, 105]],
    [{ kind: "absolute", by: 3 }, [97, 103]],
    [{ kind: "range", from: 80, to: 101 }, [80, 101]],
  ] as const)("of %j around 100", (tolerance, bounds) => {
    expect(boundsOf(row(100, 100, tolerance))).toEqual(bounds);
  });
});

describe("deviation", () => {
  it("is at most 1 exactly for values within the bounds", () => {
    const value = fc.double({ min: -1000, max: 1000, noNaN: true });
    const by = fc.double({ min: 0, max: 500, noNaN: true });
    fc.assert(
      fc.property(value, value, by, by, (published, ours, below, above) => {
        const one = row(published, ours, {
          kind: "range",
          from: published - below,
          to: published + above,
        });
        const [from, to] = boundsOf(one);
        fc.pre(from <= published && published <= to);
        expect(Math.abs(deviationOf(one)) <= 1).toBe(ours >= from && ours <= to);
      }),
    );
  });

  it("is infinite if the tolerance is 0, and 0 if the values are equal", () => {
    expect(deviationOf(row(1, 1, { kind: "absolute", by: 0 }))).toBe(0);
    expect(deviationOf(row(1, 2, { kind: "absolute", by: 0 }))).toBe(Number.POSITIVE_INFINITY);
    expect(deviationOf(row(1, 0, { kind: "relative", share: 0 }))).toBe(Number.NEGATIVE_INFINITY);
  });
});

it("a row misses only if it has no explanation", () => {
  const verdicts = [{ ok: true }, { ok: false, deviation: "why" }, { ok: false }].map(rowVerdict);
  expect(verdicts).toEqual(["ok", "differs", "missed"]);
});

// Columns of a chart: a rate does not depend on the width, and a peak is never averaged away.

test("a column has the mean rate of its bins, or the largest of them", () => {
  const counts = [1, 3, 0, 8];
  expect(ratesOver(counts, 500, 2000, 2)).toEqual([4, 8]);
  expect(peaksOver(counts, 500, 2000, 2)).toEqual([3, 8]);
});

test("a column narrower than a bin shows that bin, and columns beyond the counts are 0", () => {
  expect(ratesOver([2, 4], 1000, 2000, 4)).toEqual([2, 2, 4, 4]);
  expect(peaksOver([2, 4], 1000, 4000, 4)).toEqual([2, 4, 0, 0]);
});

test("every bin is in a column, including the last one", () => {
  const bins = fc.integer({ min: 1, max: 300 });
  const columns = fc.integer({ min: 1, max: 200 });
  fc.assert(
    fc.property(bins, columns, fc.integer({ min: 1, max: 1000 }), (count, room, binMs) => {
      const last = Array.from({ length: count }, (_, bin) => (bin === count - 1 ? 1 : 0));
      expect(peaksOver(last, binMs, count * binMs, room).at(-1)).toBe(1);
    }),
  );
});
