/**
 * Rate: limits calls per second, with a burst. A token bucket in the form of GCRA (the leaky bucket as
 * a meter, ITU-T I.371): it stores by how many calls the traffic is ahead of the rate, not the tokens.
 *
 * Invariant: in any t ms at most `burst + perSecond x t / 1000` calls pass.
 */
import { amountRule, instantRule, readSavedState, versionRule } from "../documents/saved-state.ts";
import { steadyAt } from "../time/steady-time.ts";

export interface RateOptions {
  /** Calls per second in the long run; 0.1 is one in ten seconds. 0.001 to 1 000 000. No default. */
  readonly perSecond: number;
  /**
   * Calls that may start at once after an idle time. Integer, 1 to 1 000 000. Default: `perSecond`, at
   * least 1. Time is in whole ms, so a burst of 1 allows at most 1000 calls per second.
   */
  readonly burst: number;
}

export interface Rate {
  readonly options: RateOptions;
  /** When the latest call started. */
  at: number;
  /** By how many calls the traffic was ahead of the rate then. Fractional; 0 to `burst`. */
  ahead: number;
}

/** Upper limit of the rounding error. Without it, a call would sometimes wait 1 ms for nothing. */
const ROUNDING = 1e-9;

export function createRate(options: RateOptions, now: number): Rate {
  return { options, at: now, ahead: 0 };
}

/** Takes a token for one call, or returns false. */
export function takeRate(rate: Rate, now: number): boolean {
  const ahead = aheadAt(rate, now);
  if (excessOf(rate, ahead) > 0) return false;
  rate.at = steadyAt(rate.at, now);
  rate.ahead = ahead + 1;
  return true;
}

/**
 * Returns the token of a call that was never sent. If the call held it for long, time has already
 * refilled a part of it; returning that part twice would let a later call start too soon.
 */
export function returnRate(rate: Rate, takenAt: number, now: number): void {
  const ahead = aheadAt(rate, now);
  const passed = Math.max(0, ((now - takenAt) * rate.options.perSecond) / 1000);
  rate.at = steadyAt(rate.at, now);
  rate.ahead = Math.max(0, ahead - Math.max(0, 1 - passed));
}

/** The earliest whole ms at which a call may start; `now` if it may start at once. */
export function rateReadyAt(rate: Rate, now: number): number {
  const excess = Math.max(0, excessOf(rate, aheadAt(rate, now)));
  return now - Math.floor((-excess * 1000) / rate.options.perSecond);
}

/** By how many calls the traffic is ahead of the rate now. A clock set back is followed. */
function aheadAt(rate: Rate, now: number): number {
  const at = steadyAt(rate.at, now);
  rate.at = Math.min(rate.at, at);
  return Math.max(0, rate.ahead - ((at - rate.at) * rate.options.perSecond) / 1000);
}

/** With a burst of 1, a call may start only if the traffic is not ahead. */
function excessOf({ options }: Rate, ahead: number): number {
  return ahead - (options.burst - 1) - ROUNDING;
}

export interface SavedRate {
  readonly version: 1;
  readonly at: number;
  readonly ahead: number;
}

export function saveRate({ at, ahead }: Rate): SavedRate {
  return { version: 1, at, ahead };
}

/** If the burst is smaller now, the traffic is ahead by at most the new burst. */
export function restoreRate(options: RateOptions, value: unknown): Rate {
  const { at, ahead } = readSavedState<SavedRate>("rate", value, {
    version: versionRule,
    at: instantRule,
    ahead: amountRule,
  });
  return { options, at, ahead: Math.min(ahead, options.burst) };
}
