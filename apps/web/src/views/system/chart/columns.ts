/** Columns: a run over time, merged into as many columns as the chart can show, each of whole bins. */
import type { PhaseDocument, Report } from "@redrive/simulator";
import { niceStep } from "../../../chart/scale.ts";

/** One value per column; counts are rates per second. */
export interface Columns {
  readonly columnMs: number;
  readonly offered: readonly number[];
  readonly attempts: readonly number[];
  readonly succeeded: readonly number[];
  readonly failed: readonly number[];
  /** The longest wait in the column; ms. */
  readonly queueMs: readonly number[];
}

export type Lane = Exclude<keyof Columns, "columnMs">;

export function columnsOf({ series }: Report, maxColumns: number): Columns {
  const bins = series.attempts.length;
  const each = Math.max(1, niceStep(bins / Math.max(1, maxColumns)));
  const count = Math.ceil(bins / each);
  const rates = (lane: Float64Array) =>
    Array.from({ length: count }, (_, column) => {
      const part = lane.subarray(column * each, (column + 1) * each);
      return (sumOf(part) * 1000) / (part.length * series.binMs);
    });
  return {
    columnMs: each * series.binMs,
    offered: rates(series.offered),
    attempts: rates(series.attempts),
    succeeded: rates(series.succeeded),
    failed: rates(series.failed),
    queueMs: Array.from({ length: count }, (_, column) =>
      series.queueMs
        .subarray(column * each, (column + 1) * each)
        .reduce((max, ms) => Math.max(max, ms), 0),
    ),
  };
}

function sumOf(values: Float64Array): number {
  return values.reduce((sum, value) => sum + value, 0);
}

export function endOf({ series }: Report): number {
  return series.attempts.length * series.binMs;
}

/** Start and end of all faults, including warm-up; undefined if there are none. */
export function faultPeriodOf(
  phases: readonly PhaseDocument[],
): { readonly fromMs: number; readonly toMs: number } | undefined {
  if (phases.length === 0) return undefined;
  return {
    fromMs: Math.min(...phases.map(({ atMs }) => atMs)),
    toMs: Math.max(...phases.map(({ atMs, forMs, warmMs = 0 }) => atMs + forMs + warmMs)),
  };
}

/** Offered and succeeded calls in a period of the run. */
export interface PeriodCounts {
  readonly ms: number;
  readonly offered: number;
  readonly succeeded: number;
}

export function countsIn({ series }: Report, fromMs: number, toMs: number): PeriodCounts {
  const from = Math.floor(fromMs / series.binMs);
  const to = Math.min(series.attempts.length, Math.floor(toMs / series.binMs));
  return {
    ms: Math.max(0, to - from) * series.binMs,
    offered: sumOf(series.offered.subarray(from, to)),
    succeeded: sumOf(series.succeeded.subarray(from, to)),
  };
}

/**
 * The top of the rate axis. A closed fleet starts all its clients at once, which would flatten the
 * rest, so only rates from `fromMs` on count.
 */
export function topOf(columns: Columns, fromMs: number): number {
  const from = Math.ceil(fromMs / columns.columnMs);
  const lanes = [columns.offered, columns.attempts, columns.succeeded];
  const later = Math.max(0, ...lanes.flatMap((lane) => lane.slice(from)));
  return later > 0 ? later : Math.max(1, ...lanes.flat());
}
