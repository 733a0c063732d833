/**
 * Concurrency: limits the calls in flight to a destination. The limit is fixed, or an algorithm of
 * `limit-algorithms.ts` finds it. Retries have their own limit within it.
 *
 * After a stop (an open breaker, a pause) the limit is *ramped*: it restarts at 1 and grows by one per
 * success up to its old value, so waiting calls do not overload the destination.
 */
import { choiceRule, numberRule } from "../documents/document.ts";
import {
  amountRule,
  countRule,
  instantRule,
  readSavedState,
  versionRule,
} from "../documents/saved-state.ts";
import {
  createEstimate,
  type LimitAlgorithm,
  type LimitEstimate,
  recordCall,
} from "./limit-algorithms.ts";

export interface ConcurrencyOptions {
  /** How the limit is found. Default: AIMD. */
  readonly algorithm: LimitAlgorithm;
  /** Maximum number of calls in flight. 1 to 100 000. Default: 64. */
  readonly max: number;
  /** Maximum number of retries in flight. 0 to `max`. Default: `max`. */
  readonly maxRetries: number;
  /** Calls that may wait for a slot. 0 to 1 000 000. Default: 0. */
  readonly queue: number;
}

export const CONCURRENCY_DEFAULTS: ConcurrencyOptions = {
  algorithm: "AIMD",
  max: 64,
  maxRetries: 64,
  queue: 0,
};

/** `dropped`: refused for overload, or timed out. `ignored`: says nothing about the load. */
export type ConcurrencyOutcome = "success" | "dropped" | "ignored";

export interface Concurrency {
  readonly options: ConcurrencyOptions;
  readonly estimate: LimitEstimate;
  /** The limit while it is ramped; 0 when it is not. */
  ramp: number;
  /** Calls in flight, including retries. */
  inFlight: number;
  retriesInFlight: number;
}

export function createConcurrency(options: ConcurrencyOptions, now: number): Concurrency {
  const estimate = createEstimate(options.algorithm, options.max, now);
  return { options, estimate, ramp: 0, inFlight: 0, retriesInFlight: 0 };
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

/** Takes a slot, or returns false. Each slot must be left exactly once. */
export function enterConcurrency(concurrency: Concurrency, isRetry: boolean): boolean {
  if (!hasSlot(concurrency, isRetry)) return false;
  concurrency.inFlight++;
  if (isRetry) concurrency.retriesInFlight++;
  return true;
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
    const dropped = outcome === "dropped";
    recordCall(concurrency.estimate, now, concurrency.inFlight, rttMs, dropped);
    if (concurrency.ramp > 0) stepRamp(concurrency, dropped);
  }
  concurrency.inFlight = Math.max(0, concurrency.inFlight - 1);
  if (isRetry) concurrency.retriesInFlight = Math.max(0, concurrency.retriesInFlight - 1);
}

/** Call it when a breaker closes or a gate or pause ends. Calls in flight keep their slots. */
export function restartRamp(concurrency: Concurrency): void {
  concurrency.ramp = 1;
}

/** A success is a step up, and a drop is a step down. At its old limit the ramp is over. */
function stepRamp(concurrency: Concurrency, dropped: boolean): void {
  concurrency.ramp = dropped ? Math.max(1, concurrency.ramp - 1) : concurrency.ramp + 1;
  if (concurrency.ramp >= concurrency.estimate.limit) concurrency.ramp = 0;
}

/** The limit and its measurements, as JSON. Calls in flight belong to the process and are not included. */
export interface SavedConcurrency extends Omit<LimitEstimate, "max"> {
  readonly version: 1;
  readonly ramp: number;
}

export function saveConcurrency({ estimate, ramp }: Concurrency): SavedConcurrency {
  const { max, ...saved } = estimate;
  return { version: 1, ramp, ...saved };
}

/** A new algorithm starts from the limit that the other one has found; a lower `max` applies at once. */
export function restoreConcurrency(
  options: ConcurrencyOptions,
  value: unknown,
  now: number,
): Concurrency {
  const { version, ramp, ...saved } = readSavedState<SavedConcurrency>("concurrency", value, {
    version: versionRule,
    ramp: countRule,
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
  });
  const fresh = createConcurrency(options, now);
  if (saved.algorithm !== options.algorithm) return { ...fresh, ramp };
  const limit = options.algorithm === "FIXED" ? options.max : Math.min(options.max, saved.limit);
  return { ...fresh, ramp, estimate: { ...fresh.estimate, ...saved, limit } };
}
