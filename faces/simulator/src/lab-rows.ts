/**
 * Lab rows: formats the tolerance of a published result, and converts lab results to rows for
 * export.
 */
import { formatNumber, formatSignificant } from "@redrive/core";
import type { CsvRow } from "./export.ts";
import type { LabReport, LabRow, Tolerance } from "./labs/lab.ts";

/**
 * A tolerance as text. "(sampling)" means that no source states one, so it comes from the variation
 * between runs.
 */
export function formatTolerance({ tolerance, basis }: Pick<LabRow, "tolerance" | "basis">): string {
  if (isExact(tolerance)) return "exactly";
  switch (tolerance.kind) {
    case "relative":
      return `±${formatNumber(tolerance.share * 100)} %`;
    case "absolute":
      return `±${formatSignificant(tolerance.by)}${basis === "sampling" ? " (sampling)" : ""}`;
    case "range":
      return basis === "bound"
        ? `at most ${formatSignificant(tolerance.to)}`
        : `${formatSignificant(tolerance.from)} to ${formatSignificant(tolerance.to)}`;
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

const HEAD = "lab what published ours tolerance basis runs ok deviation".split(" ");

/** One row per result. The first row names the columns. */
export function labRows(reports: readonly LabReport[]): readonly CsvRow[] {
  const rows = reports.flatMap(({ id, rows: results }) =>
    results.map((row) => [
      id,
      row.what,
      row.published,
      row.ours,
      formatTolerance(row),
      row.basis,
      row.runs ?? 1,
      String(row.ok),
      row.deviation ?? "",
    ]),
  );
  return [HEAD, ...rows];
}
