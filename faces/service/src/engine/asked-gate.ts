/**
 * Asked gate: until when an answer asks everybody to stay away from a destination (Retry-After).
 */
import type { Outcome } from "@redrive/core";

/** A Retry-After holds back others for at most this; then one call finds out. */
export const LONGEST_GATE_MS = 300_000;

/** 0: it does not ask. `longestMs`: a longer wait counts as this. */
export function askedGate(outcome: Outcome, now: number, longestMs: number): number {
  const { retryAfterMs } = outcome;
  const asks = outcome.kind === "status" && (outcome.status === 429 || outcome.status === 503);
  if (!asks || retryAfterMs === undefined || retryAfterMs <= 0) return 0;
  return now + Math.min(retryAfterMs, longestMs, LONGEST_GATE_MS);
}
