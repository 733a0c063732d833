/** Claim capacity: how many permits of a destination one claim may take, due and ahead of time. */
import { concurrencyLimit, type Guards } from "@redrive/core";

export interface ClaimCapacity {
  readonly due: number;
  /** For tasks that are due in a few milliseconds. At most `due`. */
  readonly ahead: number;
}

/**
 * A node runs one suspect at a time. It is not claimed ahead of time: a crash before the request was
 * sent would dead-letter it as poison.
 */
export const ONE_SUSPECT: ClaimCapacity = { due: 1, ahead: 0 };

/**
 * A slot of a rate limit cannot be returned once a later slot was taken. So where each call has its
 * own instant, permits are taken one by one and never ahead of time.
 */
const ONE_BY_ONE: ClaimCapacity = { due: 1, ahead: 0 };

/** One commit sends at most this many requests, so it need not claim more. */
const MAX_PERMITS = 64;
/** In a shared store, a commit takes longer and costs more, so it claims more. */
const MAX_SHARED_PERMITS = 128;

export function claimCapacity(
  { guards }: { readonly guards: Guards },
  isShared = false,
): ClaimCapacity {
  const { rate, adaptiveRate, throttle } = guards;
  if (rate || adaptiveRate || throttle) return ONE_BY_ONE;
  const due = isShared ? MAX_SHARED_PERMITS : MAX_PERMITS;
  return { due, ahead: Math.min(due, aheadCapacity(guards)) };
}

/** 0 for the probe of a breaker, because the others wait for it. Half is kept for due tasks. */
function aheadCapacity({ breaker, concurrency }: Guards): number {
  if (breaker && breaker.state !== "CLOSED") return 0;
  if (concurrency === undefined) return Number.POSITIVE_INFINITY;
  return Math.max(0, Math.floor(concurrencyLimit(concurrency) / 2) - concurrency.inFlight);
}
