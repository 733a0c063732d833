/**
 * Rate: limits calls per second, with a burst. The rate is fixed, or it adapts to throttling. The fixed one is
 * a token bucket in the form of GCRA (the leaky bucket as a meter, ITU-T I.371): it stores by how many calls
 * the traffic is ahead of the rate, not the tokens.
 *
 * Invariant: in any t ms at most `burst + perSecond x t / 1000` calls pass.
 */
import {
  amountRule,
  booleanRule,
  countRule,
  instantRule,
  readSavedState,
  versionRule,
} from "../documents/document.ts";
import { steadyAt } from "./sliding-window.ts";

export interface RateOptions {
  /** Calls per second in the long run; 0.1 is one in ten seconds. 0.001 to 1 000 000. No default. */
  readonly perSecond: number;
  /**
   * Calls that may start at once after an idle time. Integer, 1 to 1 000 000. Default: `perSecond`, at
   * least 1. Time is in whole ms, so a burst of 1 allows at most 1000 calls per second.
   */
  readonly burst: number;
}

export interface Rate {
  readonly options: RateOptions;
  /** When the latest call started. */
  at: number;
  /** By how many calls the traffic was ahead of the rate then. Fractional; 0 to `burst`. */
  ahead: number;
}

/** Upper limit of the rounding error. Without it, a call would sometimes wait 1 ms for nothing. */
const ROUNDING = 1e-9;

export function createRate(options: RateOptions, now: number): Rate {
  return { options, at: now, ahead: 0 };
}

/** Takes a token for one call, or returns false. */
export function takeRate(rate: Rate, now: number): boolean {
  const ahead = aheadAt(rate, now);
  if (excessOf(rate, ahead) > 0) return false;
  rate.at = steadyAt(rate.at, now);
  rate.ahead = ahead + 1;
  return true;
}

/**
 * Returns the token of a call that was never sent. If the call held it for long, time has already
 * refilled a part of it; returning that part twice would let a later call start too soon.
 */
export function returnRate(rate: Rate, takenAt: number, now: number): void {
  const ahead = aheadAt(rate, now);
  const passed = Math.max(0, ((now - takenAt) * rate.options.perSecond) / 1000);
  rate.at = steadyAt(rate.at, now);
  rate.ahead = Math.max(0, ahead - Math.max(0, 1 - passed));
}

/**
 * The earliest whole ms at which a call may start; `now` if it may start at once. `before`: the calls
 * that have no token yet and start before it.
 */
export function rateReadyAt(rate: Rate, now: number, before = 0): number {
  const { burst, perSecond } = rate.options;
  const excess = Math.max(0, excessOf(rate, aheadAt(rate, now) + before));
  const waitMs = -Math.floor((-excess * 1000) / perSecond);
  // At most `burst` calls start in one ms.
  return now + Math.max(waitMs, Math.floor(before / burst));
}

/** By how many calls the traffic is ahead of the rate now. A clock set back is followed. */
function aheadAt(rate: Rate, now: number): number {
  const at = steadyAt(rate.at, now);
  rate.at = Math.min(rate.at, at);
  return Math.max(0, rate.ahead - ((at - rate.at) * rate.options.perSecond) / 1000);
}

/** With a burst of 1, a call may start only if the traffic is not ahead. */
function excessOf({ options }: Rate, ahead: number): number {
  return ahead - (options.burst - 1) - ROUNDING;
}

export interface SavedRate {
  readonly version: 1;
  readonly at: number;
  readonly ahead: number;
}

export function saveRate({ at, ahead }: Rate): SavedRate {
  return { version: 1, at, ahead };
}

/** If the burst is smaller now, the traffic is ahead by at most the new burst. */
export function restoreRate(options: RateOptions, value: unknown): Rate {
  const { at, ahead } = readSavedState<SavedRate>("rate", value, {
    version: versionRule,
    at: instantRule,
    ahead: amountRule,
  });
  return { options, at, ahead: Math.min(ahead, options.burst) };
}

// The adaptive rate slows down when the server throttles, and speeds up again along a cubic curve (as TCP
// CUBIC does) through the rate at which it was throttled. After DefaultRateLimiter of @smithy/core 3.40, the
// "adaptive" mode of the AWS SDKs. It limits nothing before the first throttling response.

export interface AdaptiveRateOptions {
  /** A throttling response multiplies the rate by this. 0.1 to 0.99. Default: 0.7. */
  readonly beta: number;
  /** Steepness of the rising curve. 0.01 to 10. Default: 0.4. */
  readonly scaleConstant: number;
  /** Weight of the newest half second in the measured rate. 0.01 to 1. Default: 0.8. */
  readonly smooth: number;
  /** Minimum rate, in calls per second. 0.01 to 1000. Default: 0.5. */
  readonly minFillRate: number;
  /** Minimum number of calls that may start at once. 1 to 1000. Default: 1. */
  readonly minCapacity: number;
}

export const ADAPTIVE_RATE_DEFAULTS: AdaptiveRateOptions = {
  beta: 0.7,
  scaleConstant: 0.4,
  smooth: 0.8,
  minFillRate: 0.5,
  minCapacity: 1,
};

/** Rates are in calls per second. */
export interface AdaptiveRate {
  readonly options: AdaptiveRateOptions;
  /** The latest instant seen. */
  at: number;
  /** False until the first throttling response; until then no call waits. */
  enabled: boolean;
  /** Invariant: `0 <= tokens <= capacity`. */
  tokens: number;
  capacity: number;
  fillRate: number;
  /** The rate at the latest throttling response, its instant, and when the curve reaches it again. */
  lastMaxRate: number;
  throttledAt: number;
  plateauSeconds: number;
  /** Responses per second, smoothed; and the responses since the half second of the last measurement. */
  measuredRate: number;
  answers: number;
  measuredAt: number;
}

/** The rate is measured again in every half second that has a response. */
const MEASURE_MS = 500;

export function createAdaptiveRate(options: AdaptiveRateOptions, now: number): AdaptiveRate {
  return {
    options,
    at: now,
    enabled: false,
    tokens: 0,
    capacity: options.minCapacity,
    fillRate: options.minFillRate,
    lastMaxRate: 0,
    throttledAt: now,
    plateauSeconds: 0,
    measuredRate: 0,
    answers: 0,
    // As in the original, which starts at a full second.
    measuredAt: now - (now % 1000),
  };
}

/** Takes a token for one call, or returns false. */
export function takeAdaptiveRate(rate: AdaptiveRate, now: number): boolean {
  if (!rate.enabled) return true;
  refill(rate, now);
  if (rate.tokens < 1 - ROUNDING) return false;
  rate.tokens = Math.max(0, rate.tokens - 1);
  return true;
}

/**
 * Returns the token of a call that was never sent, minus the part that time has already refilled. A
 * call that started before the latest throttling response took no token, or one from a larger bucket.
 */
export function returnAdaptiveRate(rate: AdaptiveRate, takenAt: number, now: number): void {
  if (!rate.enabled || takenAt < rate.throttledAt) return;
  refill(rate, now);
  const passed = Math.max(0, ((now - takenAt) / 1000) * rate.fillRate);
  rate.tokens = Math.min(rate.capacity, rate.tokens + Math.max(0, 1 - passed));
}

/** The earliest whole ms at which a call may start; `now` if it may start at once. */
export function adaptiveRateReadyAt(rate: AdaptiveRate, now: number): number {
  if (!rate.enabled) return now;
  refill(rate, now);
  const missing = Math.max(0, 1 - rate.tokens - ROUNDING);
  return now - Math.floor((-missing * 1000) / rate.fillRate);
}

/** Records a response. `throttled`: it asked for fewer calls (429, RESOURCE_EXHAUSTED and similar). */
export function recordAdaptiveRateResponse(
  rate: AdaptiveRate,
  now: number,
  throttled: boolean,
): void {
  refill(rate, now);
  measure(rate);
  const wanted = throttled ? slowDown(rate) : cubicRate(rate);
  // The rate is at most twice what is really sent: unused speed does not count.
  setFillRate(rate, Math.min(wanted, 2 * rate.measuredRate));
}

function slowDown(rate: AdaptiveRate): number {
  const { beta, scaleConstant } = rate.options;
  const { measuredRate, fillRate } = rate;
  rate.lastMaxRate = rate.enabled ? Math.min(measuredRate, fillRate) : measuredRate;
  rate.throttledAt = rate.at;
  rate.plateauSeconds = cubeRoot((rate.lastMaxRate * (1 - beta)) / scaleConstant);
  rate.enabled = true;
  return rate.lastMaxRate * beta;
}

/** Steep at first, flat around the rate that was too high, then steep again to find a new one. */
function cubicRate({
  options,
  at,
  throttledAt,
  plateauSeconds,
  lastMaxRate,
}: AdaptiveRate): number {
  const x = (at - throttledAt) / 1000 - plateauSeconds;
  return options.scaleConstant * x * x * x + lastMaxRate;
}

function setFillRate(rate: AdaptiveRate, perSecond: number): void {
  rate.fillRate = Math.max(perSecond, rate.options.minFillRate);
  rate.capacity = Math.max(perSecond, rate.options.minCapacity);
  rate.tokens = Math.min(rate.tokens, rate.capacity);
}

/** Follows the clock. If the clock was set back, the limiter's own instants move with it. */
function refill(rate: AdaptiveRate, now: number): void {
  const at = steadyAt(rate.at, now);
  const passedMs = at - rate.at;
  rate.at = at;
  if (passedMs < 0) {
    rate.throttledAt = Math.max(0, rate.throttledAt + passedMs);
    rate.measuredAt = at - (at % MEASURE_MS);
    return;
  }
  rate.tokens = Math.min(rate.capacity, rate.tokens + (passedMs / 1000) * rate.fillRate);
}

function measure(rate: AdaptiveRate): void {
  const halfSecondAt = rate.at - (rate.at % MEASURE_MS);
  rate.answers++;
  if (halfSecondAt <= rate.measuredAt) return;
  const current = (rate.answers * 1000) / (halfSecondAt - rate.measuredAt);
  const { smooth } = rate.options;
  rate.measuredRate = current * smooth + rate.measuredRate * (1 - smooth);
  rate.answers = 0;
  rate.measuredAt = halfSecondAt;
}

/** Cube root by Newton's method, because engines may round `Math.cbrt` differently. For values >= 0. */
export function cubeRoot(value: number): number {
  let root = Math.max(1, value);
  // From above it only falls, by at least a third until it is close: 80 steps reach 10^-14.
  for (let step = 0; step < 200; step++) {
    const next = (2 * root + value / (root * root)) / 3;
    if (next >= root) break;
    root = next;
  }
  return root;
}

/** The limiter as JSON. */
export interface SavedAdaptiveRate extends Omit<AdaptiveRate, "options"> {
  readonly version: 1;
}

export function saveAdaptiveRate(rate: AdaptiveRate): SavedAdaptiveRate {
  const { options, ...saved } = rate;
  return { version: 1, ...saved };
}

export function restoreAdaptiveRate(options: AdaptiveRateOptions, value: unknown): AdaptiveRate {
  const { version, ...saved } = readSavedState<SavedAdaptiveRate>("adaptiveRate", value, {
    version: versionRule,
    at: instantRule,
    enabled: booleanRule,
    tokens: amountRule,
    capacity: amountRule,
    fillRate: amountRule,
    lastMaxRate: amountRule,
    throttledAt: instantRule,
    plateauSeconds: amountRule,
    measuredRate: amountRule,
    answers: countRule,
    measuredAt: instantRule,
  });
  // A minimum that was raised since then applies at once.
  return { options, ...saved, fillRate: Math.max(saved.fillRate, options.minFillRate) };
}
