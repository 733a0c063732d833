/**
 * Rate: so many calls a second, with room for a burst. A token bucket in the form of GCRA (the
 * leaky bucket as a meter, ITU-T I.371): what is kept is not the tokens but by how much the calls
 * have run ahead of the rate.
 *
 * Invariant: in any span of t ms at most `burst + perSecond x t / 1000` calls pass.
 */
import { amountRule, instantRule, readSavedState, versionRule } from "../documents/saved-state.ts";
import { steadyAt } from "../time/steady-time.ts";

export interface RateOptions {
  /** Calls a second in the long run; 0.1 is one in ten seconds. 0.001 to 1 000 000. No default. */
  readonly perSecond: number;
  /**
   * Calls that may go at once after a rest. Whole, 1 to 1 000 000. Default: `perSecond`, at least 1.
   * Time comes in whole ms, so that a burst of 1 passes at most 1000 calls a second.
   */
  readonly burst: number;
}

export interface Rate {
  readonly options: RateOptions;
  /** When the latest call went. */
  at: number;
  /** By how many calls they were ahead of the rate then. Not whole; 0 to `burst`. */
  ahead: number;
}

/** What rounding may add up to. Without it, a call would now and then wait a whole ms for nothing. */
const ROUNDING = 1e-9;

export function createRate(options: RateOptions, now: number): Rate {
  return { options, at: now, ahead: 0 };
}

/** Lets one call go, or answers false. */
export function takeRate(rate: Rate, now: number): boolean {
  const ahead = aheadAt(rate, now);
  if (excessOf(rate, ahead) > 0) return false;
  rate.at = steadyAt(rate.at, now);
  rate.ahead = ahead + 1;
  return true;
}

/**
 * Returns the token of a call that was never sent. Time has returned a part of it already if the
 * call held it for long; returning that part twice would let a later call go too soon.
 */
export function returnRate(rate: Rate, takenAt: number, now: number): void {
  const ahead = aheadAt(rate, now);
  const passed = Math.max(0, ((now - takenAt) * rate.options.perSecond) / 1000);
  rate.at = steadyAt(rate.at, now);
  rate.ahead = Math.max(0, ahead - Math.max(0, 1 - passed));
}

/** The earliest whole ms at which a call may go: `now` if it may go at once. */
export function rateReadyAt(rate: Rate, now: number): number {
  const excess = Math.max(0, excessOf(rate, aheadAt(rate, now)));
  return now - Math.floor((-excess * 1000) / rate.options.perSecond);
}

/** By how many calls they are ahead of the rate now. A clock set back is followed. */
function aheadAt(rate: Rate, now: number): number {
  const at = steadyAt(rate.at, now);
  rate.at = Math.min(rate.at, at);
  return Math.max(0, rate.ahead - ((at - rate.at) * rate.options.perSecond) / 1000);
}

/** A burst of 1 lets a call go only when none is ahead. */
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

/** A burst that is smaller now is all that calls can be ahead by. */
export function restoreRate(options: RateOptions, value: unknown): Rate {
  const { at, ahead } = readSavedState<SavedRate>("rate", value, {
    version: versionRule,
    at: instantRule,
    ahead: amountRule,
  });
  return { options, at, ahead: Math.min(ahead, options.burst) };
}
