/**
 * Delay curve: how long a policy waits after each attempt, compiled to arithmetic. It is separate
 * from the compiled policy, because `decide` needs no stop codes.
 */
import { backoffOf } from "./backoff.ts";
import { jitterOf } from "./jitter.ts";
import type { Policy } from "./policy.ts";

export interface DelayCurve {
  /** False if the policy uses no random numbers. */
  readonly draws: boolean;

  /** Maximum of the policy's own wait after `attempt`, in whole ms (before PROPORTIONAL's spread). */
  ceilingMs(attempt: number, throttled?: boolean): number;

  /** The policy's own wait after `attempt`. `previousMs` is the previous wait, 0 before the first. */
  delayMs(attempt: number, previousMs: number, draw: number, throttled?: boolean): number;
}

const curves = new WeakMap<Policy, DelayCurve>();

/** The curve of a policy, compiled once. */
export function delayCurveOf(policy: Policy): DelayCurve {
  let curve = curves.get(policy);
  if (curve === undefined) {
    const backoff = backoffOf(policy);
    const jitter = jitterOf(policy);
    curve = {
      draws: policy.jitterType !== "NONE",
      ceilingMs: (attempt, throttled = false) => backoff(attempt, throttled),
      delayMs: (attempt, previousMs, draw, throttled = false) =>
        jitter(backoff(attempt, throttled), draw, backoff(1, throttled), previousMs),
    };
    curves.set(policy, curve);
  }
  return curve;
}
