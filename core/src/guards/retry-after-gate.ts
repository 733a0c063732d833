/**
 * Retry-After gate: one Retry-After holds every call of a destination, not only the call that
 * received it. The other calls are held for at most `maxGateMs`; then one call finds out.
 */
import type { Outcome } from "../decide/outcome.ts";
import type { Policy } from "../policy/policy.ts";

export interface GateOptions {
  /** No response holds other calls for longer. 1 to 86 400 000 ms. Default: 300 000. */
  readonly maxGateMs: number;
}

export const GATE_DEFAULTS: GateOptions = { maxGateMs: 300_000 };

/** Until when a response holds every call of its destination; 0: it does not. */
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
