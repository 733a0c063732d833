/**
 * Adaptive rate: slows down when the server throttles, and speeds up again along a cubic curve (as TCP
 * CUBIC does) through the rate at which it was throttled. After DefaultRateLimiter of @smithy/core
 * 3.40, the "adaptive" mode of the AWS SDKs. It limits nothing before the first throttling response.
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

/** Upper limit of the rounding error, however often the tokens are refilled. */
const ROUNDING = 1e-9;

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
