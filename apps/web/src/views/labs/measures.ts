/** Results: a lab's rows by what they measure, as its chart needs them. */
import type { LabRow } from "@redrive/simulator";
import { isNumberRow, type NumberRow } from "@redrive/simulator/words";

export interface Measure {
  /** What its rows count, with the unit: "ms until all are done". */
  readonly name: string;
  readonly rows: readonly (NumberRow & { readonly label: string })[];
}

/** Rows that count the same thing share an axis. */
export function measuresOf(rows: readonly LabRow[]): readonly Measure[] {
  const byName = new Map<string, Measure["rows"][number][]>();
  for (const row of rows.filter(isNumberRow)) {
    const { label, measure } = partsOf(row.what);
    byName.set(measure, [...(byName.get(measure) ?? []), { ...row, label }]);
  }
  return Array.from(byName, ([name, those]) => ({ name, rows: those }));
}

/** "full, window b: higher than the comb: peak ..." is of the measure after its last colon. */
export function partsOf(what: string): { readonly label: string; readonly measure: string } {
  const plain = what.replace(/ \(published: .*\)$/u, "");
  const cut = plain.lastIndexOf(": ");
  if (cut < 0) return { label: plain, measure: "" };
  return { label: plain.slice(0, cut), measure: plain.slice(cut + 2) };
}

/** From where on one scale cannot show both ends evenly. */
const LOG_FROM = 40;

/** Whether the values of a measure lie so far apart that only a logarithm shows them all. */
export function needsLog({ rows }: Measure): boolean {
  const values = rows.flatMap(({ published, ours }) => [published, ours]);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return low > 0 && high / low >= LOG_FROM;
}
