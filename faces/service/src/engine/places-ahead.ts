/**
 * Places ahead: how many tasks of a destination may be claimed a few milliseconds before they are due.
 */
import { concurrencyLimit, type Guards } from "@redrive/core";

/**
 * At most `most`. None where each call has its instant (`most` is 1), nor for the probe of a breaker,
 * which the others wait for; and half of the places are kept for what is due.
 */
export function placesAhead({ breaker, concurrency }: Guards, most: number): number {
  if (most === 1 || (breaker && breaker.state !== "CLOSED")) return 0;
  if (concurrency === undefined) return most;
  const free = Math.floor(concurrencyLimit(concurrency) / 2) - concurrency.inFlight;
  return Math.max(0, Math.min(most, free));
}
