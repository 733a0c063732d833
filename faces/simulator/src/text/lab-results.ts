/** Lab results: a row of a lab as charts need it: what is allowed, how far ours is off, the verdict. */
import type { LabRow } from "../labs/lab.ts";

/** A row that can be drawn. */
export interface NumberRow extends LabRow {
  readonly published: number;
  readonly ours: number;
}

export function isNumberRow(row: LabRow): row is NumberRow {
  return typeof row.published === "number" && typeof row.ours === "number";
}

/** What the tolerance allows, lowest and highest. */
export function boundsOf({ published, tolerance }: NumberRow): readonly [number, number] {
  switch (tolerance.kind) {
    case "relative": {
      const by = tolerance.share * Math.abs(published);
      return [published - by, published + by];
    }
    case "absolute":
      return [published - tolerance.by, published + tolerance.by];
    case "range":
      return [tolerance.from, tolerance.to];
    case "same":
      return [published, published];
  }
}

/**
 * How far ours lies from what was published, in tolerances: 0 is the published value, -1 and 1 are
 * the bounds, whatever the unit. Where nothing is allowed, any difference is infinite.
 */
export function deviationOf(row: NumberRow): number {
  const [from, to] = boundsOf(row);
  const off = row.ours - row.published;
  if (off === 0) return 0;
  return off / (off > 0 ? to - row.published : row.published - from);
}

export type Verdict = "ok" | "differs" | "missed";

/** Within its tolerance, known to differ and why, or missed. */
export function rowVerdict({ ok, deviation }: Pick<LabRow, "ok" | "deviation">): Verdict {
  if (ok) return "ok";
  return deviation === undefined ? "missed" : "differs";
}
