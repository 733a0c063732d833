/** Results: a lab's rows as the charts need them: bounds, what is measured, how far ours is off. */
import type { LabRow } from "@redrive/simulator";

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
