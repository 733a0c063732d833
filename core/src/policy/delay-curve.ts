/**
 * Curve: how long a policy waits after each attempt, compiled to arithmetic. Apart from the kernel,
 * because who only decides needs no stop codes.
 */
import { backoffOf } from "./backoff.ts";
import { jitterOf } from "./jitter.ts";
import type { Policy } from "./policy.ts";

export interface DelayCurve {
  /** False if the policy never looks at a draw. */
  readonly draws: boolean;

  /** The most the policy's own wait after `attempt` can be, in whole ms (before PROPORTIONAL's spread). */
  ceilingMs(attempt: number, throttled?: boolean): number;

  /** The policy's own wait after `attempt`. `previousMs` is 0 before the first. */
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
