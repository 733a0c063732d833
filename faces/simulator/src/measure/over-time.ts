/** Over time: counts by window brought to the columns of a chart, as rates, means or peaks. */

/** Counts in bins of `binMs` as a rate per second in `columns` columns from 0 to `endMs`. */
export function ratesOver(
  counts: ArrayLike<number>,
  binMs: number,
  endMs: number,
  columns: number,
): readonly number[] {
  return meansOver(counts, binMs, endMs, columns).map((mean) => (mean * 1000) / binMs);
}

/** The mean of the bins that begin within each column; a column narrower than a bin shows that bin. */
export function meansOver(
  values: ArrayLike<number>,
  binMs: number,
  endMs: number,
  columns: number,
): readonly number[] {
  const columnMs = endMs / columns;
  return Array.from({ length: columns }, (_, column) => {
    const from = Math.floor((column * columnMs) / binMs);
    const to = Math.max(from + 1, Math.floor(((column + 1) * columnMs) / binMs));
    let sum = 0;
    for (let bin = from; bin < to; bin++) sum += values[bin] ?? 0;
    return sum / (to - from);
  });
}

/** The largest of the bins within each column. */
export function peaksOver(
  values: ArrayLike<number>,
  binMs: number,
  endMs: number,
  columns: number,
): readonly number[] {
  const columnMs = endMs / columns;
  return Array.from({ length: columns }, (_, column) => {
    const from = Math.floor((column * columnMs) / binMs);
    const to = Math.max(from + 1, Math.floor(((column + 1) * columnMs) / binMs));
    let most = 0;
    for (let bin = from; bin < to; bin++) most = Math.max(most, values[bin] ?? 0);
    return most;
  });
}
