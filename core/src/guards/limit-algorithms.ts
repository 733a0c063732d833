/**
 * Limit algorithms: estimate how many calls at once a destination can handle, from latencies and
 * refusals. After Netflix concurrency-limits 0.5 (Gradient2Limit, VegasLimit, AIMDLimit and
 * WindowedLimit, with their constants). `concurrency.ts` applies the limit.
 *
 * Invariant: `1 <= limit <= max`.
 */

export type LimitAlgorithm = "FIXED" | "GRADIENT" | "VEGAS" | "AIMD";

/** An estimate and its measurements. One type for all algorithms; each uses the fields that it needs. */
export interface LimitEstimate {
  readonly algorithm: LimitAlgorithm;
  readonly max: number;
  /** May be fractional. */
  limit: number;
  /** GRADIENT and VEGAS: the current sample, and when it started. AIMD: the last cut. */
  sampleAt: number;
  samples: number;
  drops: number;
  rttSumMs: number;
  peakInFlight: number;
  /** GRADIENT: the usual duration of a call, and the number of samples behind it, up to the warm-up. */
  longRttMs: number;
  longSamples: number;
  /** VEGAS: the duration of a call without load; 0 while it is unknown. */
  noLoadRttMs: number;
  /** VEGAS: samples since the last measurement of `noLoadRttMs`, and the share of the interval to wait. */
  probeCount: number;
  probeShare: number;
}

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
const AIMD_TIMEOUT_MS = 5000;

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
    limit: algorithm === "FIXED" ? max : Math.min(INITIAL_LIMIT, max),
    // AIMD has made no cut yet.
    sampleAt: algorithm === "AIMD" ? 0 : now,
    samples: 0,
    drops: 0,
    rttSumMs: 0,
    peakInFlight: 0,
    longRttMs: 0,
    longSamples: 0,
    noLoadRttMs: 0,
    probeCount: 0,
    probeShare: probeShareAt(now),
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
      moveAimd(estimate, now, inFlight, rttMs, dropped || rttMs > AIMD_TIMEOUT_MS);
      return;
    default:
      gather(estimate, inFlight, rttMs, dropped);
      if (isSampleDue(estimate, now)) closeSample(estimate, now);
  }
}

/**
 * One cut per round trip, as in TCP (NewReno, RFC 6582): a call that was sent before the last cut was
 * sent under the old limit and says nothing about the new one. With a cut per refusal, a destination
 * that fails three calls in ten at random would get only a few slots, whatever its capacity.
 */
function moveAimd(
  estimate: LimitEstimate,
  now: number,
  inFlight: number,
  rttMs: number,
  dropped: boolean,
): void {
  if (now < estimate.sampleAt) estimate.sampleAt = now;
  if (!dropped) {
    if (inFlight * 2 >= estimate.limit) setLimit(estimate, estimate.limit + 1);
  } else if (now - rttMs >= estimate.sampleAt) {
    estimate.sampleAt = now;
    setLimit(estimate, Math.floor(estimate.limit * BACKOFF_RATIO));
  }
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
