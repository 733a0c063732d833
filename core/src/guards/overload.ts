/**
 * Overload: what a server needs that refuses requests when it is overloaded: how fast it finishes requests
 * and how many new ones come, when clients that it refuses should come back, and the queue of those that wait
 * for a slot.
 */
import {
  advanceWindow,
  BUCKETS_PER_WINDOW,
  type CountWindow,
  countEvent,
  createWindow,
  steadyAt,
  totalOf,
} from "./sliding-window.ts";

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

// The drain rate is how fast a server finishes requests while it is busy: the mean interval between two
// finished requests. Intervals in which the server had nothing to do are not counted: they say how much is
// asked of the server, not how much it can do.

interface DrainRate {
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

// Return times: each refused client gets the next free place in a timetable at the pace at which the server
// works. So clients that obey do not return together, and the server can serve them when they do.

interface ReturnTimes {
  /** The next free place. */
  nextAt: number;
  /** The latest instant seen. */
  lastSeenAt: number;
}

interface ServerLoad {
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

/** A request in the queue. The caller keeps it, to remove the request when its time is over. */
export interface QueuedAttempt<T> {
  readonly value: T;
  readonly isRetry: boolean;
  isWaiting: boolean;
  previous: QueuedAttempt<T> | undefined;
  next: QueuedAttempt<T> | undefined;
}

/** After this many first attempts in a row, a retry that waits is next. */
const FIRSTS_IN_A_ROW = 9;

interface Line<T> {
  first: QueuedAttempt<T> | undefined;
  last: QueuedAttempt<T> | undefined;
  size: number;
}

export class AttemptQueue<T> {
  /** A request that lost its place to a first attempt in the latest `join`. */
  displaced: T | undefined = undefined;
  readonly #max: number;
  readonly #firsts: Line<T> = { first: undefined, last: undefined, size: 0 };
  readonly #retries: Line<T> = { first: undefined, last: undefined, size: 0 };
  #firstsInARow = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#firsts.size + this.#retries.size;
  }

  /** How many requests would be served before a new one. */
  ahead(isRetry: boolean): number {
    return isRetry ? this.size : this.#firsts.size;
  }

  /** Undefined if there is no place. `displaced` is set if a retry lost its place. */
  join(value: T, isRetry: boolean): QueuedAttempt<T> | undefined {
    this.displaced = undefined;
    if (this.size >= this.#max && !this.#displace(isRetry)) return undefined;
    const line = isRetry ? this.#retries : this.#firsts;
    const { last: previous } = line;
    const entry = { value, isRetry, isWaiting: true, previous, next: undefined };
    if (previous === undefined) line.first = entry;
    else previous.next = entry;
    line.last = entry;
    line.size++;
    return entry;
  }

  /** The newest retry has waited least. */
  #displace(isRetry: boolean): boolean {
    const { last } = this.#retries;
    if (isRetry || last === undefined) return false;
    this.remove(last);
    this.displaced = last.value;
    return true;
  }

  /** The request to serve next; undefined if none waits. It stays in the queue. */
  peek(): QueuedAttempt<T> | undefined {
    const isRetryDue = this.#firstsInARow >= FIRSTS_IN_A_ROW && this.#retries.size > 0;
    return isRetryDue ? this.#retries.first : (this.#firsts.first ?? this.#retries.first);
  }

  /** Removes a request that is served now. */
  serve(entry: QueuedAttempt<T>): void {
    this.#firstsInARow = entry.isRetry || this.#retries.size === 0 ? 0 : this.#firstsInARow + 1;
    this.remove(entry);
  }

  remove(entry: QueuedAttempt<T>): void {
    if (!entry.isWaiting) return;
    entry.isWaiting = false;
    const line = entry.isRetry ? this.#retries : this.#firsts;
    const { previous, next } = entry;
    if (previous === undefined) line.first = next;
    else previous.next = next;
    if (next === undefined) line.last = previous;
    else next.previous = previous;
    line.size--;
  }
}
