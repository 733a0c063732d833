/**
 * Waits: policies in the simulator, resolved from documents, and core's compiled policy for inner
 * loops. For every jitter but DECORRELATED, the wait after attempt n is uniform over a range of
 * integers that depends only on n, so the range is computed once per n. Where the total budget
 * could end a call, the compiled policy itself decides. A property test compares the two.
 */
import {
  type CompiledPolicy,
  compiledPolicyOf,
  type Policy,
  type PolicyDocument,
  type PresetName,
  preset,
  resolvePolicy,
  STOP_BUDGET,
} from "@redrive/core";

export function policyOf(policy: PolicyDocument | PresetName = {}): Policy {
  return resolvePolicy(typeof policy === "string" ? preset(policy) : policy);
}

export interface Waits {
  readonly compiled: CompiledPolicy;
  /** The range of the wait after attempt n; empty for DECORRELATED. */
  readonly low: Float64Array;
  readonly high: Float64Array;
  /** Up to this long after the start, no wait can exceed the total budget. */
  readonly freeMs: number;
}

/** The largest possible draw. */
const LAST_DRAW = 1 - 2 ** -53;

export function waitsOf(policy: Policy): Waits {
  const compiled = compiledPolicyOf(policy);
  const size = policy.jitterType === "DECORRELATED" ? 0 : policy.maxAttempts;
  const low = new Float64Array(size).fill(UNKNOWN);
  const high = new Float64Array(size);
  const maxMs = size > 1 ? maxWait(policy, compiled) : 0;
  return { compiled, low, high, freeMs: policy.totalBudgetMs - policy.minCallMs - maxMs };
}

/**
 * The ceilings of a curve never fall, so the last wait is the longest. In a list any wait may be.
 */
function maxWait({ delaysMs, maxAttempts }: Policy, compiled: CompiledPolicy): number {
  if (delaysMs === undefined) return compiled.delayMs(maxAttempts - 1, 0, LAST_DRAW);
  return delaysMs.reduce(
    (max, _, index) => Math.max(max, compiled.delayMs(index + 1, 0, LAST_DRAW)),
    0,
  );
}

/** The range has not been computed yet. */
const UNKNOWN = -1;

function computeRange({ compiled, low, high }: Waits, attempt: number): number {
  low[attempt] = compiled.delayMs(attempt, 0, 0);
  high[attempt] = compiled.delayMs(attempt, 0, LAST_DRAW);
  return low[attempt] as number;
}

/**
 * As `CompiledPolicy.next`: the wait after `attempt` failed `elapsedMs` after the start, or a stop
 * code.
 */
export function nextWait(
  waits: Waits,
  attempt: number,
  elapsedMs: number,
  previousMs: number,
  draw: number,
): number {
  const { compiled, low, high, freeMs } = waits;
  if (attempt >= low.length || elapsedMs > freeMs) {
    return compiled.next(attempt, elapsedMs, previousMs, draw);
  }
  const known = low[attempt] as number;
  const from = known === UNKNOWN ? computeRange(waits, attempt) : known;
  const to = high[attempt] as number;
  return Math.min(to, from + Math.floor(draw * (to - from + 1)));
}

/** The stop reason that a report shows for a stop code. */
export function stopReason(stop: number): "budget" | "attempts" {
  return stop === STOP_BUDGET ? "budget" : "attempts";
}
