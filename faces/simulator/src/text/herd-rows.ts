/** Herd words: herds side by side as rows for programs. */
import type { CsvRow } from "../export/csv.ts";
import type { Herd } from "../schedule/herd.ts";

/** A row a window, a column a herd, all with the window of the first; the first row names the columns. */
export function herdRows(
  sides: readonly { readonly name: string; readonly herd: Herd }[],
): readonly CsvRow[] {
  const windowMs = sides[0]?.herd.windowMs ?? 1;
  const windows = Math.max(0, ...sides.map(({ herd }) => herd.arrivals.length));
  const rows = Array.from({ length: windows }, (_, window) => [
    window * windowMs,
    ...sides.map(({ herd }) => herd.arrivals[window] ?? 0),
  ]);
  return [["atMs", ...sides.map(({ name }) => name)], ...rows];
}
