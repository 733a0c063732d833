/** Lab words: the tolerance of a published result for people, and results as rows for programs. */
import type { CsvRow } from "../export/csv.ts";
import type { LabReport, Tolerance } from "../labs/lab.ts";
import { figure, plain } from "./figures.ts";

export function toleranceWords(tolerance: Tolerance): string {
  if (isExact(tolerance)) return "exactly";
  switch (tolerance.kind) {
    case "relative":
      return `±${plain(tolerance.share * 100)} %`;
    case "absolute":
      return `±${figure(tolerance.by)}`;
    case "range":
      return `${figure(tolerance.from)} to ${figure(tolerance.to)}`;
    case "same":
      return "the same";
  }
}

function isExact(tolerance: Tolerance): boolean {
  return (
    (tolerance.kind === "relative" && tolerance.share === 0) ||
    (tolerance.kind === "absolute" && tolerance.by === 0)
  );
}

/** A row a result; the first row names the columns. */
export function labRows(reports: readonly LabReport[]): readonly CsvRow[] {
  const head = ["lab", "what", "published", "ours", "tolerance", "ok"];
  const rows = reports.flatMap(({ id, rows: results }) =>
    results.map((row) => [
      id,
      row.what,
      row.published,
      row.ours,
      toleranceWords(row.tolerance),
      String(row.ok),
    ]),
  );
  return [head, ...rows];
}
