/**
 * Stats: how a destination is doing, as one plain value to log or show.
 */
import {
  type BreakerState,
  breakerState,
  budgetAllows,
  concurrencyLimit,
  quantileMs,
} from "@redrive/core";
import type { Gatekeeper } from "./gatekeeper.ts";
import type { Counted } from "./host.ts";

/** Since the destination was made. */
export type Counts = Record<Counted, number>;

export interface DestinationStats extends Readonly<Counts> {
  readonly destination: string;
  /** Undefined without a breaker. */
  readonly breaker: BreakerState | undefined;
  /** The breakers that are not closed, by key. */
  readonly keys: Readonly<Record<string, BreakerState>>;
  /** Whether a retry would be let through now; undefined without a budget. */
  readonly retryBudget: boolean | undefined;
  /** Attempts under way and the limit on them; undefined without a limit. */
  readonly inFlight: number | undefined;
  readonly concurrencyLimit: number | undefined;
  /** Of the last half minute to minute; undefined before the first success. */
  readonly p50Ms: number | undefined;
  readonly p95Ms: number | undefined;
  readonly p99Ms: number | undefined;
}

export function statsOf(
  destination: string,
  counts: Counts,
  { guards, breakers }: Gatekeeper,
  now: number,
): DestinationStats {
  const { breaker, retryBudget, concurrency, latency } = guards;
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
