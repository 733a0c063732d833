/**
 * Server pace: what a server knows about its own load: how fast it finishes requests, how many new ones
 * come, and when clients that it refuses should come back.
 */
import {
  advanceWindow,
  BUCKETS_PER_WINDOW,
  type CountWindow,
  countEvent,
  createWindow,
  totalOf,
} from "../sliding-window.ts";
import {
  createDrainRate,
  type DrainRate,
  drainIntervalMs,
  recordFinished,
  recordIdleEnd,
} from "./drain-rate.ts";
import { createReturnTimes, type ReturnTimes, takeReturnMs } from "./return-times.ts";

/** How long first attempts are counted. A burst is over sooner; a lasting overload is not. */
const ARRIVALS_MS = 10_000;

/** Clients that return get at least this share of the capacity, so that their turn comes. */
const MIN_RETURN_SHARE = 0.2;

export class ServerPace {
  readonly #drain: DrainRate;
  readonly #arrivals: CountWindow;
  readonly #returns: ReturnTimes = createReturnTimes();

  /** `guessMs`: the time between two finished requests, until it is measured. */
  constructor(guessMs: number, now: number) {
    this.#drain = createDrainRate(guessMs, now);
    const shape = { windowMs: ARRIVALS_MS, slots: BUCKETS_PER_WINDOW, kinds: 1 };
    this.#arrivals = createWindow(shape, now);
  }

  /** A first attempt has arrived. */
  countFirstAttempt(now: number): void {
    advanceWindow(this.#arrivals, now);
    countEvent(this.#arrivals, 0);
  }

  /** A request has started, and none was in progress before. */
  recordIdleEnd(now: number): void {
    recordIdleEnd(this.#drain, now);
  }

  /** A request has finished. `isBusy`: others wait, or all slots were taken. */
  recordFinished(now: number, isBusy: boolean): void {
    recordFinished(this.#drain, now, isBusy);
  }

  /** Time between two finished requests while the server is busy; may be fractional. */
  intervalMs(now: number): number {
    return drainIntervalMs(this.#drain, now);
  }

  /**
   * How long a refused client should wait; 1 to `maxWaitMs`. `waiting`: requests that are served before
   * it. First attempts need a part of the capacity; clients that return get the rest.
   */
  returnMs(waiting: number, maxWaitMs: number, now: number, draw: number): number {
    const intervalMs = this.intervalMs(now);
    advanceWindow(this.#arrivals, now);
    const firstsPerMs = totalOf(this.#arrivals, 0) / ARRIVALS_MS;
    const share = Math.max(MIN_RETURN_SHARE, 1 - firstsPerMs * intervalMs);
    return takeReturnMs(this.#returns, { waiting, intervalMs, share, maxWaitMs }, now, draw);
  }
}
