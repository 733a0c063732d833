/**
 * Backoff: how long a retry may wait, before chance has its say. It gives the *ceiling* of a wait;
 * `jitter.ts` picks the wait below it. Capping first and drawing after keeps calls spread even
 * once they have reached the cap.
 */
import type { Policy } from "./policy.ts";

/** Maps the attempt that failed (1, 2, 3, ...) to a ceiling in whole ms. */
export type Backoff = (attempt: number, throttled: boolean) => number;

/** Invariant: `0 <= ceiling <= maxDelayMs`, whole, and no ceiling is below the one before it. */
export function backoffOf(policy: Policy): Backoff {
  if (policy.delaysMs) {
    const { delaysMs } = policy;
    return (attempt) => delaysMs[Math.min(attempt, delaysMs.length) - 1] ?? 0;
  }
  const { backoff, initialDelayMs, throttleDelayMs, multiplier, maxDelayMs } = policy;
  return (attempt, throttled) => {
    const firstMs = throttled ? throttleDelayMs : initialDelayMs;
    // Zero grows to nothing; it must not meet the infinity of a huge power.
    if (firstMs === 0 || backoff === "FIXED") return firstMs;
    const growth = backoff === "LINEAR" ? attempt : power(multiplier, attempt - 1);
    return Math.floor(Math.min(maxDelayMs, firstMs * growth));
  };
}

/**
 * `base` to a whole power by squaring: a handful of products even for attempt 10^6. By hand,
 * because engines may round `**` differently, and a seed must replay alike everywhere.
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
