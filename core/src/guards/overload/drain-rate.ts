/**
 * Drain rate: how fast a server finishes requests while it is busy. It is the mean interval between
 * two finished requests. Intervals in which the server had nothing to do are not counted: they say
 * how much is asked of the server, not how much it can do.
 */
import { steadyAt } from "../../time/steady-time.ts";

export interface DrainRate {
  /** Mean interval between finished requests. */
  intervalMs: number;
  /** Intervals behind the mean, up to the number that it follows. */
  samples: number;
  /** When the last request finished, or the first one started after an idle time. */
  lastAt: number;
  /** Whether others were waiting then. */
  wasBusy: boolean;
}

/** The mean follows about so many intervals: quick enough to notice a change within a second or two. */
const SAMPLES = 50;

/** `guessMs` is the interval to assume before the first one is measured. */
export function createDrainRate(guessMs: number, now: number): DrainRate {
  return { intervalMs: guessMs, samples: 0, lastAt: now, wasBusy: false };
}

/** A request has started, and none was in progress before: the time until now does not count. */
export function recordIdleEnd(rate: DrainRate, now: number): void {
  rate.lastAt = steadyAt(rate.lastAt, now);
}

/** A request has finished. `isBusy`: others wait, or all slots were taken. */
export function recordFinished(rate: DrainRate, now: number, isBusy: boolean): void {
  const at = steadyAt(rate.lastAt, now);
  if (rate.wasBusy && at >= rate.lastAt) {
    rate.samples = Math.min(SAMPLES, rate.samples + 1);
    rate.intervalMs += (at - rate.lastAt - rate.intervalMs) / rate.samples;
  }
  rate.lastAt = at;
  rate.wasBusy = isBusy;
}

/**
 * The interval to expect now. If nothing has finished for longer than the mean, the server is slower
 * than it was. It may be fractional.
 */
export function drainIntervalMs(rate: DrainRate, now: number): number {
  const stalledMs = rate.wasBusy ? now - rate.lastAt : 0;
  return Math.max(rate.intervalMs, stalledMs);
}
