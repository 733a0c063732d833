/**
 * Hedge: when a second copy of a slow call may leave. Only the question of when is settled here:
 * whether it may is the retry budget's to say, and racing the copies is the face's.
 */
import { type Latency, latencyCalls, quantileMs } from "./latency.ts";

/** A fixed span, or a quantile of the destination's own latencies such as "p95". */
export type HedgeAfter = number | `p${number}`;

export interface HedgeOptions {
  /** Wait before the copy leaves. 1 to 600 000 ms, or p50 to p99.9. Default: "p95". */
  readonly after: HedgeAfter;
  /** Copies beside the first. 1 to 10. Default: 1. */
  readonly max: number;
  /** Where copies go, in turn; without any, to the same place. At most 10. Default: none. */
  readonly endpoints: readonly string[];
}

export const HEDGE_DEFAULTS: HedgeOptions = { after: "p95", max: 1, endpoints: [] };

/** Until this many latencies are known a quantile says little, and nothing is hedged. */
export const HEDGE_MIN_SAMPLES = 20;

/** The share that `after` names ("p95" is 0.95), or undefined for a fixed span. */
export function hedgeQuantile(after: HedgeAfter): number | undefined {
  return typeof after === "number" ? undefined : Number(after.slice(1)) / 100;
}

/** How long an attempt runs before its next copy may leave; undefined while too little is known. */
export function hedgeAfterMs(
  { after }: HedgeOptions,
  latency: Latency,
  now: number,
): number | undefined {
  const quantile = hedgeQuantile(after);
  if (quantile === undefined) return after as number;
  if (latencyCalls(latency, now) < HEDGE_MIN_SAMPLES) return undefined;
  return quantileMs(latency, now, quantile);
}
