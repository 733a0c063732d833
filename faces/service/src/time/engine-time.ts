/**
 * Engine time: an anchor plus the time that has passed on the monotonic clock. It never goes backwards
 * and is never set ahead of its reference: the clock of a shared store, or the wall clock. A new anchor
 * every ten seconds compares it with the reference (`docs/decisions/0022`):
 * - Behind by more than a second, because the machine slept or the clock was set: after `confirmMs`,
 *   engine time follows by at most an hour per anchor. Eight hours take about 90 seconds.
 * - Ahead by more than a second: engine time runs one percent slower.
 * - Further away than the limits: the reference is refused, and the monotonic clock alone counts.
 */
import { type Clock, formatDuration } from "@redrive/core";
import { serviceError } from "../model/errors.ts";

/** How often a new anchor is taken. A wait is never longer than this without reading the time again. */
const ANCHOR_INTERVAL_MS = 10_000;

/** Rounding can delay engine time by at most this much. A larger delay is drift. */
const MAX_TRAIL_MS = 2;

/** A reading of the reference may be this old: a call to the store takes at most 5 s. */
const MAX_READING_DELAY_MS = 5000;

/** A larger difference is a step of the wall clock; a smaller one is drift, which is followed. */
const MAX_DRIFT_MS = 1000;

/** Each step gives a rate limit at most one burst, so steps are few and not many. */
const MAX_STEP_MS = 3_600_000;

/** The rate while engine time is ahead: a delay of a minute takes less than a second longer. */
const SLOW_RATE = 0.99;

const HOUR_MS = 3_600_000;

interface EngineTimeOptions {
  /**
   * The clock of a shared store. Engine time is never ahead of it: between two readings it runs slower
   * by `MAX_DRIFT`, in case the machine's own clock runs too fast. Default: the wall clock.
   */
  readonly reference?: Pick<Clock, "now"> | undefined;
  /** A wall clock that is further ahead is refused. Default: 7 days. */
  readonly maxClockStepMs?: number | undefined;
  /** A wall clock that is further behind is refused. Default: 1 hour. */
  readonly maxClockAheadMs?: number | undefined;
  /** How long the wall clock must be ahead before it is followed. Default: 10 seconds. */
  readonly confirmMs?: number | undefined;
}

const MAX_CLOCK_STEP_MS: number = 7 * 24 * HOUR_MS;
export const MAX_CLOCK_AHEAD_MS: number = HOUR_MS;

/** How engine time relates to its reference. `following`: behind it. `ahead`: runs slower. */
export type ClockState = "synced" | "following" | "ahead" | "refused";

export interface ClockStatus {
  readonly state: ClockState;
  /** How far the reference is ahead of engine time; negative: behind. */
  readonly skewMs: number;
}

export class EngineTime {
  readonly #clock: Clock;
  readonly #reference: Pick<Clock, "now">;
  readonly #maxClockStepMs: number;
  readonly #maxClockAheadMs: number;
  readonly #confirmMs: number;
  readonly #normalRate: number;
  #anchorAt: number;
  #anchorMs: number;
  #rate: number;
  #state: ClockState = "synced";
  /** Since when the wall clock is ahead, on the monotonic clock; undefined: it is not. */
  #behindSinceMs: number | undefined;

  /** `latestAt`: the latest stored instant. Engine time never starts before it. */
  constructor(clock: Clock, latestAt: number, options: EngineTimeOptions = {}) {
    this.#clock = clock;
    this.#reference = options.reference ?? clock;
    this.#normalRate = options.reference === undefined ? 1 : 1 - MAX_DRIFT;
    this.#rate = this.#normalRate;
    this.#maxClockStepMs = options.maxClockStepMs ?? MAX_CLOCK_STEP_MS;
    this.#maxClockAheadMs = options.maxClockAheadMs ?? MAX_CLOCK_AHEAD_MS;
    this.#confirmMs = Math.max(ANCHOR_INTERVAL_MS, options.confirmMs ?? 0);
    this.#anchorAt = Math.max(Math.floor(this.#reference.now()), latestAt);
    this.#anchorMs = clock.monotonicMs();
    this.#renewAnchor(this.#anchorAt, this.#anchorMs);
  }

  /** Whole epoch ms. */
  now(): number {
    const monotonicMs = this.#clock.monotonicMs();
    const elapsedMs = monotonicMs - this.#anchorMs;
    const now = this.#anchorAt + Math.floor(elapsedMs * this.#rate);
    if (elapsedMs >= ANCHOR_INTERVAL_MS) this.#renewAnchor(now, monotonicMs);
    return now;
  }

  /**
   * How long to wait before checking whether that instant has come, not rounded; 0 if it has. At most
   * ten seconds, because engine time may follow the wall clock meanwhile.
   */
  msUntil(at: number): number {
    // A clock rounds to whole milliseconds, so the anchor may be up to one millisecond late.
    this.#catchUp(MAX_TRAIL_MS);
    const elapsedMs = this.#clock.monotonicMs() - this.#anchorMs;
    const waitMs = (at - this.#anchorAt) / this.#rate - elapsedMs;
    return Math.max(0, Math.min(waitMs, ANCHOR_INTERVAL_MS));
  }

  /** The clock of a shared store, as far as this node knows, or the wall clock. */
  referenceNow(): number {
    return Math.floor(this.#reference.now());
  }

  /** Read now; the state is that of the last anchor. */
  status(): ClockStatus {
    const skewMs = Math.floor(this.#reference.now()) - this.now();
    return { state: this.#state, skewMs };
  }

  /**
   * The reference was read again, with a shorter round trip than before: a delay that such trips
   * explain ends at once.
   */
  followReading(): void {
    this.#catchUp(MAX_READING_DELAY_MS);
  }

  /** Engine time catches up with its reference at once if it is behind by at most `maxMs`. */
  #catchUp(maxMs: number): void {
    const now = this.now();
    const behindMs = Math.floor(this.#reference.now()) - now;
    if (behindMs <= 0 || behindMs > maxMs) return;
    this.#anchorMs = this.#clock.monotonicMs();
    this.#anchorAt = now + behindMs;
  }

  #renewAnchor(now: number, monotonicMs: number): void {
    const skewMs = Math.floor(this.#reference.now()) - now;
    this.#state = this.#stateAt(skewMs);
    this.#rate = this.#state === "ahead" ? SLOW_RATE : this.#normalRate;
    this.#anchorMs = monotonicMs;
    this.#anchorAt = now + this.#stepMs(skewMs, monotonicMs);
  }

  #stateAt(skewMs: number): ClockState {
    if (skewMs > this.#maxClockStepMs || -skewMs > this.#maxClockAheadMs) return "refused";
    if (Math.abs(skewMs) <= MAX_DRIFT_MS) return "synced";
    return skewMs > 0 ? "following" : "ahead";
  }

  /** How far the new anchor is set forward. */
  #stepMs(skewMs: number, monotonicMs: number): number {
    if (this.#state !== "following") {
      this.#behindSinceMs = undefined;
      return this.#state === "synced" ? Math.max(0, skewMs) : 0;
    }
    this.#behindSinceMs ??= monotonicMs;
    const isConfirmed = monotonicMs - this.#behindSinceMs >= this.#confirmMs;
    return isConfirmed ? Math.min(skewMs, MAX_STEP_MS) : 0;
  }
}

// Store clock: the clock of a shared store as this node knows it: the latest reading plus the time
// that has passed since on the monotonic clock. The store read its clock between the request and
// the response, so the reading counts from the response: this node is late by at most one round
// trip, and never early, also if its own clock runs a little too fast. Of the readings of the last
// minute, the one with the best bound counts.

/** Older readings are forgotten, because the clocks of two machines drift. */
const KEPT_MS = 60_000;

/** A monotonic clock runs at most this much too fast. The kernel changes its rate by at most 500 ppm. */
const MAX_DRIFT = 0.0005;

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

// Assert clock: refuses to start on a store whose instants are far ahead of the wall clock.

/**
 * Throws `CLOCK_BEHIND`. Engine time never goes backwards, so the service would send tasks early by
 * this difference from then on.
 */
export function assertClock(
  now: number,
  latestAt: number,
  maxAheadMs: number = MAX_CLOCK_AHEAD_MS,
): void {
  const aheadMs = latestAt - now;
  if (aheadMs <= maxAheadMs) return;
  const found = `the latest instant in the store is ${formatDuration(aheadMs)} ahead of this machine's clock`;
  const fix =
    "set the clock if it is wrong; if it is right, stop the service and run `redrive doctor --repair-clock --store sqlite:PATH`";
  throw serviceError("CLOCK_BEHIND", `${found}: ${fix}`);
}
