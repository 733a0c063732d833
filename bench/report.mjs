/** Report: formats a comparison as a table. */

/**
 * @param {import("./harness.mjs").Report} report
 * @returns {string}
 */
export function spellReport({ name, baseline, node, rounds, results }) {
  const hasBytes = results.some(({ bytesPerOp }) => bytesPerOp !== undefined);
  const head = ["", "ns/op", "p10", "p90", `x ${baseline}`, ...(hasBytes ? ["bytes/op"] : [])];
  const rows = [...results]
    .sort((a, b) => a.nsPerOp - b.nsPerOp)
    .map((result) => [
      result.name,
      spellNumber(result.nsPerOp),
      spellNumber(result.nsLow),
      spellNumber(result.nsHigh),
      result.ratio.toFixed(2),
      ...(hasBytes ? [spellNumber(result.bytesPerOp ?? Number.NaN)] : []),
    ]);
  return `\n${name} (Node ${node}, median of ${rounds} interleaved rounds)\n${align([head, ...rows])}\n`;
}

/** @param {number} value */
function spellNumber(value) {
  return value.toFixed(value < 100 ? 1 : 0);
}

/** @param {readonly (readonly string[])[]} rows the first column to the left, numbers to the right */
function align(rows) {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  return rows
    .map((row) =>
      row
        .map((cell, column) =>
          column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
        )
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
