/**
 * Lab: a published result and our own, side by side, with the tolerance that was stated before ours
 * was measured. Every lab is data and a function; a miss is a defect.
 */

/** What may differ, and by how much. */
export type Tolerance =
  /** Of the published value; 0.05 is 5 %. */
  | { readonly kind: "relative"; readonly share: number }
  /** Same unit as the value. */
  | { readonly kind: "absolute"; readonly by: number }
  | { readonly kind: "range"; readonly from: number; readonly to: number }
  /** The words must be the same. */
  | { readonly kind: "same" };

export interface LabRow {
  readonly what: string;
  readonly published: number | string;
  readonly ours: number | string;
  readonly tolerance: Tolerance;
  readonly ok: boolean;
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
  return { what, published, ours, tolerance: { kind: "relative", share }, ok };
}

export function within(what: string, published: number, ours: number, by: number): LabRow {
  const ok = Math.abs(ours - published) <= by;
  return { what, published, ours, tolerance: { kind: "absolute", by }, ok };
}

export function between(
  what: string,
  published: number,
  ours: number,
  from: number,
  to: number,
): LabRow {
  const ok = ours >= from && ours <= to;
  return { what, published, ours, tolerance: { kind: "range", from, to }, ok };
}

export function same(what: string, published: string, ours: string): LabRow {
  return { what, published, ours, tolerance: { kind: "same" }, ok: ours === published };
}

/** `count` runs scaled by effort, at least `least`. */
export function runs(count: number, effort: number, least = 1): number {
  return Math.max(least, Math.floor(count * effort));
}

/** The mean of `measure` over runs 0 to `count` - 1. */
export function meanOver(count: number, measure: (run: number) => number): number {
  let sum = 0;
  for (let run = 0; run < count; run++) sum += measure(run);
  return sum / count;
}
