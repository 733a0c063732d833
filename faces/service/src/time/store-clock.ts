/**
 * Store clock: the clock of a shared store as this node knows it: the latest reading plus the time
 * that has passed since on the monotonic clock. The store read its clock between the request and the
 * response, so the reading counts from the response: this node is late by at most one round trip,
 * and never early, also if its own clock runs a little too fast. Of the readings of the last minute,
 * the one with the best bound counts.
 */
import type { Clock } from "@redrive/core";

/** Older readings are forgotten, because the clocks of two machines drift. */
const KEPT_MS = 60_000;

/** A monotonic clock runs at most this much too fast. The kernel changes its rate by at most 500 ppm. */
export const MAX_DRIFT = 0.0005;

/** A reading that is this much earlier than expected shows that the clock was set back. */
const SET_BACK_MS = 1000;

/** Sums of epoch milliseconds are rounded to a quarter of this. */
const ROUNDING_MS = 0.001;

interface Reading {
  /** The store's clock minus the monotonic clock, at least. */
  readonly offsetMs: number;
  readonly atMs: number;
}

export class StoreClock {
  readonly #clock: Pick<Clock, "monotonicMs">;
  /** Those that are, or may become, the one with the best bound. */
  #readings: readonly Reading[];

  /** `now`: a reading whose response arrives now. */
  constructor(clock: Pick<Clock, "monotonicMs">, now: number) {
    this.#clock = clock;
    const atMs = clock.monotonicMs();
    this.#readings = [{ offsetMs: now - atMs, atMs }];
  }

  now(): number {
    const monotonicMs = this.#clock.monotonicMs();
    return this.#offsetMs(monotonicMs) + monotonicMs;
  }

  /** Records a reading whose response has just arrived. `requestMs`: when it was requested. */
  record(now: number, requestMs: number): void {
    const atMs = this.#clock.monotonicMs();
    const reading = { offsetMs: now - atMs, atMs };
    // At the request, the store's clock was not later than the reading.
    const isSetBack = now - requestMs < this.#offsetMs(atMs) - SET_BACK_MS;
    // All bounds get worse at the same rate, so a reading with a better one replaces older readings.
    const isKept = (one: Reading) =>
      atMs - one.atMs < KEPT_MS && boundOf(one, atMs) > reading.offsetMs - ROUNDING_MS;
    this.#readings = isSetBack ? [reading] : [...this.#readings.filter(isKept), reading];
  }

  #offsetMs(nowMs: number): number {
    let best = Number.NEGATIVE_INFINITY;
    for (const reading of this.#readings) best = Math.max(best, boundOf(reading, nowMs));
    return best;
  }
}

/** The store's clock minus the monotonic clock, at least, if the monotonic clock runs too fast. */
function boundOf({ offsetMs, atMs }: Reading, nowMs: number): number {
  return offsetMs - (nowMs - atMs) * MAX_DRIFT;
}
