/**
 * Return times: when clients that a busy server refuses should come back. Each gets the next free place
 * in a timetable at the pace at which the server works. So clients that obey do not return together, and
 * the server can serve them when they do.
 */
import { steadyAt } from "../../time/steady-time.ts";

export interface ReturnTimes {
  /** The next free place. */
  nextAt: number;
  /** The latest instant seen. */
  lastSeenAt: number;
}

export interface ServerLoad {
  /** Requests that the server will serve before a client that returns. */
  readonly waiting: number;
  /** Time between two finished requests; may be fractional. */
  readonly intervalMs: number;
  /** Share of the capacity that is free for clients that return. Above 0, at most 1. */
  readonly share: number;
  /** Longest wait to ask for. */
  readonly maxWaitMs: number;
}

export function createReturnTimes(): ReturnTimes {
  return { nextAt: 0, lastSeenAt: 0 };
}

/**
 * The wait of the next refused client, in whole milliseconds from 1 to `maxWaitMs`. `draw` is uniform
 * in [0, 1). When the timetable is full, the rest is spread over the second half of the longest wait:
 * at the cap itself, all of them would return together.
 */
export function takeReturnMs(
  times: ReturnTimes,
  { waiting, intervalMs, share, maxWaitMs }: ServerLoad,
  now: number,
  draw: number,
): number {
  followClock(times, now);
  const at = Math.max(now + waiting * intervalMs, times.nextAt);
  if (at - now > maxWaitMs) return Math.ceil(maxWaitMs * (0.5 + draw / 2));
  times.nextAt = at + intervalMs / share;
  return Math.min(maxWaitMs, Math.max(1, Math.ceil(at - now)));
}

/** If the clock was set back, the timetable moves with it. */
function followClock(times: ReturnTimes, now: number): void {
  const at = steadyAt(times.lastSeenAt, now);
  if (at < times.lastSeenAt) times.nextAt -= times.lastSeenAt - at;
  times.lastSeenAt = at;
}

/** A wait as `Retry-After` gives it. Never shorter than the wait. */
export function retryAfterSeconds(waitMs: number): number {
  return Math.max(1, Math.ceil(waitMs / 1000));
}
