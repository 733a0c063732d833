/** Claim room: how many permits of a destination one claim may take, for what is due and ahead of it. */
import { concurrencyLimit, type Guards } from "@redrive/core";

export interface ClaimCapacity {
  readonly due: number;
  /** A few milliseconds before their tasks are due. At most `due`. */
  readonly ahead: number;
}

/** What must run alone is claimed alone, and when it is due: the others wait for it. */
export const ALONE: ClaimCapacity = { due: 1, ahead: 0 };

/**
 * A place in a rate cannot be given back once a later one was taken, so where each call has its
 * instant they are asked for one by one, and none ahead.
 */
const ONE_BY_ONE: ClaimCapacity = { due: 1, ahead: 0 };

/** More than leave in one turn need not be claimed in it. */
const MAX_PERMITS = 64;

export function claimCapacity(guards: Guards): ClaimCapacity {
  const { rate, adaptiveRate, throttle } = guards;
  if (rate || adaptiveRate || throttle) return ONE_BY_ONE;
  return { due: MAX_PERMITS, ahead: Math.min(MAX_PERMITS, placesAhead(guards)) };
}

/** None for the probe of a breaker, which the others wait for; half are kept for what is due. */
function placesAhead({ breaker, concurrency }: Guards): number {
  if (breaker && breaker.state !== "CLOSED") return 0;
  if (concurrency === undefined) return MAX_PERMITS;
  return Math.max(0, Math.floor(concurrencyLimit(concurrency) / 2) - concurrency.inFlight);
}
