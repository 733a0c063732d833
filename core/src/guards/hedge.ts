/**
 * Hedge: when a second copy of a slow call may be sent. The retry budget decides whether it may, and
 * library or simulator race the copies.
 */
import { type Latency, latencyCalls, quantileBoundMs } from "./latency.ts";

/** A fixed duration, or a quantile of the destination's own latencies such as "p95". */
export type HedgeAfter = number | `p${number}`;

export interface HedgeOptions {
  /** Wait before the copy is sent. 1 to 600 000 ms, or p50 to p99.9. Default: "p95". */
  readonly after: HedgeAfter;
  /** Additional copies. 1 to 10. Default: 1. */
  readonly max: number;
  /** Targets of the copies, in turn; by default the same target. At most 10. Default: none. */
  readonly endpoints: readonly string[];
}

export const HEDGE_DEFAULTS: HedgeOptions = { after: "p95", max: 1, endpoints: [] };

/** With fewer latencies a quantile is unreliable, and nothing is hedged. */
export const HEDGE_MIN_SAMPLES = 20;

/** The quantile of `after` ("p95" is 0.95), or undefined for a fixed duration. */
export function hedgeQuantile(after: HedgeAfter): number | undefined {
  return typeof after === "number" ? undefined : Number(after.slice(1)) / 100;
}

/** How long an attempt runs before its next copy; undefined while too few latencies are known. */
export function hedgeAfterMs(
  { after }: HedgeOptions,
  latency: Latency,
  now: number,
): number | undefined {
  const quantile = hedgeQuantile(after);
  if (quantile === undefined) return after as number;
  if (latencyCalls(latency, now) < HEDGE_MIN_SAMPLES) return undefined;
  return quantileBoundMs(latency, now, quantile);
}
