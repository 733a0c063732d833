/**
 * Own delay: how long a policy itself waits after an attempt. A hint of the server or a guard may make
 * the wait longer.
 */
import { ceilingMsOf } from "./backoff.ts";
import { jitteredMs } from "./jitter.ts";
import type { Policy } from "./policy.ts";

/** The wait after `attempt`, in whole ms. `previousMs` is the previous wait, 0 before the first. */
export function ownDelayMsOf(
  policy: Policy,
  attempt: number,
  previousMs: number,
  draw: number,
  throttled: boolean,
): number {
  const ceilingMs = ceilingMsOf(policy, attempt, throttled);
  return jitteredMs(policy, ceilingMs, draw, ceilingMsOf(policy, 1, throttled), previousMs);
}

/** False if the policy uses no random numbers. */
export function usesDraws({ jitterType }: Policy): boolean {
  return jitterType !== "NONE";
}
