/**
 * Lab: compares published results with ours. Each comparison has a tolerance and the origin of the
 * tolerance. A result outside its tolerance is a defect.
 */
import { formatPercent } from "@redrive/core";
import { root } from "../engine/numeric.ts";

/** The allowed difference. */
export type Tolerance =
  /** A share of the published value; 0.05 is 5 %. */
  | { readonly kind: "relative"; readonly share: number }
  /** In the unit of the value. */
  | { readonly kind: "absolute"; readonly by: number }
  | { readonly kind: "range"; readonly from: number; readonly to: number }
  /** Both must be the same text. */
  | { readonly kind: "same" };

/**
 * Where a tolerance comes from. `stated`: the source states it. `exact`: the model has no
 * randomness, or both must be the same text. `bound`: a limit that follows from a definition.
 * `sampling`: no source states one, so it follows from the randomness of the model, see `sampled`.
 */
export type Basis = "stated" | "exact" | "bound" | "sampling";

export interface LabRow {
  readonly what: string;
  readonly published: number | string;
  readonly ours: number | string;
  readonly tolerance: Tolerance;
  readonly basis: Basis;
  /** Our value is within the tolerance. */
  readonly ok: boolean;
  /** The number of runs of which our value is the mean. Default: 1. */
  readonly runs?: number;
  /**
   * Why the published description does not reproduce the published value. Such a row does not count
   * as a miss.
   */
  readonly deviation?: string;
  /** The result of core's formula, if the published model uses another. */
  readonly core?: number;
}

export interface LabReport {
  readonly id: string;
  readonly title: string;
  readonly source: string;
  readonly seed: number | string;
  readonly rows: readonly LabRow[];
  readonly ok: boolean;
}

export interface LabOptions {
  /** Default: 1. */
  readonly seed?: number | string;
  /** Share of the full number of runs, above 0 to 1. Default: 1. */
  readonly effort?: number;
}

export interface Lab {
  readonly id: string;
  readonly title: string;
  /** Who published the results, and where. */
  readonly source: string;
  /** What the lab shows, and what its model ignores. */
  readonly lesson: string;
  run(seed: number | string, effort: number): readonly LabRow[];
}

export function near(what: string, published: number, ours: number, share: number): LabRow {
  const ok = Math.abs(ours - published) <= share * Math.abs(published);
  return { what, published, ours, tolerance: { kind: "relative", share }, basis: "stated", ok };
}

export function within(what: string, published: number, ours: number, by: number): LabRow {
  const ok = Math.abs(ours - published) <= by;
  const basis = by === 0 ? "exact" : "stated";
  return { what, published, ours, tolerance: { kind: "absolute", by }, basis, ok };
}

export function between(
  what: string,
  published: number,
  ours: number,
  from: number,
  to: number,
): LabRow {
  const ok = ours >= from && ours <= to;
  return { what, published, ours, tolerance: { kind: "range", from, to }, basis: "stated", ok };
}

/** Our value must not exceed a limit that follows from a definition. */
export function atMost(what: string, limit: number, ours: number): LabRow {
  return { ...between(what, limit, ours, 0, limit), basis: "bound" };
}

export function same(what: string, published: string, ours: string): LabRow {
  const ok = ours === published;
  return { what, published, ours, tolerance: { kind: "same" }, basis: "exact", ok };
}

/** There are hundreds of rows. With fewer standard errors, some would miss at random. */
const STANDARD_ERRORS = 5;

/** The averages of the reference implementations are over at least this many seeds. */
const REFERENCE_RUNS = 200;

/**
 * Compares the mean of `values`, one per run. The tolerance is five standard errors of the
 * difference to a mean of 200 runs (`exact`: to a value without error), plus half of `unit`, the
 * last published digit.
 */
export function sampled(
  what: string,
  published: number,
  unit: number,
  values: readonly number[],
  { exact = false }: { readonly exact?: boolean } = {},
): LabRow {
  const runs = values.length;
  const mean = values.reduce((sum, value) => sum + value, 0) / runs;
  const squares = values.reduce((sum, value) => sum + (value - mean) * (value - mean), 0);
  const variance = runs > 1 ? squares / (runs - 1) : 0;
  const errors = root(variance / runs + (exact ? 0 : variance / REFERENCE_RUNS));
  const by = STANDARD_ERRORS * errors + unit / 2;
  const row: LabRow = { ...within(what, published, mean, by), basis: "sampling", runs };
  const off = Math.abs(mean - published);
  if (row.ok || off > BETWEEN_IMPLEMENTATIONS * Math.abs(published)) return row;
  return {
    ...row,
    deviation: `${formatPercent(off / published)} off: more than random, less than the 3 % between the two reference implementations`,
  };
}

/** The two reference implementations agree with each other mostly within 3 %. */
const BETWEEN_IMPLEMENTATIONS = 0.03;

/** A row that may miss for a known reason. */
export function explained(row: LabRow, why: string): LabRow {
  return row.ok ? row : { ...row, deviation: why };
}

/** Calls `measure` for runs 0 to `count` - 1. */
export function sample<T>(count: number, measure: (run: number) => T): readonly T[] {
  return Array.from({ length: count }, (_, run) => measure(run));
}

/** The number of runs, scaled by effort, but at least `min`. */
export function runs(count: number, effort: number, min = 1): number {
  return Math.max(min, Math.floor(count * effort));
}

/** The mean of `measure` over runs 0 to `count` - 1. */
export function meanOver(count: number, measure: (run: number) => number): number {
  return sample(count, measure).reduce((sum, value) => sum + value, 0) / count;
}
