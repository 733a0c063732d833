/**
 * Lab: a published result and our own, side by side, with the tolerance and where it comes from.
 * Every lab is data and a function; a miss is a defect.
 */
import { formatPercent } from "@redrive/core";
import { root } from "../random/numeric.ts";

/** What may differ, and by how much. */
export type Tolerance =
  /** Of the published value; 0.05 is 5 %. */
  | { readonly kind: "relative"; readonly share: number }
  /** Same unit as the value. */
  | { readonly kind: "absolute"; readonly by: number }
  | { readonly kind: "range"; readonly from: number; readonly to: number }
  /** The words must be the same. */
  | { readonly kind: "same" };

/**
 * Where a tolerance comes from. `stated`: the reference says it. `exact`: nothing is left to chance, or
 * the words must be the same. `bound`: a limit that follows from a definition. `sampling`: nobody
 * states one, so it follows from the chance in the model, see `sampled`.
 */
export type Basis = "stated" | "exact" | "bound" | "sampling";

export interface LabRow {
  readonly what: string;
  readonly published: number | string;
  readonly ours: number | string;
  readonly tolerance: Tolerance;
  readonly basis: Basis;
  /** Ours is within the tolerance. */
  readonly ok: boolean;
  /** Runs of which ours is the mean; absent: one. */
  readonly runs?: number;
  /** Why the published value does not come out with what is published about it. Such a row is no miss. */
  readonly deviation?: string;
  /** What core's own formula gives where the published model uses another. */
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
  /** Who published it, and where. */
  readonly source: string;
  /** What the model leaves out, and what to learn from it. */
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

/** Ours must not exceed a limit that follows from a definition. */
export function atMost(what: string, limit: number, ours: number): LabRow {
  return { ...between(what, limit, ours, 0, limit), basis: "bound" };
}

export function same(what: string, published: string, ours: string): LabRow {
  const ok = ours === published;
  return { what, published, ours, tolerance: { kind: "same" }, basis: "exact", ok };
}

/** Hundreds of rows are compared: with fewer, one would miss by chance every now and then. */
const STANDARD_ERRORS = 5;

/** The reference's averages are over at least so many seeds (its section 2). */
const REFERENCE_RUNS = 200;

/**
 * Ours is the mean of `values`, one a run. The tolerance is five standard errors of the difference
 * to a mean of 200 runs (`exact`: to a value without error), and half of `unit`, the last digit published.
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
    deviation: `${formatPercent(off / published)} off: more than chance, less than the 3 % between the reference's own two implementations`,
  };
}

/** The reference's section 2.9: a second implementation came out "the same (most within 3 %)". */
const BETWEEN_IMPLEMENTATIONS = 0.03;

/** A row that misses for a reason that is known and told. */
export function explained(row: LabRow, why: string): LabRow {
  return row.ok ? row : { ...row, deviation: why };
}

/** `measure` of runs 0 to `count` - 1. */
export function sample<T>(count: number, measure: (run: number) => T): readonly T[] {
  return Array.from({ length: count }, (_, run) => measure(run));
}

/** `count` runs scaled by effort, at least `min`. */
export function runs(count: number, effort: number, min = 1): number {
  return Math.max(min, Math.floor(count * effort));
}

/** The mean of `measure` over runs 0 to `count` - 1. */
export function meanOver(count: number, measure: (run: number) => number): number {
  return sample(count, measure).reduce((sum, value) => sum + value, 0) / count;
}
