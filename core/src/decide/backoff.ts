/**
 * Backoff: computes the *ceiling* of a wait before jitter. `jitter.ts` picks the wait below it. The
 * cap applies to the ceiling, so waits stay spread even when they have reached the cap.
 */
import type { Policy } from "./policy.ts";

/**
 * The ceiling after the failed attempt number `attempt` (1, 2, 3, ...), in whole ms. Invariant:
 * `0 <= ceiling <= maxDelayMs`, and no ceiling of a curve is lower than the previous one.
 */
export function ceilingMsOf(policy: Policy, attempt: number, throttled: boolean): number {
  const { delaysMs, backoff, multiplier, maxDelayMs } = policy;
  if (delaysMs) return delaysMs[Math.min(attempt, delaysMs.length) - 1] ?? 0;
  const firstMs = throttled ? policy.throttleDelayMs : policy.initialDelayMs;
  // 0 stays 0. Without this check, 0 times the infinity of a huge power would be NaN.
  if (firstMs === 0 || backoff === "FIXED") return firstMs;
  const growth = backoff === "LINEAR" ? attempt : power(multiplier, attempt - 1);
  return Math.floor(Math.min(maxDelayMs, firstMs * growth));
}

/**
 * `base` to an integer power by squaring: a few multiplications even for attempt 10^6. Engines may
 * round `**` differently, and a seed must give the same result everywhere.
 */
export function power(base: number, exponent: number): number {
  let result = 1;
  let square = base;
  for (let rest = exponent; rest > 0; rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) result *= square;
    square *= square;
  }
  return result;
}
