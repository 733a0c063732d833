/**
 * Kernel: a policy compiled to arithmetic. `decide` wraps it and the simulator's inner loop calls
 * it, so that what is simulated is what runs; a property test holds the two equal.
 */
import { backoffOf } from "./backoff.ts";
import { jitterOf } from "./jitter.ts";
import type { Policy } from "./policy.ts";

/** `next` answers these instead of a wait. */
export const STOP_ATTEMPTS = -1;
export const STOP_BUDGET = -2;

export interface Kernel {
  readonly maxAttempts: number;
  /** False if the policy never looks at a draw. */
  readonly draws: boolean;

  /** The most the policy's own wait after `attempt` can be, in whole ms (before PROPORTIONAL's spread). */
  ceilingMs(attempt: number, throttled?: boolean): number;

  /** The policy's own wait after `attempt`. `previousMs` is 0 before the first. */
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

/** Compiles a policy. Costs a few closures: keep the result. */
export function compile(policy: Policy): Kernel {
  const backoff = backoffOf(policy);
  const jitter = jitterOf(policy);
  const { maxAttempts, totalBudgetMs, minCallMs } = policy;

  function delayMs(attempt: number, previousMs: number, draw: number, throttled = false): number {
    return jitter(backoff(attempt, throttled), draw, backoff(1, throttled), previousMs);
  }

  return {
    maxAttempts,
    draws: policy.jitterType !== "NONE",
    ceilingMs: (attempt, throttled = false) => backoff(attempt, throttled),
    delayMs,
    next(attempt, elapsedMs, previousMs, draw, callMs = 0, throttled = false) {
      if (attempt >= maxAttempts) return STOP_ATTEMPTS;
      const waitMs = delayMs(attempt, previousMs, draw, throttled);
      const endMs = elapsedMs + waitMs + Math.max(callMs, minCallMs);
      return endMs > totalBudgetMs ? STOP_BUDGET : waitMs;
    },
  };
}

const kernels = new WeakMap<Policy, Kernel>();

/** The kernel of a policy, compiled once. */
export function kernelOf(policy: Policy): Kernel {
  let kernel = kernels.get(policy);
  if (kernel === undefined) {
    kernel = compile(policy);
    kernels.set(policy, kernel);
  }
  return kernel;
}
