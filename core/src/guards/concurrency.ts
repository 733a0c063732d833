/**
 * Concurrency: how many calls to a destination may be under way at once. The limit is fixed or
 * found by an algorithm of `limit-algorithms.ts`; retries have a cap of their own within it.
 *
 * After a stop (an open breaker, a pause) the limit is *ramped*: it restarts at 1 and grows by one
 * per success up to where it was, so that nobody who waited storms the destination.
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
  noteCall,
} from "./limit-algorithms.ts";

export interface ConcurrencyOptions {
  /** How the limit is found. Default: AIMD. */
  readonly algorithm: LimitAlgorithm;
  /** Calls under way at once, at most. 1 to 100 000. Default: 64. */
  readonly max: number;
  /** Retries under way at once, at most. 0 to `max`. Default: `max`. */
  readonly maxRetries: number;
  /** Calls that may wait for a slot; the waiting itself is the face's. 0 to 1 000 000. Default: 0. */
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
  /** Calls under way, retries included. */
  inFlight: number;
  retriesInFlight: number;
}

export function createConcurrency(options: ConcurrencyOptions, now: number): Concurrency {
  const estimate = createEstimate(options.algorithm, options.max, now);
  return { options, estimate, ramp: 0, inFlight: 0, retriesInFlight: 0 };
}

/** Calls that may be under way now; whole, 1 to `max`. */
export function concurrencyLimit({ estimate, ramp }: Concurrency): number {
  const limit = Math.floor(estimate.limit);
  return ramp > 0 ? Math.min(ramp, limit) : limit;
}

/** True if a call could take a slot now. */
export function hasSlot(concurrency: Concurrency, isRetry: boolean): boolean {
  if (concurrency.inFlight >= concurrencyLimit(concurrency)) return false;
  return !isRetry || concurrency.retriesInFlight < concurrency.options.maxRetries;
}

/** Takes a slot, or answers false. Whoever has a slot must leave exactly once. */
export function enterConcurrency(concurrency: Concurrency, isRetry: boolean): boolean {
  if (!hasSlot(concurrency, isRetry)) return false;
  concurrency.inFlight++;
  if (isRetry) concurrency.retriesInFlight++;
  return true;
}

/** Gives the slot back. `rttMs` is how long the call took; it need not be whole. */
export function leaveConcurrency(
  concurrency: Concurrency,
  now: number,
  isRetry: boolean,
  outcome: ConcurrencyOutcome,
  rttMs: number,
): void {
  if (outcome !== "ignored") {
    const dropped = outcome === "dropped";
    noteCall(concurrency.estimate, now, concurrency.inFlight, rttMs, dropped);
    if (concurrency.ramp > 0) stepRamp(concurrency, dropped);
  }
  concurrency.inFlight = Math.max(0, concurrency.inFlight - 1);
  if (isRetry) concurrency.retriesInFlight = Math.max(0, concurrency.retriesInFlight - 1);
}

/** Call it when a breaker closes or a gate or pause lifts. Calls under way keep their slots. */
export function restartRamp(concurrency: Concurrency): void {
  concurrency.ramp = 1;
}

/** A success is a step up, a drop a step down; at the limit it had the ramp is over. */
function stepRamp(concurrency: Concurrency, dropped: boolean): void {
  concurrency.ramp = dropped ? Math.max(1, concurrency.ramp - 1) : concurrency.ramp + 1;
  if (concurrency.ramp >= concurrency.estimate.limit) concurrency.ramp = 0;
}

/** The limit and what it rests on, as JSON. Calls under way belong to the process and are not in it. */
export interface SavedConcurrency extends Omit<LimitEstimate, "max"> {
  readonly version: 1;
  readonly ramp: number;
}

export function saveConcurrency({ estimate, ramp }: Concurrency): SavedConcurrency {
  const { max, ...saved } = estimate;
  return { version: 1, ramp, ...saved };
}

/** An algorithm starts anew from what another one has found; a lower `max` holds at once. */
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
