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

export interface CachedClock {
  /** Never later than the real time, and earlier by at most the duration of this turn. */
  read(): ClockReading;
  /** As `read`, for ends of attempts. They do not count as readings: only starts make a turn long. */
  peek(): ClockReading;
  monotonicMs(): number;
  now(): number;
}

/**
 * Calls `onEnd` with the monotonic time at the end of every turn in which the clock was read. This is
 * not a class, because minifiers shorten local variables best.
 */
export function createCachedClock(source: TimeSource, onEnd: (nowMs: number) => void): CachedClock {
  let reading: ClockReading = { monotonicMs: 0, epochMs: 0 };
  let readingsLeft = 0;
  let awaitsEnd = false;

  function read(): ClockReading {
    if (--readingsLeft < 0) refresh();
    return reading;
  }

  function refresh(): void {
    reading = { monotonicMs: source.monotonicMs(), epochMs: source.now() };
    readingsLeft = READINGS_PER_REFRESH;
    if (!awaitsEnd) source.endOfTurn(endTurn);
    awaitsEnd = true;
  }

  function endTurn(): void {
    awaitsEnd = false;
    readingsLeft = 0;
    onEnd(source.monotonicMs());
  }

  return {
    read,
    peek: () => (readingsLeft > 0 ? reading : read()),
    monotonicMs: () => read().monotonicMs,
    now: () => read().epochMs,
  };
}
