/**
 * Retry-After gate: one Retry-After holds every call of a destination, not only the call that received
 * it. The other calls are held for at most `maxGateMs`; then one call is sent first.
 */
import type { Outcome } from "../decide/outcome.ts";
import type { Policy } from "../policy/policy.ts";

export interface GateOptions {
  /** Maximum time that one response holds other calls. 1 to 86 400 000 ms. Default: 300 000. */
  readonly maxGateMs: number;
}

export const GATE_DEFAULTS: GateOptions = { maxGateMs: 300_000 };

/** Until when a response holds every call of its destination; 0 if it does not. */
export function gateUntil(
  { maxGateMs }: GateOptions,
  { respectRetryAfter, maxRetryAfterMs }: Policy,
  outcome: Outcome,
  now: number,
): number {
  const { retryAfterMs } = outcome;
  const isAsked = outcome.kind === "status" && (outcome.status === 429 || outcome.status === 503);
  if (!respectRetryAfter || !isAsked || retryAfterMs === undefined || retryAfterMs <= 0) return 0;
  return now + Math.min(retryAfterMs, maxRetryAfterMs, maxGateMs);
}
