/**
 * Adaptive rate: slows down when the other side throttles, and speeds up again along a cubic curve
 * (as TCP CUBIC does) through the rate at which it was throttled. After DefaultRateLimiter of
 * @smithy/core 3.40, the "adaptive" mode of the AWS SDKs. Free until the first throttling answer.
 */
import { booleanRule } from "../documents/document.ts";
import {
  amountRule,
  countRule,
  instantRule,
  readSavedState,
  versionRule,
} from "../documents/saved-state.ts";
import { steadyAt } from "../time/steady-time.ts";

export interface AdaptiveRateOptions {
  /** A throttling answer multiplies the rate by this. 0.1 to 0.99. Default: 0.7. */
  readonly beta: number;
  /** Steepness of the curve up. 0.01 to 10. Default: 0.4. */
  readonly scaleConstant: number;
  /** Weight of the newest half second in the measured rate. 0.01 to 1. Default: 0.8. */
  readonly smooth: number;
  /** The rate falls no lower, in calls a second. 0.01 to 1000. Default: 0.5. */
  readonly minFillRate: number;
  /** Calls that may go at once, at least. 1 to 1000. Default: 1. */
  readonly minCapacity: number;
}

export const ADAPTIVE_RATE_DEFAULTS: AdaptiveRateOptions = {
  beta: 0.7,
  scaleConstant: 0.4,
  smooth: 0.8,
  minFillRate: 0.5,
  minCapacity: 1,
};

/** Rates are in calls a second. */
export interface AdaptiveRate {
  readonly options: AdaptiveRateOptions;
  /** The latest instant seen. */
  at: number;
  /** False until the first throttling answer: until then every call may go. */
  enabled: boolean;
  /** Invariant: `0 <= tokens <= capacity`. */
  tokens: number;
  capacity: number;
  fillRate: number;
  /** The rate at the latest throttling answer, when that was, and when the curve is back at it. */
  lastMaxRate: number;
  throttledAt: number;
  plateauSeconds: number;
  /** Answers a second, smoothed; and those since the half second it was last measured in. */
  measuredRate: number;
  answers: number;
  measuredAt: number;
}

/** What rounding may add up to, however often the tokens are refilled on the way. */
const ROUNDING = 1e-9;

/** The rate is measured anew in every half second that has an answer. */
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
    // As in the original, which starts at a whole second.
    measuredAt: now - (now % 1000),
  };
}

/** Lets one call go, or answers false. */
export function takeAdaptiveRate(rate: AdaptiveRate, now: number): boolean {
  if (!rate.enabled) return true;
  refill(rate, now);
  if (rate.tokens < 1 - ROUNDING) return false;
  rate.tokens = Math.max(0, rate.tokens - 1);
  return true;
}

/**
 * Returns the token of a call that was never sent, less what time has returned already. A call that
 * was let go before the latest throttling answer took no token, or one of a bucket since cut down.
 */
export function returnAdaptiveRate(rate: AdaptiveRate, takenAt: number, now: number): void {
  if (!rate.enabled || takenAt < rate.throttledAt) return;
  refill(rate, now);
  const passed = Math.max(0, ((now - takenAt) / 1000) * rate.fillRate);
  rate.tokens = Math.min(rate.capacity, rate.tokens + Math.max(0, 1 - passed));
}

/** The earliest whole ms at which a call may go: `now` if it may go at once. */
export function adaptiveRateReadyAt(rate: AdaptiveRate, now: number): number {
  if (!rate.enabled) return now;
  refill(rate, now);
  const missing = Math.max(0, 1 - rate.tokens - ROUNDING);
  return now - Math.floor((-missing * 1000) / rate.fillRate);
}

/** An answer came. `throttled`: it asked for fewer calls (429, RESOURCE_EXHAUSTED and the like). */
export function recordAdaptiveRateResponse(
  rate: AdaptiveRate,
  now: number,
  throttled: boolean,
): void {
  refill(rate, now);
  measure(rate);
  const wanted = throttled ? slowDown(rate) : cubicRate(rate);
  // Unused speed is not earned: twice what is really sent is the most.
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

/** Steep at first, flat around the rate that was too much, then steep again to find a new one. */
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

/** Follows the clock. One that was set back takes the limiter's own instants along. */
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

/** By Newton's method, because engines may round `Math.cbrt` differently. Of a number >= 0. */
export function cubeRoot(value: number): number {
  let root = Math.max(1, value);
  // From above it only ever falls, by a third at least until it is near: 80 steps reach 10^-14.
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
  // A floor that was raised since then holds at once.
  return { options, ...saved, fillRate: Math.max(saved.fillRate, options.minFillRate) };
}
