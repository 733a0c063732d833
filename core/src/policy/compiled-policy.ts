/**
 * Compiled policy: computes the wait after an attempt, or why there is none. `decide` uses the same
 * delay curve, and the simulator's inner loop calls this, so the simulation matches production. A
 * property test checks that both are equal.
 */
import { type DelayCurve, delayCurveOf } from "./delay-curve.ts";
import type { Policy } from "./policy.ts";

/** `next` returns these instead of a wait. */
export const STOP_ATTEMPTS = -1;
export const STOP_BUDGET = -2;

export interface CompiledPolicy extends DelayCurve {
  readonly maxAttempts: number;

  /** The wait after `attempt` failed `elapsedMs` after the start, or a stop code (negative). */
  next(
    attempt: number,
    elapsedMs: number,
    previousMs: number,
    draw: number,
    callMs?: number,
    throttled?: boolean,
  ): number;
}

/** Compiles a policy. This creates a few closures, so keep the result. */
export function compilePolicy(policy: Policy): CompiledPolicy {
  const { draws, ceilingMs, delayMs } = delayCurveOf(policy);
  const { maxAttempts, totalBudgetMs, minCallMs } = policy;
  return {
    maxAttempts,
    draws,
    ceilingMs,
    delayMs,
    next(attempt, elapsedMs, previousMs, draw, callMs = 0, throttled = false) {
      if (attempt >= maxAttempts) return STOP_ATTEMPTS;
      const waitMs = delayMs(attempt, previousMs, draw, throttled);
      const endMs = elapsedMs + waitMs + Math.max(callMs, minCallMs);
      return endMs > totalBudgetMs ? STOP_BUDGET : waitMs;
    },
  };
}

const compiledPolicies = new WeakMap<Policy, CompiledPolicy>();

/** The compiled form of a policy, made once. */
export function compiledPolicyOf(policy: Policy): CompiledPolicy {
  let compiled = compiledPolicies.get(policy);
  if (compiled === undefined) {
    compiled = compilePolicy(policy);
    compiledPolicies.set(policy, compiled);
  }
  return compiled;
}
