/**
 * Latency: how long calls to a destination take, as quantiles of a histogram of fixed size. Used for
 * the hedging delay, the estimated duration of a call and dashboards. An attempt that was aborted, such
 * as the loser of a hedge, would have taken longer than its age. Without it, each hedge would lower the
 * quantile that decides about the next one, so it counts as in the estimator of Kaplan and Meier (1958).
 *
 * Its buckets are those of HdrHistogram, 16 per power of two, so the error of a quantile is at most
 * 1/32. It has two halves that alternate. The older one is dropped every 30 s, so a quantile covers the
 * last 30 to 60 s.
 */
import {
  instantRule,
  isObject,
  listRule,
  numberRule,
  type Rule,
  readSavedState,
  versionRule,
} from "../documents/document.ts";
import { steadyAt } from "./sliding-window.ts";

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

/**
 * Within a bucket, calls count as spread evenly. A bucket with this many times the calls beyond the
 * quantile is not divided: all of them may be at its end.
 */
const DENSE_SHARE = 2;

/** A place is always above its bucket's number, whatever is rounded. */
const MIN_SHARE = 1e-6;

const NONE = new Uint32Array(0);

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
  /** Attempts that were aborted at this age, in the same form; undefined until the first. */
  unfinished: Uint32Array | undefined;
  /** Invariant: the sum of `unfinished`. */
  unfinishedTotal: number;
  /** Quantiles computed since `cachedAt` (-1: none), when there were `cachedTotal` calls and attempts. */
  readonly cachedQuantiles: Float64Array;
  readonly cachedPlaces: Float64Array;
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
    unfinished: undefined,
    unfinishedTotal: 0,
    cachedQuantiles: new Float64Array(CACHE_SIZE).fill(-1),
    cachedPlaces: new Float64Array(CACHE_SIZE),
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
  count(latency.counts, latency.filling, ms, calls);
  latency.total += calls;
}

/** Records that an attempt was aborted after `ms`: a response would have taken longer. */
export function recordUnfinished(latency: Latency, now: number, ms: number): void {
  if (now !== latency.at) advance(latency, now);
  latency.unfinished ??= new Uint32Array(2 * BUCKETS);
  count(latency.unfinished, latency.filling, ms, 1);
  latency.unfinishedTotal++;
}

function count(counts: Uint32Array, filling: number, ms: number, calls: number): void {
  const index = filling + bucketOf(Math.max(1, Math.min(ms, MAX_MS)));
  counts[index] = (counts[index] as number) + calls;
}

/** The bucket of a duration below 2^31 ms: exact below 16 ms, then by its leading five bits. */
function bucketOf(ms: number): number {
  const shift = Math.max(0, 31 - SUB_BITS - Math.clz32(ms));
  return shift * SUB_BUCKETS + (ms >> shift);
}

/** The first and the width of the whole ms of a bucket. */
function rangeOf(bucket: number): readonly [number, number] {
  const shift = Math.max(0, Math.floor(bucket / SUB_BUCKETS) - 1);
  return [(bucket - shift * SUB_BUCKETS) << shift, 1 << shift];
}

/**
 * The time within which a share `quantile` (0 to 1) of the calls ended: the middle of its bucket.
 * Undefined without calls.
 */
export function quantileMs(latency: Latency, now: number, quantile: number): number | undefined {
  const place = placeOf(latency, now, quantile);
  if (place === undefined) return undefined;
  const [fromMs, widthMs] = rangeOf(Math.ceil(place) - 1);
  return fromMs + (widthMs >> 1);
}

/**
 * The same as a bound for the calls that take longer: the place within the bucket, rounded up. If all calls
 * take about as long, none takes longer.
 */
export function quantileBoundMs(
  latency: Latency,
  now: number,
  quantile: number,
): number | undefined {
  const place = placeOf(latency, now, quantile);
  if (place === undefined) return undefined;
  const bucket = Math.ceil(place) - 1;
  const [fromMs, widthMs] = rangeOf(bucket);
  return fromMs + Math.ceil(widthMs * (place - bucket));
}

/** The bucket of a quantile, plus the share of its calls within the quantile: above 0, at most 1. */
function placeOf(latency: Latency, now: number, quantile: number): number | undefined {
  advance(latency, now);
  if (latency.total === 0) return undefined;
  if (isCacheStale(latency)) startCache(latency);
  const found = latency.cachedQuantiles.indexOf(quantile);
  if (found >= 0) return latency.cachedPlaces[found];
  const place = scan(latency, quantile);
  latency.cachedQuantiles[latency.cacheNext] = quantile;
  latency.cachedPlaces[latency.cacheNext] = place;
  latency.cacheNext = (latency.cacheNext + 1) % CACHE_SIZE;
  return place;
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

/**
 * Finds the place at which a share `quantile` of the calls has ended. The weight of an attempt that was
 * aborted goes in equal parts to those that took longer, because it would have ended as one of them.
 */
function scan({ counts, unfinished, total, unfinishedTotal }: Latency, quantile: number): number {
  let left = total + unfinishedTotal;
  const rank = quantile * left;
  let weight = 1;
  let seen = 0;
  let bucket = 0;
  for (; left > 0 && bucket < BUCKETS; bucket++) {
    const ended = callsIn(counts, bucket) * weight;
    if (ended > 0 && seen + ended >= rank) {
      const isDense = ended > DENSE_SHARE * (total + unfinishedTotal - rank);
      return bucket + (isDense ? 1 : Math.max(MIN_SHARE, (rank - seen) / ended));
    }
    seen += ended;
    const aborted = unfinished === undefined ? 0 : callsIn(unfinished, bucket);
    left -= callsIn(counts, bucket);
    if (aborted > 0) weight *= left / (left - aborted);
    left -= aborted;
  }
  // The longest were aborted: nothing more is known.
  return bucket;
}

/** The calls of both halves in a bucket. */
function callsIn(counts: Uint32Array, bucket: number): number {
  return (counts[bucket] as number) + (counts[BUCKETS + bucket] as number);
}

function isCacheStale(latency: Latency): boolean {
  const added = latency.total + latency.unfinishedTotal - latency.cachedTotal;
  if (added === 0) return false;
  return added * FRESH_SHARE >= latency.cachedTotal || latency.at - latency.cachedAt >= FRESH_MS;
}

function startCache(latency: Latency): void {
  latency.cachedQuantiles.fill(-1);
  latency.cachedAt = latency.at;
  latency.cachedTotal = latency.total + latency.unfinishedTotal;
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
    latency.unfinished?.fill(0, latency.filling, latency.filling + BUCKETS);
  }
  sumUp(latency);
  startCache(latency);
}

function sumUp(latency: Latency): void {
  latency.total = sum(latency.counts);
  latency.unfinishedTotal = sum(latency.unfinished ?? NONE);
}

/** The histogram as JSON. */
export interface SavedLatency {
  readonly version: 1;
  readonly at: number;
  readonly halfAt: number;
  /** Calls by bucket: the current half, then the older one. */
  readonly counts: readonly number[];
  /** Attempts that were aborted at this age, in the same form; empty: none were. */
  readonly unfinished: readonly number[];
}

export function saveLatency({ at, halfAt, filling, counts, unfinished }: Latency): SavedLatency {
  const halvesOf = (all: Uint32Array) => [
    ...all.subarray(filling, filling + BUCKETS),
    ...all.subarray(BUCKETS - filling, 2 * BUCKETS - filling),
  ];
  const saved = { counts: halvesOf(counts), unfinished: unfinished ? halvesOf(unfinished) : [] };
  return { version: 1, at, halfAt, ...saved };
}

export function restoreLatency(value: unknown): Latency {
  // States of older versions do not have `unfinished`.
  const state = isObject(value) ? { unfinished: [], ...value } : value;
  const { at, halfAt, counts, unfinished } = readSavedState<SavedLatency>("latency", state, {
    version: versionRule,
    at: instantRule,
    halfAt: instantRule,
    counts: countsRule(2 * BUCKETS),
    unfinished: countsRule(0),
  });
  const latency = createLatency(at);
  latency.halfAt = halfAt;
  latency.counts.set(counts);
  if (unfinished.length > 0) {
    latency.unfinished = new Uint32Array(2 * BUCKETS);
    latency.unfinished.set(unfinished);
  }
  sumUp(latency);
  return latency;
}

function countsRule(min: number): Rule {
  return listRule(numberRule(0, 4_294_967_295), min, 2 * BUCKETS);
}

function sum(counts: Uint32Array): number {
  return counts.reduce((total, count) => total + count, 0);
}
