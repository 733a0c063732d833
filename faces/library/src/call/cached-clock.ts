/**
 * Cached clock: the time as of the current event-loop turn. A clock reading costs as much as the rest
 * of a successful call, so the clock is read once per turn (as libuv and Redis do). In a long turn it
 * is read again after a number of readings.
 */
import type { TimeSource } from "@redrive/core";

/** Time advances even in a turn that never ends, such as a loop over promises. */
const READINGS_PER_REFRESH = 64;

/** One reading of the clock. Events between two readings have the same time. */
export interface ClockReading {
  readonly monotonicMs: number;
  /** Whole milliseconds. */
  readonly epochMs: number;
}

export class CachedClock {
  readonly #source: TimeSource;
  readonly #onEnd: (nowMs: number) => void;
  #reading: ClockReading = { monotonicMs: 0, epochMs: 0 };
  #readingsLeft = 0;
  #awaitsEnd = false;

  /** Calls `onEnd` with the monotonic time at the end of every turn in which the clock was read. */
  constructor(source: TimeSource, onEnd: (nowMs: number) => void) {
    this.#source = source;
    this.#onEnd = onEnd;
  }

  /** Never later than the real time, and earlier by at most the duration of this turn. */
  read(): ClockReading {
    if (--this.#readingsLeft < 0) this.#refresh();
    return this.#reading;
  }

  /** As `read`, for ends of attempts. They do not count as readings: only starts make a turn long. */
  peek(): ClockReading {
    return this.#readingsLeft > 0 ? this.#reading : this.read();
  }

  monotonicMs(): number {
    return this.read().monotonicMs;
  }

  now(): number {
    return this.read().epochMs;
  }

  #refresh(): void {
    this.#reading = { monotonicMs: this.#source.monotonicMs(), epochMs: this.#source.now() };
    this.#readingsLeft = READINGS_PER_REFRESH;
    if (this.#awaitsEnd) return;
    this.#awaitsEnd = true;
    this.#source.endOfTurn(() => {
      this.#awaitsEnd = false;
      this.#readingsLeft = 0;
      this.#onEnd(this.#source.monotonicMs());
    });
  }
}
