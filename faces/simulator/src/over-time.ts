/** Over time: counts per bin as the columns of a chart, as rates or peaks. */
/**
 * The mean rate per second in each of `columns` columns from 0 to `endMs`, from counts in bins of
 * `binMs`.
 */
export function ratesOver(
  counts: ArrayLike<number>,
  binMs: number,
  endMs: number,
  columns: number,
): readonly number[] {
  return binsOver(counts, binMs, endMs, columns).map((bins) => {
    const mean = bins.reduce((sum, count) => sum + count, 0) / bins.length;
    return (mean * 1000) / binMs;
  });
}

/** The largest of the bins within each column. */
export function peaksOver(
  values: ArrayLike<number>,
  binMs: number,
  endMs: number,
  columns: number,
): readonly number[] {
  return binsOver(values, binMs, endMs, columns).map((bins) =>
    bins.reduce((max, value) => Math.max(max, value), 0),
  );
}

/**
 * The bins that begin within each column, at least one. A column narrower than a bin shows that
 * bin.
 */
function binsOver(
  values: ArrayLike<number>,
  binMs: number,
  endMs: number,
  columns: number,
): readonly (readonly number[])[] {
  // A single division: a rounded column width would sometimes lose the last bin.
  const binAt = (column: number) => Math.floor((column * endMs) / (columns * binMs));
  return Array.from({ length: columns }, (_, column) => {
    const from = binAt(column);
    const to = Math.max(from + 1, binAt(column + 1));
    return Array.from({ length: to - from }, (_, bin) => values[from + bin] ?? 0);
  });
}
