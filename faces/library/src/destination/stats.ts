/**
 * Stats: the state of a destination as one plain value to log or display.
 */
import {
  type BreakerState,
  breakerState,
  budgetAllows,
  concurrencyLimit,
  quantileMs,
} from "@redrive/core";
import type { KeyedGuards } from "./keyed-guards.ts";

/** Counted since the destination was created. */
export type Counts = Record<
  "firsts" | "retries" | "hedges" | "successes" | "failures" | "refused",
  number
>;

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
  { shared, breakers }: KeyedGuards,
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
