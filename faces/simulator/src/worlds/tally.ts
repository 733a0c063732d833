/**
 * Tally: the counters of a running world, and its result. Worlds write them, and `report.ts` reads
 * them. Counts over time are in bins. If a run is longer than expected, pairs of bins are merged,
 * so there are never more than 4096.
 */
import { doubleLength } from "../engine/run.ts";

export const MAX_BINS = 4096;

/**
 * The maximum of bins for a run of the expected length, and the initial number: many runs are
 * short.
 */
const WANTED_BINS = 1024;
const FIRST_BINS = 64;

/** Lanes: the counters over time. */
export const OFFERED = 0;
export const ATTEMPTS = 1;
export const SUCCEEDED = 2;
export const FAILED = 3;
/** Not a count: the longest wait in the server's queue during the bin. */
export const QUEUE_MS = 4;
const LANES = 5;

/** The window with the most arrivals, and when it began. */
interface Peak {
  count: number;
  atMs: number;
}

interface TallyOptions {
  readonly horizonMs: number;
  readonly windowMs: number;
  readonly triggerEndMs?: number;
}

export interface Tally {
  binMs: number;
  /** One array of bins per lane. */
  readonly lanes: Float64Array[];
  bins: number;
  /** Arrivals are counted in windows of this width to find the peak. */
  readonly windowMs: number;
  window: number;
  windowCount: number;
  readonly peak: Peak;
  /** The peak after the last phase: the load on the recovering server. */
  readonly peakAfter: Peak;
  readonly triggerEndMs: number;
  /** Time to success as the client sees it, from the first attempt to the response. */
  readonly latency: Histogram;
  /** The sum of all waits of all calls. */
  waitedMs: number;
  calls: number;
  attempts: number;
  succeeded: number;
  lost: number;
  /** Lost calls by reason. */
  readonly reasons: Map<string, number>;
  /** When the last call ended. */
  doneAtMs: number;
}

export function createTally({ horizonMs, windowMs, triggerEndMs = 0 }: TallyOptions): Tally {
  return {
    binMs: binFor(horizonMs),
    lanes: Array.from({ length: LANES }, () => new Float64Array(FIRST_BINS)),
    bins: 0,
    windowMs,
    window: -1,
    windowCount: 0,
    peak: { count: 0, atMs: 0 },
    peakAfter: { count: 0, atMs: 0 },
    triggerEndMs,
    latency: createHistogram(),
    waitedMs: 0,
    calls: 0,
    attempts: 0,
    succeeded: 0,
    lost: 0,
    reasons: new Map(),
    doneAtMs: 0,
  };
}

/** The smallest of 1, 2, 5 x 10^k ms (at least 100 ms) that gives fewer than 1024 bins. */
function binFor(horizonMs: number): number {
  for (let decade = 100; ; decade *= 10) {
    for (const step of [1, 2, 5])
      if (horizonMs / (decade * step) < WANTED_BINS) return decade * step;
  }
}

/** Counts one event, or `times` events, of a lane at an instant. */
export function countAt(tally: Tally, lane: number, atMs: number, times = 1): void {
  const bin = binAt(tally, atMs);
  const counts = tally.lanes[lane] as Float64Array;
  counts[bin] = (counts[bin] as number) + times;
}

export function recordQueue(tally: Tally, atMs: number, queueMs: number): void {
  const bin = binAt(tally, atMs);
  const lane = tally.lanes[QUEUE_MS] as Float64Array;
  if (queueMs > (lane[bin] as number)) lane[bin] = queueMs;
}

function binAt(tally: Tally, atMs: number): number {
  let bin = Math.floor(atMs / tally.binMs);
  while (bin >= (tally.lanes[0] as Float64Array).length) {
    if ((tally.lanes[0] as Float64Array).length < MAX_BINS) addBins(tally);
    else mergeBins(tally);
    bin = Math.floor(atMs / tally.binMs);
  }
  if (bin >= tally.bins) tally.bins = bin + 1;
  return bin;
}

function addBins(tally: Tally): void {
  for (const [lane, counts] of tally.lanes.entries()) tally.lanes[lane] = doubleLength(counts);
}

function mergeBins(tally: Tally): void {
  for (const [lane, counts] of tally.lanes.entries()) {
    for (let bin = 0; bin < MAX_BINS / 2; bin++) {
      const first = counts[2 * bin] as number;
      const second = counts[2 * bin + 1] as number;
      counts[bin] = lane === QUEUE_MS ? Math.max(first, second) : first + second;
    }
    counts.fill(0, MAX_BINS / 2);
  }
  tally.binMs *= 2;
  tally.bins = Math.ceil(tally.bins / 2);
}

/** Counts attempts that reach the last tier at one instant. Instants must not decrease. */
export function countArrivals(tally: Tally, atMs: number, count: number): void {
  countAt(tally, ATTEMPTS, atMs, count);
  const window = Math.floor(atMs / tally.windowMs);
  if (window !== tally.window) {
    tally.window = window;
    tally.windowCount = 0;
  }
  tally.windowCount += count;
  updatePeak(tally.peak, tally.windowCount, window * tally.windowMs);
  if (atMs >= tally.triggerEndMs)
    updatePeak(tally.peakAfter, tally.windowCount, window * tally.windowMs);
}

function updatePeak(peak: Peak, count: number, atMs: number): void {
  if (count <= peak.count) return;
  peak.count = count;
  peak.atMs = atMs;
}

/** Counts a call that succeeded `tookMs` after its start. */
export function countSucceeded(tally: Tally, atMs: number, tookMs: number): void {
  tally.succeeded++;
  countAt(tally, SUCCEEDED, atMs);
  countDuration(tally.latency, tookMs);
  tally.doneAtMs = Math.max(tally.doneAtMs, atMs);
}

/** Jain's fairness index of the durations of the calls that succeeded. */
export function fairnessOfDurations({ latency: { total, sumMs, squareSum } }: Tally): number {
  return squareSum === 0 ? 1 : (sumMs * sumMs) / (total * squareSum);
}

export function countLost(tally: Tally, reason: string, atMs: number): void {
  tally.lost++;
  tally.reasons.set(reason, (tally.reasons.get(reason) ?? 0) + 1);
  countAt(tally, FAILED, atMs);
  tally.doneAtMs = Math.max(tally.doneAtMs, atMs);
}

export interface WorldRun {
  /** The engine that ran the scenario. */
  readonly engine: "fleet" | "calls" | "contention" | "queue";
  readonly tally: Tally;
  /**
   * Jain's fairness index of the clients: 1 if all had equal success, 1 / count if one had all of
   * it.
   */
  readonly fairness: number;
  /** When the first phase began and the last one ended; the end is 0 without phases. */
  readonly triggerStartMs: number;
  readonly triggerEndMs: number;
  /** Queue worlds: runs that repeated finished work, and dead letters. */
  readonly duplicates?: number;
  readonly deadLetters?: number;
}

// Histogram: counts durations in a fixed number of buckets, for quantiles of millions of calls.
// Each power of two has 128 buckets, and a quantile is interpolated within its bucket. The error is
// below 0.8 %, usually far below.

const SUB_BUCKETS = 128;
const SUB_BITS = 7;
/**
 * Durations are counted in units of 1/64 ms, up to 2^31 units (9 hours). Longer ones count as 9
 * hours.
 */
const UNITS_PER_MS = 64;
const MAX_UNITS = 2_147_483_647;
const BUCKETS = (32 - SUB_BITS) * SUB_BUCKETS + SUB_BUCKETS;

interface Histogram {
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
