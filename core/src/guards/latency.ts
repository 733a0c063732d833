/**
 * Latency: how long calls to a destination take, as quantiles of a histogram of fixed size. Used for
 * the hedging delay, the estimated duration of a call and dashboards.
 *
 * Its buckets are those of HdrHistogram, 16 per power of two, so the error of a quantile is at most
 * 1/32. It has two halves that alternate. The older one is dropped every 30 s, so a quantile covers the
 * last 30 to 60 s.
 */
import { listRule, numberRule } from "../documents/document.ts";
import { instantRule, readSavedState, versionRule } from "../documents/saved-state.ts";
import { steadyAt } from "../time/steady-time.ts";

/** Buckets per power of two, and its logarithm. */
const SUB_BUCKETS = 16;
const SUB_BITS = 4;

/** About 35 minutes; longer durations count as this. */
const MAX_MS = 2_097_151;
const BUCKETS = bucketOf(MAX_MS) + 1;

const HALF_MS = 30_000;

/** A quantile is computed again after this time, or after an eighth more calls. */
const FRESH_MS = 250;
const FRESH_SHARE = 8;

/** Number of cached quantiles. */
const CACHE_SIZE = 4;

export interface Latency {
  /** The latest instant seen. */
  at: number;
  /** When the current half started. */
  halfAt: number;
  /** Index of the current half in `counts`: 0 or BUCKETS. */
  filling: number;
  /** Calls by bucket: one half after the other. */
  readonly counts: Uint32Array;
  /** Invariant: the sum of `counts`. */
  total: number;
  /** Quantiles computed since `cachedAt` (-1: none), when there were `cachedTotal` calls. */
  readonly cachedQuantiles: Float64Array;
  readonly cachedMs: Float64Array;
  cacheNext: number;
  cachedAt: number;
  cachedTotal: number;
}

export function createLatency(now: number): Latency {
  return {
    at: now,
    halfAt: now,
    filling: 0,
    counts: new Uint32Array(2 * BUCKETS),
    total: 0,
    cachedQuantiles: new Float64Array(CACHE_SIZE).fill(-1),
    cachedMs: new Float64Array(CACHE_SIZE),
    cacheNext: 0,
    cachedAt: 0,
    cachedTotal: 0,
  };
}

/**
 * Records that one or several calls took `ms`. Less than one counts as one, so nothing is ever hedged
 * after 0 ms.
 */
export function recordLatency(latency: Latency, now: number, ms: number, calls = 1): void {
  if (now !== latency.at) advance(latency, now);
  const { filling, counts } = latency;
  const index = filling + bucketOf(Math.max(1, Math.min(ms, MAX_MS)));
  counts[index] = (counts[index] as number) + calls;
  latency.total += calls;
}

/** The bucket of a duration below 2^31 ms: exact below 16 ms, then by its leading five bits. */
function bucketOf(ms: number): number {
  const shift = Math.max(0, 31 - SUB_BITS - Math.clz32(ms));
  return shift * SUB_BUCKETS + (ms >> shift);
}

/** The middle of a bucket, in whole ms. */
function middleOf(bucket: number): number {
  const shift = Math.max(0, Math.floor(bucket / SUB_BUCKETS) - 1);
  return ((bucket - shift * SUB_BUCKETS) << shift) + ((1 << shift) >> 1);
}

/** The time within which a share `quantile` (0 to 1) of the calls ended; undefined without calls. */
export function quantileMs(latency: Latency, now: number, quantile: number): number | undefined {
  advance(latency, now);
  const { total } = latency;
  if (total === 0) return undefined;
  if (isCacheStale(latency, total)) startCache(latency, total);
  const found = latency.cachedQuantiles.indexOf(quantile);
  if (found >= 0) return latency.cachedMs[found];
  const ms = scan(latency.counts, quantile * total);
  latency.cachedQuantiles[latency.cacheNext] = quantile;
  latency.cachedMs[latency.cacheNext] = ms;
  latency.cacheNext = (latency.cacheNext + 1) % CACHE_SIZE;
  return ms;
}

/** The median duration of a call; undefined without calls. */
export function medianMs(latency: Latency, now: number): number | undefined {
  return quantileMs(latency, now, 0.5);
}

/** The number of calls behind the quantiles. */
export function latencyCalls(latency: Latency, now: number): number {
  advance(latency, now);
  return latency.total;
}

/** The first bucket at which `rank` calls are counted: the nearest-rank quantile. */
function scan(counts: Uint32Array, rank: number): number {
  let bucket = 0;
  let seen = 0;
  for (; bucket < BUCKETS - 1; bucket++) {
    seen += (counts[bucket] as number) + (counts[BUCKETS + bucket] as number);
    if (seen > 0 && seen >= rank) break;
  }
  return middleOf(bucket);
}

function isCacheStale(latency: Latency, total: number): boolean {
  const added = total - latency.cachedTotal;
  if (added === 0) return false;
  return added * FRESH_SHARE >= latency.cachedTotal || latency.at - latency.cachedAt >= FRESH_MS;
}

function startCache(latency: Latency, total: number): void {
  latency.cachedQuantiles.fill(-1);
  latency.cachedAt = latency.at;
  latency.cachedTotal = total;
}

/** Follows the clock and drops old counts. If the clock was set back, the halves move with it. */
function advance(latency: Latency, now: number): void {
  const at = steadyAt(latency.at, now);
  if (at < latency.at) latency.halfAt = Math.max(0, latency.halfAt + at - latency.at);
  latency.at = at;
  const halves = Math.floor((at - latency.halfAt) / HALF_MS);
  if (halves <= 0) return;
  latency.halfAt += halves * HALF_MS;
  for (let step = Math.min(halves, 2); step > 0; step--) {
    latency.filling = BUCKETS - latency.filling;
    latency.counts.fill(0, latency.filling, latency.filling + BUCKETS);
  }
  latency.total = sum(latency.counts);
  startCache(latency, latency.total);
}

/** The histogram as JSON. */
export interface SavedLatency {
  readonly version: 1;
  readonly at: number;
  readonly halfAt: number;
  /** Calls by bucket: the current half, then the older one. */
  readonly counts: readonly number[];
}

export function saveLatency({ at, halfAt, filling, counts }: Latency): SavedLatency {
  const newer = counts.subarray(filling, filling + BUCKETS);
  const older = counts.subarray(BUCKETS - filling, 2 * BUCKETS - filling);
  return { version: 1, at, halfAt, counts: [...newer, ...older] };
}

export function restoreLatency(value: unknown): Latency {
  const { at, halfAt, counts } = readSavedState<SavedLatency>("latency", value, {
    version: versionRule,
    at: instantRule,
    halfAt: instantRule,
    counts: listRule(numberRule(0, 4_294_967_295), 2 * BUCKETS, 2 * BUCKETS),
  });
  const latency = createLatency(at);
  latency.halfAt = halfAt;
  latency.counts.set(counts);
  latency.total = sum(latency.counts);
  return latency;
}

function sum(counts: Uint32Array): number {
  return counts.reduce((total, count) => total + count, 0);
}
