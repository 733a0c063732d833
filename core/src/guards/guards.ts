/**
 * Guards: all guards of one destination (or of one key of it), created and saved together. A guard that
 * is off is undefined; the latency is always recorded. `admission.ts` enters and leaves them.
 */

import { partRule, readSavedState, versionRule } from "../documents/document.ts";
import {
  type Breaker,
  type BreakerOptions,
  createBreaker,
  restoreBreaker,
  type SavedBreaker,
  saveBreaker,
} from "./breaker.ts";
import {
  type Concurrency,
  type ConcurrencyOptions,
  createConcurrency,
  restoreConcurrency,
  type SavedConcurrency,
  saveConcurrency,
} from "./concurrency.ts";
import {
  createLatency,
  type Latency,
  restoreLatency,
  type SavedLatency,
  saveLatency,
} from "./latency.ts";
import {
  type AdaptiveRate,
  type AdaptiveRateOptions,
  createAdaptiveRate,
  createRate,
  type Rate,
  type RateOptions,
  restoreAdaptiveRate,
  restoreRate,
  type SavedAdaptiveRate,
  type SavedRate,
  saveAdaptiveRate,
  saveRate,
} from "./rate.ts";
import {
  createRetryBudget,
  type RetryBudget,
  type RetryBudgetOptions,
  restoreRetryBudget,
  type SavedRetryBudget,
  saveRetryBudget,
} from "./retry-budget.ts";
import {
  createThrottle,
  restoreThrottle,
  type SavedThrottle,
  saveThrottle,
  type Throttle,
  type ThrottleOptions,
} from "./throttle.ts";

/** The guards that are on, with every default filled in. */
export interface GuardOptions {
  readonly retryBudget?: RetryBudgetOptions | undefined;
  readonly breaker?: BreakerOptions | undefined;
  readonly concurrency?: ConcurrencyOptions | undefined;
  readonly rate?: RateOptions | undefined;
  readonly adaptiveRate?: AdaptiveRateOptions | undefined;
  readonly throttle?: ThrottleOptions | undefined;
}

export interface Guards {
  readonly retryBudget: RetryBudget | undefined;
  readonly breaker: Breaker | undefined;
  readonly concurrency: Concurrency | undefined;
  readonly rate: Rate | undefined;
  readonly adaptiveRate: AdaptiveRate | undefined;
  readonly throttle: Throttle | undefined;
  readonly latency: Latency;
}

export function createGuards(options: GuardOptions, now: number, shared?: RetryBudget): Guards {
  return assemble(options, {}, now, shared);
}

/** Guards as JSON; null for a guard that was off. */
export interface SavedGuards {
  readonly version: 1;
  readonly retryBudget: SavedRetryBudget | null;
  readonly breaker: SavedBreaker | null;
  readonly concurrency: SavedConcurrency | null;
  readonly rate: SavedRate | null;
  readonly adaptiveRate: SavedAdaptiveRate | null;
  readonly throttle: SavedThrottle | null;
  readonly latency: SavedLatency | null;
}

/** An absent part counts as null. */
type KnownGuards = { readonly [part in keyof SavedGuards]?: unknown };

export function saveGuards(guards: Guards): SavedGuards {
  const { retryBudget, breaker, concurrency, rate, adaptiveRate, throttle, latency } = guards;
  return {
    version: 1,
    retryBudget: retryBudget ? saveRetryBudget(retryBudget) : null,
    breaker: breaker ? saveBreaker(breaker) : null,
    concurrency: concurrency ? saveConcurrency(concurrency) : null,
    rate: rate ? saveRate(rate) : null,
    adaptiveRate: adaptiveRate ? saveAdaptiveRate(adaptiveRate) : null,
    throttle: throttle ? saveThrottle(throttle) : null,
    latency: saveLatency(latency),
  };
}

/** Restores the guards that are on now. A guard that was off when saved starts fresh. */
export function restoreGuards(
  options: GuardOptions,
  value: unknown,
  now: number,
  shared?: RetryBudget,
): Guards {
  const saved = readSavedState<SavedGuards>("guards", value, {
    version: versionRule,
    retryBudget: partRule,
    breaker: partRule,
    concurrency: partRule,
    rate: partRule,
    adaptiveRate: partRule,
    throttle: partRule,
    latency: partRule,
  });
  return assemble(options, saved, now, shared);
}

/** A `shared` budget serves several destinations; its owner creates and saves it. */
function assemble(
  options: GuardOptions,
  saved: KnownGuards,
  now: number,
  shared: RetryBudget | undefined,
): Guards {
  const { retryBudget, breaker, concurrency, rate, adaptiveRate, throttle } = options;
  return {
    retryBudget:
      shared ?? part(retryBudget, saved.retryBudget, now, createRetryBudget, restoreRetryBudget),
    breaker: part(breaker, saved.breaker, now, createBreaker, restoreBreaker),
    concurrency: part(concurrency, saved.concurrency, now, createConcurrency, restoreConcurrency),
    rate: part(rate, saved.rate, now, createRate, restoreRate),
    adaptiveRate: part(
      adaptiveRate,
      saved.adaptiveRate,
      now,
      createAdaptiveRate,
      restoreAdaptiveRate,
    ),
    throttle: part(throttle, saved.throttle, now, createThrottle, restoreThrottle),
    latency: saved.latency ? restoreLatency(saved.latency) : createLatency(now),
  };
}

function part<Options, Guard>(
  options: Options | undefined,
  saved: unknown,
  now: number,
  create: (options: Options, now: number) => Guard,
  restore: (options: Options, saved: unknown, now: number) => Guard,
): Guard | undefined {
  if (options === undefined) return undefined;
  return saved ? restore(options, saved, now) : create(options, now);
}

// The Retry-After gate: one Retry-After holds every call of a destination, not only the call that received
// it. The other calls are held for at most `maxGateMs`; then one call is sent first.

export interface GateOptions {
  /** Maximum time that one response holds other calls. 1 to 86 400 000 ms. Default: 300 000. */
  readonly maxGateMs: number;
}

export const GATE_DEFAULTS: GateOptions = { maxGateMs: 300_000 };
