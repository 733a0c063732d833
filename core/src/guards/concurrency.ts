/**
 * Concurrency: limits the calls in flight to a destination. The limit is fixed, or an algorithm finds it.
 * Retries have their own limit within it. After a stop (an open breaker, a pause) the limit is *ramped*.
 *
 * A call that hangs does not stop the others: if no call ends for much longer than usual, one more may
 * start than there are in flight. The ramp waits for 5 s at most, the limit itself for 5 s at least. A
 * FIXED limit is never exceeded.
 */
import {
  amountRule,
  choiceRule,
  countRule,
  instantRule,
  isObject,
  numberRule,
  readSavedState,
  versionRule,
} from "../documents/document.ts";
import { type Latency, medianMs } from "./latency.ts";
import { steadyAt } from "./sliding-window.ts";

export interface ConcurrencyOptions {
  /** How the limit is found. Default: AIMD. */
  readonly algorithm: LimitAlgorithm;
  /** Maximum number of calls in flight. 1 to 100 000. Default: 64. */
  readonly max: number;
  /** Maximum number of retries in flight. 0 to `max`. Default: `max`. */
  readonly maxRetries: number;
  /** Calls that may wait for a slot. 0 to 1 000 000. Default: 0. */
  readonly queue: number;
  /** After a stop, at most this many times the usual calls per second start. 1 to 1000. Default: 3. */
  readonly rampFactor: number;
}

export const CONCURRENCY_DEFAULTS: ConcurrencyOptions = {
  algorithm: "AIMD",
  max: 64,
  maxRetries: 64,
  queue: 0,
  rampFactor: 3,
};

/** `dropped`: refused for overload, or timed out. `ignored`: says nothing about the load. */
export type ConcurrencyOutcome = "success" | "dropped" | "ignored";

export interface Concurrency {
  readonly options: ConcurrencyOptions;
  readonly estimate: LimitEstimate;
  /** The limit while it is ramped; 0 when it is not. */
  ramp: number;
  /** When a call last started or ended. */
  changedAt: number;
  /** Calls that started per second while nothing stopped them, as a moving average; 0: not known yet. */
  usualPerSecond: number;
  /** The calls that are not part of it yet, and since when. */
  counted: number;
  countedFrom: number;
  /** The pace of the ramp: when the next call may start. Fractional; 0: there is no pace. */
  paceAt: number;
  /** Calls in flight, including retries. */
  inFlight: number;
  retriesInFlight: number;
}

export function createConcurrency(options: ConcurrencyOptions, now: number): Concurrency {
  const estimate = createEstimate(options.algorithm, options.max, now);
  const usual = { usualPerSecond: 0, counted: 0, countedFrom: now, paceAt: 0 };
  return { options, estimate, ramp: 0, changedAt: now, inFlight: 0, retriesInFlight: 0, ...usual };
}

/** The current limit of calls in flight; an integer from 1 to `max`. */
export function concurrencyLimit({ estimate, ramp }: Concurrency): number {
  const limit = Math.floor(estimate.limit);
  return ramp > 0 ? Math.min(ramp, limit) : limit;
}

/** True if a call could take a slot now. */
export function hasSlot(concurrency: Concurrency, isRetry: boolean): boolean {
  if (concurrency.inFlight >= concurrencyLimit(concurrency)) return false;
  return !isRetry || concurrency.retriesInFlight < concurrency.options.maxRetries;
}

/**
 * Takes a slot, or returns false. Each slot must be left exactly once. `isUsual`: the call counts for what
 * the destination usually gets; a probe does not.
 */
export function enterConcurrency(
  concurrency: Concurrency,
  isRetry: boolean,
  now: number,
  isUsual = true,
): boolean {
  if (!hasSlot(concurrency, isRetry)) return false;
  if (isUsual) countUsual(concurrency, now);
  if (concurrency.paceAt > 0) takePace(concurrency, now);
  concurrency.changedAt = now;
  concurrency.inFlight++;
  if (isRetry) concurrency.retriesInFlight++;
  return true;
}

/** How many slots could be taken at once; 0: they must be taken one by one. */
export function freeSlots(concurrency: Concurrency, isRetry: boolean): number {
  const { paceAt, inFlight, retriesInFlight, options } = concurrency;
  if (paceAt > 0) return 0;
  const free = concurrencyLimit(concurrency) - inFlight;
  return isRetry ? Math.min(free, options.maxRetries - retriesInFlight) : free;
}

/** Takes as many of the `freeSlots`, for usual calls. */
export function takeSlots(
  concurrency: Concurrency,
  isRetry: boolean,
  now: number,
  count: number,
): void {
  countUsual(concurrency, now, count);
  concurrency.changedAt = now;
  concurrency.inFlight += count;
  if (isRetry) concurrency.retriesInFlight += count;
}

/** So many slots are not used: no call was sent. */
export function returnSlots(concurrency: Concurrency, isRetry: boolean, count: number): void {
  concurrency.inFlight = Math.max(0, concurrency.inFlight - count);
  concurrency.counted = Math.max(0, concurrency.counted - count);
  if (isRetry) concurrency.retriesInFlight = Math.max(0, concurrency.retriesInFlight - count);
}

/** Returns the slot. `rttMs` is the duration of the call; may be fractional. */
export function leaveConcurrency(
  concurrency: Concurrency,
  now: number,
  isRetry: boolean,
  outcome: ConcurrencyOutcome,
  rttMs: number,
): void {
  if (outcome !== "ignored") {
    // Without a free slot, no call could use the pace.
    const isFull = concurrency.inFlight >= concurrencyLimit(concurrency);
    if (concurrency.paceAt > 0 && isFull) concurrency.paceAt = Math.max(concurrency.paceAt, now);
    const dropped = outcome === "dropped";
    recordCall(concurrency.estimate, now, concurrency.inFlight, rttMs, dropped);
    if (concurrency.ramp > 0) stepRamp(concurrency, dropped);
    concurrency.changedAt = now;
  }
  concurrency.inFlight = Math.max(0, concurrency.inFlight - 1);
  if (isRetry) concurrency.retriesInFlight = Math.max(0, concurrency.retriesInFlight - 1);
}

/**
 * Call it when a breaker closes or a gate or pause ends. Calls in flight keep their slots. The limit restarts
 * at 1 and grows by one per success up to its old value. Quick calls need few slots, so the ramp also has a
 * *pace*: a multiple of the calls per second that the destination usually gets. It ends once fewer calls start
 * than it allows.
 */
export function restartRamp(concurrency: Concurrency, now: number): void {
  concurrency.ramp = 1;
  concurrency.changedAt = now;
  const isKnown = concurrency.usualPerSecond > 0;
  concurrency.paceAt = isKnown ? now - PACE_BURST * paceMs(concurrency) : 0;
}

/** A call that took a slot was never sent. */
export function uncountCall(concurrency: Concurrency): void {
  concurrency.counted = Math.max(0, concurrency.counted - 1);
  if (concurrency.paceAt > 0) concurrency.paceAt -= paceMs(concurrency);
}

/** When the pace allows the next call; `now` if it may start at once. A clock set back is followed. */
export function paceReadyAt(concurrency: Concurrency, now: number): number {
  if (concurrency.paceAt - ROUNDING <= now) return now;
  concurrency.paceAt = Math.min(concurrency.paceAt, now + paceMs(concurrency));
  return Math.ceil(concurrency.paceAt - ROUNDING);
}

/** Instants of today are exact to a quarter of a microsecond, and some of them are added up. */
const ROUNDING = 0.01;

/** Calls are counted for this long, and then become part of the average. */
const COUNT_MS = 10_000;
/** The weight of the newest count. */
const COUNT_WEIGHT = 0.3;
/** While the pace limits the calls, they say little about what is usual: it doubles in six minutes at most. */
const PACED_GROWTH = 1.02;
/** No pace is slower: a rare caller must not wait for its turn. */
const MIN_PACE_PER_SECOND = 10;
/** So many calls at first follow the slots alone: one call whose attempts fail must not wait for its turn. */
const PACE_BURST = 10;
/** If calls have used so much less than the pace allows, none of them waits any more. */
const UNUSED_PACE_MS = 1000;

function countUsual(concurrency: Concurrency, now: number, count = 1): void {
  const { counted, countedFrom, usualPerSecond, paceAt } = concurrency;
  const passedMs = now - countedFrom;
  if (passedMs < 0) concurrency.countedFrom = now;
  if (passedMs >= COUNT_MS) {
    // After a long time without a call, the time does not count: it says nothing about the load before.
    const perSecond = (counted * 1000) / (passedMs < 2 * COUNT_MS ? passedMs : COUNT_MS);
    concurrency.usualPerSecond =
      paceAt > 0
        ? Math.max(usualPerSecond, Math.min(perSecond, usualPerSecond * PACED_GROWTH))
        : usualPerSecond + (perSecond - usualPerSecond) * (usualPerSecond > 0 ? COUNT_WEIGHT : 1);
    concurrency.counted = 0;
    concurrency.countedFrom = now;
  }
  concurrency.counted += count;
}

function takePace(concurrency: Concurrency, now: number): void {
  const stepMs = paceMs(concurrency);
  const unusedMs = now - concurrency.paceAt - PACE_BURST * stepMs;
  concurrency.paceAt = unusedMs >= UNUSED_PACE_MS ? 0 : concurrency.paceAt + stepMs;
}

/** The time from one call to the next. */
function paceMs({ options, usualPerSecond }: Concurrency): number {
  return 1000 / Math.max(MIN_PACE_PER_SECOND, usualPerSecond * options.rampFactor);
}

/** A success is a step up, and a drop is a step down. At its old limit the ramp is over. */
function stepRamp(concurrency: Concurrency, dropped: boolean): void {
  const { ramp, estimate } = concurrency;
  const next = dropped ? Math.max(1, ramp - 1) : ramp + 1;
  concurrency.ramp = next >= estimate.limit ? 0 : next;
}

/** Few calls take longer than four medians, so usually a slot is free because a call has ended. */
const PATIENT_MEDIANS = 4;
/** While the usual duration is unknown. */
const UNKNOWN_MS = 1000;
/** A step of the ramp needs a timer, and quick calls must not end the ramp at once. */
const MIN_RAMP_MS = 100;
/**
 * The time for which a breaker opens first. The ramp waits no longer: a call that hangs stops the others no
 * longer than a failure. The limit itself waits at least as long: an overloaded destination is slow, too.
 */
const MAX_RAMP_MS = 5000;
/** The wait for the limit is rounded up to a second, so that a queue does not set a timer per call. */
const ROUND_MS = 1000;

/**
 * When a call that has no slot may have one: Infinity if only the end of a call can give it one. Now, if
 * no call has ended for so long that one more may start.
 */
export function slotReadyAt(
  concurrency: Concurrency,
  isRetry: boolean,
  now: number,
  latency: Latency,
): number {
  const { ramp, estimate, inFlight, options, retriesInFlight } = concurrency;
  const lacksRetrySlot = isRetry && retriesInFlight >= options.maxRetries;
  if (inFlight >= options.max || lacksRetrySlot) return Number.POSITIVE_INFINITY;
  // A clock set back is followed.
  concurrency.changedAt = Math.min(concurrency.changedAt, steadyAt(concurrency.changedAt, now));
  const isFull = inFlight >= Math.floor(estimate.limit);
  const readyAt = isFull
    ? limitReadyAt(concurrency.changedAt, now, latency)
    : concurrency.changedAt +
      Math.max(MIN_RAMP_MS, Math.min(patienceMs(latency, now), MAX_RAMP_MS));
  if (readyAt > now) return readyAt;
  if (isFull) estimate.limit = inFlight + 1;
  if (ramp > 0) {
    concurrency.ramp = Math.max(ramp, inFlight);
    stepRamp(concurrency, false);
  }
  return now;
}

/** The median is read only when it matters. */
function limitReadyAt(changedAt: number, now: number, latency: Latency): number {
  const earliestAt = Math.ceil((changedAt + MAX_RAMP_MS) / ROUND_MS) * ROUND_MS;
  return earliestAt > now ? earliestAt : changedAt + patienceMs(latency, now);
}

function patienceMs(latency: Latency, now: number): number {
  const usualMs = medianMs(latency, now);
  return usualMs === undefined ? UNKNOWN_MS : PATIENT_MEDIANS * usualMs;
}

/** The limit and its measurements, as JSON. Calls in flight belong to the process and are not included. */
export interface SavedConcurrency extends Omit<LimitEstimate, "max"> {
  readonly version: 1;
  readonly ramp: number;
  readonly usualPerSecond: number;
  readonly paceAt: number;
}

export function saveConcurrency(concurrency: Concurrency): SavedConcurrency {
  const { estimate, ramp, usualPerSecond, paceAt } = concurrency;
  const { max, ...saved } = estimate;
  return { version: 1, ramp, usualPerSecond, paceAt, ...saved };
}

/** A new algorithm starts from the limit that the other one has found; a lower `max` applies at once. */
export function restoreConcurrency(
  options: ConcurrencyOptions,
  value: unknown,
  now: number,
): Concurrency {
  // States of older versions do not have these.
  const state = isObject(value) ? { pace: 1, usualPerSecond: 0, paceAt: 0, ...value } : value;
  const { version, ramp, usualPerSecond, paceAt, ...saved } = readSavedState<SavedConcurrency>(
    "concurrency",
    state,
    {
      version: versionRule,
      ramp: countRule,
      usualPerSecond: amountRule,
      paceAt: amountRule,
      algorithm: choiceRule("FIXED", "GRADIENT", "VEGAS", "AIMD"),
      limit: numberRule(1, Number.MAX_SAFE_INTEGER, true),
      sampleAt: instantRule,
      samples: countRule,
      drops: countRule,
      rttSumMs: amountRule,
      peakInFlight: countRule,
      longRttMs: amountRule,
      longSamples: countRule,
      noLoadRttMs: amountRule,
      probeCount: countRule,
      probeShare: numberRule(0.5, 1, true),
      pace: numberRule(0, 1, true),
    },
  );
  const fresh = { ...createConcurrency(options, now), usualPerSecond, paceAt };
  if (saved.algorithm !== options.algorithm) return { ...fresh, ramp };
  const limit = options.algorithm === "FIXED" ? options.max : Math.min(options.max, saved.limit);
  return { ...fresh, ramp, estimate: { ...fresh.estimate, ...saved, limit } };
}

// The algorithms estimate how many calls at once a destination can handle, from latencies and refusals.
// GRADIENT and VEGAS are after Netflix concurrency-limits 0.5 (Gradient2Limit, VegasLimit and WindowedLimit,
// with their constants). AIMD is our own, because Netflix's fails most calls of an overloaded destination;
// `redrive sim lab limits` compares all. Invariant: `1 <= limit <= max`.

export type LimitAlgorithm = "FIXED" | "GRADIENT" | "VEGAS" | "AIMD";

/** An estimate and its measurements. One type for all algorithms; each uses the fields that it needs. */
export interface LimitEstimate {
  readonly algorithm: LimitAlgorithm;
  readonly max: number;
  /** May be fractional. */
  limit: number;
  /** The current sample (AIMD: round), and when it started. */
  sampleAt: number;
  samples: number;
  drops: number;
  rttSumMs: number;
  peakInFlight: number;
  /** GRADIENT and AIMD: the usual duration of a call; 0 while it is unknown. */
  longRttMs: number;
  /** GRADIENT: the number of samples behind it, up to the warm-up. */
  longSamples: number;
  /** VEGAS: the duration of a call without load; 0 while it is unknown. */
  noLoadRttMs: number;
  /** VEGAS: samples since the last measurement of `noLoadRttMs`, and the share of the interval to wait. */
  probeCount: number;
  probeShare: number;
  /** AIMD: the share of the full step by which a success raises the limit; 0 to 1. */
  pace: number;
}

/** GRADIENT and VEGAS start low, because they must see how long calls take without load. */
const INITIAL_LIMIT = 20;

/** WindowedLimit: the limit moves at most once per second, by the mean of at least ten calls. */
const SAMPLE_MS = 1000;
const SAMPLE_CALLS = 10;

/** WindowedLimit: such a quick response says nothing about the load. */
const MIN_RTT_MS = 0.1;

/**
 * A sample with this share of refusals lowers the limit. Netflix uses a single refusal, but then one
 * refusal in ten thousand calls per second would reduce the limit to 1.
 */
const DROP_SHARE = 0.1;

const BACKOFF_RATIO = 0.9;

/** AIMD: a success raises the limit by this, so the limit grows by a tenth per round trip. */
const AIMD_STEP = 0.1;

/** AIMD: with fewer calls, the share of refusals is random. */
const MIN_ROUND_CALLS = 5;

/**
 * AIMD: the usual duration follows longer calls this slowly, so that an overload of minutes does not
 * become usual, and a destination that has become slower does. It follows shorter calls within rounds.
 */
const USUAL_RISE_MS = 300_000;
const USUAL_FALL_SHARE = 0.2;

const GRADIENT_TOLERANCE = 1.5;
const GRADIENT_SMOOTHING = 0.2;
const GRADIENT_QUEUE = 4;
const LONG_WARMUP = 10;
/** ExpAvgMeasurement over 600 samples: 2 / (n + 1). */
const LONG_FACTOR = 2 / 601;
const LONG_DECAY = 0.95;

const VEGAS_PROBE_MULTIPLIER = 30;

export function createEstimate(algorithm: LimitAlgorithm, max: number, now: number): LimitEstimate {
  return {
    algorithm,
    max,
    limit: algorithm === "GRADIENT" || algorithm === "VEGAS" ? Math.min(INITIAL_LIMIT, max) : max,
    sampleAt: now,
    samples: 0,
    drops: 0,
    rttSumMs: 0,
    peakInFlight: 0,
    longRttMs: 0,
    longSamples: 0,
    noLoadRttMs: 0,
    probeCount: 0,
    probeShare: probeShareAt(now),
    pace: 1,
  };
}

/** A call ended while `inFlight` calls were in flight, including itself. `dropped`: refused or timed out. */
export function recordCall(
  estimate: LimitEstimate,
  now: number,
  inFlight: number,
  rttMs: number,
  dropped: boolean,
): void {
  switch (estimate.algorithm) {
    case "FIXED":
      return;
    case "AIMD":
      moveAimd(estimate, now, inFlight, rttMs, dropped);
      return;
    default:
      gather(estimate, inFlight, rttMs, dropped);
      if (isSampleDue(estimate, now)) closeSample(estimate, now);
  }
}

/**
 * Grows with successes and falls once per round, by what the round has shown. A round is as many calls
 * as the limit; it ends with a call that was sent in it, because earlier ones were sent under another
 * limit. As in DCTCP (RFC 8257), the cut depends on how many calls were refused or timed out: it is half
 * of the probability that two calls of the round both were. That is a half if all were. It is 5 % if three
 * in ten were: those may fail at random, and the growth of 7 % makes up for it. One in a round says nothing.
 */
function moveAimd(
  estimate: LimitEstimate,
  now: number,
  inFlight: number,
  rttMs: number,
  dropped: boolean,
): void {
  if (now < estimate.sampleAt) estimate.sampleAt = now;
  if (dropped) estimate.drops++;
  else {
    estimate.samples++;
    estimate.rttSumMs += rttMs;
    if (inFlight * 2 >= estimate.limit)
      setLimit(estimate, estimate.limit + AIMD_STEP * estimate.pace);
  }
  const isFull = estimate.drops + estimate.samples >= Math.max(MIN_ROUND_CALLS, estimate.limit);
  if (isFull && now - rttMs >= estimate.sampleAt) closeRound(estimate, now);
}

function closeRound(estimate: LimitEstimate, now: number): void {
  const { samples, drops } = estimate;
  if (samples > 0) setPace(estimate, now);
  const calls = samples + drops;
  const bothRefused = (drops * (drops - 1)) / (calls * (calls - 1));
  setLimit(estimate, estimate.limit * (1 - bothRefused / 2));
  startSample(estimate, now);
}

/**
 * While calls take longer than usual, more calls at once would only wait longer. So growth slows down
 * with the square of the delay, as in TCP-Illinois (Liu, Basar and Srikant, 2006). A slow destination
 * that refuses nothing keeps its limit.
 */
function setPace(estimate: LimitEstimate, now: number): void {
  // Less than 1 ms counts as 1: such a difference says nothing.
  const rttMs = Math.max(1, estimate.rttSumMs / estimate.samples);
  const usualMs = estimate.longRttMs || rttMs;
  const riseShare = Math.min(1, (now - estimate.sampleAt) / USUAL_RISE_MS);
  const share = rttMs < usualMs ? USUAL_FALL_SHARE : riseShare;
  estimate.longRttMs = usualMs + (rttMs - usualMs) * share;
  const speed = Math.min(1, estimate.longRttMs / rttMs);
  estimate.pace = speed * speed;
}

function setLimit(estimate: LimitEstimate, limit: number): void {
  estimate.limit = Math.max(1, Math.min(estimate.max, limit));
}

/** A refused call counts as refused; its duration says nothing about the load. */
function gather(estimate: LimitEstimate, inFlight: number, rttMs: number, dropped: boolean): void {
  estimate.peakInFlight = Math.max(estimate.peakInFlight, inFlight);
  if (dropped) {
    estimate.drops++;
  } else if (rttMs >= MIN_RTT_MS) {
    estimate.samples++;
    estimate.rttSumMs += rttMs;
  }
}

/** Unlike WindowedLimit, a sample that is too small continues, so a quiet destination is measured too. */
function isSampleDue(estimate: LimitEstimate, now: number): boolean {
  if (now < estimate.sampleAt) estimate.sampleAt = now;
  return now - estimate.sampleAt >= SAMPLE_MS && estimate.samples + estimate.drops >= SAMPLE_CALLS;
}

function closeSample(estimate: LimitEstimate, now: number): void {
  const { samples, drops, peakInFlight } = estimate;
  const rttMs = estimate.rttSumMs / samples;
  if (drops >= (samples + drops) * DROP_SHARE) shrink(estimate);
  else if (estimate.algorithm === "VEGAS") moveVegas(estimate, now, rttMs, peakInFlight);
  else moveGradient(estimate, rttMs, peakInFlight);
  startSample(estimate, now);
}

function startSample(estimate: LimitEstimate, now: number): void {
  estimate.sampleAt = now;
  estimate.samples = 0;
  estimate.drops = 0;
  estimate.rttSumMs = 0;
  estimate.peakInFlight = 0;
}

/** Gradient2 itself ignores refusals: to it, quick refusals look like an idle server. */
function shrink(estimate: LimitEstimate): void {
  const { algorithm, limit } = estimate;
  setLimit(estimate, algorithm === "VEGAS" ? limit - logOf(limit) : limit * BACKOFF_RATIO);
}

/**
 * Grows by a small queue while calls take at most `GRADIENT_TOLERANCE` times as long as usual. If a
 * destination is saturated for many minutes and queues without limit, the usual duration grows, and the
 * limit with it. A destination that refuses calls, or VEGAS, prevents that.
 */
function moveGradient(estimate: LimitEstimate, rttMs: number, inFlight: number): void {
  const longRttMs = updateLongRtt(estimate, rttMs);
  // After a long overload the usual duration is too high to be useful; it falls faster than it rose.
  if (longRttMs / rttMs > 2) estimate.longRttMs *= LONG_DECAY;
  const { limit } = estimate;
  if (inFlight < limit / 2) return;
  const gradient = Math.max(0.5, Math.min(1, (GRADIENT_TOLERANCE * longRttMs) / rttMs));
  const wanted = limit * gradient + GRADIENT_QUEUE;
  setLimit(estimate, limit * (1 - GRADIENT_SMOOTHING) + wanted * GRADIENT_SMOOTHING);
}

/** A plain mean during warm-up, an exponential one afterwards. */
function updateLongRtt(estimate: LimitEstimate, rttMs: number): number {
  const warming = estimate.longSamples < LONG_WARMUP;
  if (warming) estimate.longSamples++;
  const share = warming ? 1 / estimate.longSamples : LONG_FACTOR;
  estimate.longRttMs += (rttMs - estimate.longRttMs) * share;
  return estimate.longRttMs;
}

/** Keeps between alpha and beta calls in the server's queue, as TCP Vegas does. */
function moveVegas(estimate: LimitEstimate, now: number, rttMs: number, inFlight: number): void {
  const { limit } = estimate;
  estimate.probeCount++;
  if (estimate.probeShare * VEGAS_PROBE_MULTIPLIER * limit <= estimate.probeCount) {
    estimate.probeCount = 0;
    estimate.probeShare = probeShareAt(now);
    estimate.noLoadRttMs = rttMs;
    return;
  }
  if (estimate.noLoadRttMs === 0 || rttMs < estimate.noLoadRttMs) {
    estimate.noLoadRttMs = rttMs;
    return;
  }
  if (inFlight * 2 < limit) return;
  setLimit(estimate, limit + vegasStep(limit, limit * (1 - estimate.noLoadRttMs / rttMs)));
}

/** Alpha is 3 logarithms, beta is 6, and a queue of up to 1 counts as empty. */
function vegasStep(limit: number, queue: number): number {
  const log = logOf(limit);
  if (queue <= log) return 6 * log;
  if (queue > 6 * log) return -log;
  return queue <= 3 * log - 1 ? log : 0;
}

/** The integer part of log10, at least 1: Netflix's Log10RootFunction without the logarithm. */
function logOf(limit: number): number {
  let log = 1;
  for (let rest = limit; rest >= 100; rest /= 10) log++;
  return log;
}

/**
 * A probe comes after 0.5 to 1 times its interval, so many clients do not probe together. The
 * milliseconds of the instant replace a random number.
 */
function probeShareAt(now: number): number {
  return 0.5 + (now % 1000) / 2000;
}
