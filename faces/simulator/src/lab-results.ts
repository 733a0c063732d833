/** Lab results: the bounds, the deviation and the verdict of a lab row, for charts. */
import type { LabRow } from "./labs/lab.ts";

/** A row with numbers, which a chart can draw. */
export interface NumberRow extends LabRow {
  readonly published: number;
  readonly ours: number;
}

export function isNumberRow(row: LabRow): row is NumberRow {
  return typeof row.published === "number" && typeof row.ours === "number";
}

/** The lowest and the highest value that the tolerance allows. */
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
 * The difference of our value from the published one, in units of the tolerance: 0 is the published
 * value, -1 and 1 are the bounds. With a tolerance of 0 any difference is infinite.
 */
export function deviationOf(row: NumberRow): number {
  const [from, to] = boundsOf(row);
  const off = row.ours - row.published;
  if (off === 0) return 0;
  return off / (off > 0 ? to - row.published : row.published - from);
}

export type Verdict = "ok" | "differs" | "missed";

/** Whether a row is within its tolerance, differs for a known reason, or misses. */
export function rowVerdict({ ok, deviation }: Pick<LabRow, "ok" | "deviation">): Verdict {
  if (ok) return "ok";
  return deviation === undefined ? "missed" : "differs";
}
