/**
 * Compiled policy: computes the wait after an attempt, or why there is none. `decide` computes
 * waits with the same functions, and the simulator's inner loop calls this, so the simulation matches
 * production. A property test checks that both are equal.
 */
import { ceilingMsOf } from "./backoff.ts";
import { ownDelayMsOf, usesDraws } from "./jitter.ts";
import type { Policy } from "./policy.ts";

/** `next` returns these instead of a wait. */
export const STOP_ATTEMPTS = -1;
export const STOP_BUDGET = -2;

export interface CompiledPolicy {
  readonly maxAttempts: number;

  /** False if the policy uses no random numbers. */
  readonly draws: boolean;

  /** Maximum of the policy's own wait after `attempt`, in whole ms (before PROPORTIONAL's spread). */
  ceilingMs(attempt: number, throttled?: boolean): number;

  /** The policy's own wait after `attempt`. `previousMs` is the previous wait, 0 before the first. */
  delayMs(attempt: number, previousMs: number, draw: number, throttled?: boolean): number;

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
  const { maxAttempts, totalBudgetMs, minCallMs } = policy;
  return {
    maxAttempts,
    draws: usesDraws(policy),
    ceilingMs: (attempt, throttled = false) => ceilingMsOf(policy, attempt, throttled),
    delayMs: (attempt, previousMs, draw, throttled = false) =>
      ownDelayMsOf(policy, attempt, previousMs, draw, throttled),
    next(attempt, elapsedMs, previousMs, draw, callMs = 0, throttled = false) {
      if (attempt >= maxAttempts) return STOP_ATTEMPTS;
      const waitMs = ownDelayMsOf(policy, attempt, previousMs, draw, throttled);
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
