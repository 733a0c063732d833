/** Measures: groups the rows of a lab by what they measure, for its chart. */
import type { LabRow } from "@redrive/simulator";
import { isNumberRow, type NumberRow } from "@redrive/simulator/text";

export interface Measure {
  /** The measure with its unit, for example "ms until all are done". */
  readonly name: string;
  readonly rows: readonly (NumberRow & { readonly label: string })[];
}

/** Rows with the same measure share an axis. */
export function measuresOf(rows: readonly LabRow[]): readonly Measure[] {
  const byName = new Map<string, Measure["rows"][number][]>();
  for (const row of rows.filter(isNumberRow)) {
    const { label, measure } = partsOf(row.what);
    byName.set(measure, [...(byName.get(measure) ?? []), { ...row, label }]);
  }
  return Array.from(byName, ([name, those]) => ({ name, rows: those }));
}

/** Splits at the last colon: "full, window b: higher than the comb: peak" has the measure "peak". */
export function partsOf(what: string): { readonly label: string; readonly measure: string } {
  const plain = what.replace(/ \(published: .*\)$/u, "");
  const cut = plain.lastIndexOf(": ");
  if (cut < 0) return { label: plain, measure: "" };
  return { label: plain.slice(0, cut), measure: plain.slice(cut + 2) };
}

/** The ratio of the largest to the smallest value from which on the scale is logarithmic. */
const MIN_LOG_RATIO = 40;

/** True if the values are too far apart for a linear scale. */
export function needsLog({ rows }: Measure): boolean {
  const values = rows.flatMap(({ published, ours }) => [published, ours]);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return low > 0 && high / low >= MIN_LOG_RATIO;
}
