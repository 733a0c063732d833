/**
 * Keyed guards: the guards of one destination in this process, their statistics and their saved state. Only
 * core's `Admission` changes their state; this file adds one breaker per key.
 */
import {
  Admission,
  type Breaker,
  type BreakerOptions,
  type BreakerState,
  breakerState,
  budgetAllows,
  concurrencyLimit,
  createBreaker,
  type Destination,
  type Guards,
  isObject,
  quantileMs,
  type Random,
  type Rule,
  readSavedState,
  restoreBreaker,
  type SavedBreaker,
  type SavedGuards,
  saveBreaker,
  saveGuards,
  versionRule,
} from "@redrive/core";

export class KeyedGuards {
  readonly admission: Admission;
  /** The breaker of calls without a key. */
  readonly breaker: Breaker | undefined;
  /** One breaker per key: a failing shard must not stop calls to the others. */
  readonly breakers: Map<string, Breaker> = new Map();
  readonly #options: Destination;

  constructor(options: Destination, guards: Guards, random: Random) {
    this.#options = options;
    this.breaker = guards.breaker;
    this.admission = new Admission(guards, options.retryAfterGate, random.fork("guards"));
  }

  /** The guards that all calls of the destination share. */
  get shared(): Guards {
    return this.admission.guards;
  }

  /** The breaker for a key; undefined if the destination has no breaker. */
  breakerOf(key: string, now: number): Breaker | undefined {
    const known = this.breakers.get(key);
    if (known !== undefined || this.#options.breaker === undefined) return known;
    const breaker = createBreaker(this.#options.breaker, now);
    setBounded(this.breakers, key, breaker);
    return breaker;
  }
}

/** Counted since the destination was created. */
export type Counts = Record<
  "firsts" | "retries" | "hedges" | "successes" | "failures" | "refused",
  number
>;

/** The state of a destination as one plain value to log or display. */
export interface DestinationStats extends Readonly<Counts> {
  readonly destination: string;
  /** Undefined without a breaker. */
  readonly breaker: BreakerState | undefined;
  /** The breakers that are not closed, by key. */
  readonly keys: Readonly<Record<string, BreakerState>>;
  /** Whether the budget allows a retry now; undefined without a budget. */
  readonly retryBudget: boolean | undefined;
  /** Running attempts and the limit on them; undefined without a limit. */
  readonly inFlight: number | undefined;
  readonly concurrencyLimit: number | undefined;
  /** Latencies of the last 30 to 60 seconds; undefined before the first success. */
  readonly p50Ms: number | undefined;
  readonly p95Ms: number | undefined;
  readonly p99Ms: number | undefined;
}

export function statsOf(
  destination: string,
  counts: Counts,
  { shared }: KeyedGuards,
  breakers: ReadonlyMap<string, Breaker>,
  now: number,
): DestinationStats {
  const { breaker, retryBudget, concurrency, latency } = shared;
  const keys = [...breakers].map(([key, one]) => [key, breakerState(one, now)] as const);
  return {
    destination,
    ...counts,
    breaker: breaker && breakerState(breaker, now),
    keys: Object.fromEntries(keys.filter(([, state]) => state !== "CLOSED")),
    retryBudget: retryBudget && budgetAllows(retryBudget, now, false),
    inFlight: concurrency?.inFlight,
    concurrencyLimit: concurrency && concurrencyLimit(concurrency),
    p50Ms: quantileMs(latency, now, 0.5),
    p95Ms: quantileMs(latency, now, 0.95),
    p99Ms: quantileMs(latency, now, 0.99),
  };
}

// The guards as JSON and back, so that a restarted process does not overload a dependency that it knew to be
// down.

export interface SavedState {
  readonly version: 1;
  readonly guards: SavedGuards;
  /** Breakers by key. */
  readonly keys: Readonly<Record<string, SavedBreaker>>;
}

export function saveState(shared: Guards, breakers: ReadonlyMap<string, Breaker>): SavedState {
  const keys = [...breakers].map(([key, breaker]) => [key, saveBreaker(breaker)] as const);
  return { version: 1, guards: saveGuards(shared), keys: Object.fromEntries(keys) };
}

const objectRule: Rule = (value) => (isObject(value) ? undefined : "an object");

/** Checks the outer fields. Each guard checks its own part when it is restored. */
export function readState(saved: unknown): SavedState {
  const fields = { version: versionRule, guards: objectRule, keys: objectRule };
  return readSavedState<SavedState>("saved", saved, fields);
}

export function restoreKeys(
  { breakers }: KeyedGuards,
  options: BreakerOptions | undefined,
  { keys }: SavedState,
  now: number,
): void {
  if (options === undefined) return;
  for (const [key, saved] of Object.entries(keys)) {
    breakers.set(key, restoreBreaker(options, saved, now));
  }
}

/** With more keys than this, the least recently written key is deleted. */
const MAX_KEYS = 10_000;

export function setBounded<Value>(map: Map<string, Value>, key: string, value: Value): void {
  map.delete(key);
  map.set(key, value);
  const [oldest = key] = map.keys();
  if (map.size > MAX_KEYS) map.delete(oldest);
}
