/** Over time: counts by window brought to the columns of a chart, as rates or peaks. */

/** Counts in bins of `binMs` as a rate per second in `columns` columns from 0 to `endMs`. */
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
    bins.reduce((most, value) => Math.max(most, value), 0),
  );
}

/** The bins that begin within each column, at least one: a column narrower than a bin shows that bin. */
function binsOver(
  values: ArrayLike<number>,
  binMs: number,
  endMs: number,
  columns: number,
): readonly (readonly number[])[] {
  // One division: the width of a column, rounded, would lose the last bin now and then.
  const binAt = (column: number) => Math.floor((column * endMs) / (columns * binMs));
  return Array.from({ length: columns }, (_, column) => {
    const from = binAt(column);
    const to = Math.max(from + 1, binAt(column + 1));
    return Array.from({ length: to - from }, (_, bin) => values[from + bin] ?? 0);
  });
}
