/**
 * Jitter: picks a random wait below the ceiling, which `backoff.ts` computes. All picks are uniform over
 * whole milliseconds, including both ends, so clients are spread evenly.
 */

import { ceilingMsOf } from "./backoff.ts";
import type { Policy } from "./policy.ts";

/**
 * How long a policy itself waits after `attempt`, in whole ms. A hint of the server or a guard may make the
 * wait longer. `previousMs` is the previous wait, 0 before the first.
 */
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

/**
 * Picks a wait. `draw` is in [0, 1), `firstMs` the curve's first ceiling, `previousMs` the previous
 * wait. Invariant: whole, from 0 to the ceiling; only PROPORTIONAL may reach (1 + ratio) times it.
 */
export function jitteredMs(
  { jitterType, jitterRatio, maxDelayMs = 0 }: Policy,
  ceilingMs: number,
  draw: number,
  firstMs: number,
  previousMs: number,
): number {
  const spreadMs = Math.floor(ceilingMs * jitterRatio);
  switch (jitterType) {
    case "NONE":
      return ceilingMs;
    case "FULL":
      return uniformInteger(0, ceilingMs, draw);
    case "EQUAL":
      return uniformInteger(Math.floor(ceilingMs / 2), ceilingMs, draw);
    case "PROPORTIONAL":
      return uniformInteger(ceilingMs - spreadMs, ceilingMs + spreadMs, draw);
    case "DECORRELATED": {
      // The cap limits the range, not the picked value, so waits do not accumulate at the cap.
      const topMs = Math.min(maxDelayMs, Math.max(firstMs, previousMs) * 3);
      return uniformInteger(firstMs, Math.max(firstMs, topMs), draw);
    }
  }
}

/** Uniform over the integers from `low` to `high`, including both. */
export function uniformInteger(low: number, high: number, draw: number): number {
  return Math.min(high, low + Math.floor(draw * (high - low + 1)));
}

/** False if the policy uses no random numbers. */
export function usesDraws({ jitterType }: Policy): boolean {
  return jitterType !== "NONE";
}
