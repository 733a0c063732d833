/**
 * Histogram: counts durations in a fixed number of buckets, for quantiles of millions of calls.
 * Each power of two has 128 buckets, and a quantile is interpolated within its bucket. The error is
 * below 0.8 %, usually far below.
 */

const SUB_BUCKETS = 128;
const SUB_BITS = 7;
/**
 * Durations are counted in units of 1/64 ms, up to 2^31 units (9 hours). Longer ones count as 9
 * hours.
 */
const UNITS_PER_MS = 64;
const MAX_UNITS = 2_147_483_647;
const BUCKETS = (32 - SUB_BITS) * SUB_BUCKETS + SUB_BUCKETS;

export interface Histogram {
  readonly counts: Uint32Array;
  total: number;
  sumMs: number;
  squareSum: number;
  maxMs: number;
}

export function createHistogram(): Histogram {
  return { counts: new Uint32Array(BUCKETS), total: 0, sumMs: 0, squareSum: 0, maxMs: 0 };
}

export function countDuration(histogram: Histogram, ms: number): void {
  const bucket = bucketOf(Math.min(MAX_UNITS, Math.floor(ms * UNITS_PER_MS)));
  histogram.counts[bucket] = (histogram.counts[bucket] as number) + 1;
  histogram.total++;
  histogram.sumMs += ms;
  histogram.squareSum += ms * ms;
  if (ms > histogram.maxMs) histogram.maxMs = ms;
}

function bucketOf(units: number): number {
  const shift = Math.max(0, 31 - SUB_BITS - Math.clz32(units));
  return shift * SUB_BUCKETS + (units >> shift);
}

/** The duration within which the share `quantile` of the calls was done; 0 without calls. */
export function quantileOf(histogram: Histogram, quantile: number): number {
  const rank = quantile * histogram.total;
  let seen = 0;
  for (let bucket = 0; bucket < BUCKETS; bucket++) {
    const count = histogram.counts[bucket] as number;
    if (count > 0 && seen + count >= rank) {
      const [from, to] = edgesOf(bucket);
      return Math.min(histogram.maxMs, from + ((to - from) * (rank - seen)) / count);
    }
    seen += count;
  }
  return histogram.maxMs;
}

/** Lower and upper edge of a bucket in ms. */
function edgesOf(bucket: number): readonly [number, number] {
  const shift = Math.max(0, Math.floor(bucket / SUB_BUCKETS) - 1);
  const width = 1 << shift;
  const from = (bucket - shift * SUB_BUCKETS) * width;
  return [from / UNITS_PER_MS, (from + width) / UNITS_PER_MS];
}
