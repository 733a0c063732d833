/** Herd rows: several herds as rows of a table, for export. */
import type { CsvRow } from "./export.ts";
import type { Herd } from "./schedule/herd.ts";

/**
 * One row per window and one column per herd; all use the window width of the first herd. The first
 * row names the columns.
 */
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
