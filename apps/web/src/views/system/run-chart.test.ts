/** Run chart: the chart shows all counts and nothing else. */
import type { Report } from "@redrive/simulator";
import fc from "fast-check";
import { expect, test } from "vitest";
import { columnsOf, countsIn, endOf, faultPeriodOf, topOf } from "./run-chart.tsx";

/** Counts up by bins, the rest empty. */
function reportOf(attempts: readonly number[], binMs: number): Report {
  const lane = Float64Array.from(attempts);
  const empty = new Float64Array(attempts.length);
  const series = { offered: lane, attempts: lane, succeeded: lane, failed: empty, queueMs: lane };
  return { series: { binMs, ...series } } as unknown as Report;
}

const anyRun = fc.record({
  counts: fc.array(fc.nat(1000), { minLength: 1, maxLength: 900 }),
  binMs: fc.constantFrom(100, 200, 500),
  maxColumns: fc.integer({ min: 1, max: 300 }),
});

test("columns contain every count, and there are never more than the chart can show", () => {
  fc.assert(
    fc.property(anyRun, ({ counts, binMs, maxColumns }) => {
      const report = reportOf(counts, binMs);
      const { columnMs, attempts, queueMs } = columnsOf(report, maxColumns);
      expect(attempts.length).toBeLessThanOrEqual(maxColumns);
      const widthOf = (column: number) =>
        Math.min(columnMs, endOf(report) - column * columnMs) / 1000;
      const sum = attempts.reduce((total, rate, column) => total + rate * widthOf(column), 0);
      expect(sum).toBeCloseTo(
        counts.reduce((total, count) => total + count, 0),
        3,
      );
      expect(Math.max(...queueMs)).toBe(Math.max(...counts));
    }),
  );
});

test("adjacent periods of a run have no gap", () => {
  fc.assert(
    fc.property(anyRun, fc.nat(100_000), ({ counts, binMs }, cutMs) => {
      const report = reportOf(counts, binMs);
      const cut = Math.min(cutMs, endOf(report));
      const [before, after] = [countsIn(report, 0, cut), countsIn(report, cut, endOf(report))];
      expect(before.ms + after.ms).toBe(endOf(report));
      expect(before.succeeded + after.succeeded).toBe(counts.reduce((a, b) => a + b, 0));
    }),
  );
});

test("the scale ignores the first instant of a fleet", () => {
  const columns = columnsOf(reportOf([10_000, 5, 7, 6], 100), 10);
  expect(topOf(columns, 0)).toBe(100_000);
  expect(topOf(columns, 100)).toBe(70);
  expect(topOf(columnsOf(reportOf([3, 0], 100), 10), 100)).toBe(30);
});

test("the fault period lasts from the first phase to the end of the last warm-up", () => {
  expect(faultPeriodOf([])).toBeUndefined();
  expect(
    faultPeriodOf([
      { kind: "FAILOVER", atMs: 500, forMs: 100, warmMs: 900 },
      { kind: "OUTAGE", atMs: 200, forMs: 300 },
    ]),
  ).toEqual({ fromMs: 200, toMs: 1500 });
});
