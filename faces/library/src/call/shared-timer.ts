/**
 * Shared timer: enforces the timeouts of all attempts without a timer per attempt. Attempts that
 * outlive the event-loop turn in which they started go into lists by the size of their timeout. One
 * coarse alarm per list checks its entries. A timeout starts at the end of that turn, so no attempt
 * ends early, and none ends later than by the turn and a sixteenth of its timeout.
 */
import type { Cancel, TimeSource } from "@redrive/core";

// The cached clock has the time as of the current event-loop turn. A clock reading costs as much as the rest
// of a successful call, so the clock is read once per turn (as libuv and Redis do). In a long turn it is read
// again after a number of readings.

/** Time advances even in a turn that never ends, such as a loop over promises. */
const READINGS_PER_REFRESH = 64;

/** One reading of the clock. Events between two readings have the same time. */
export interface ClockReading {
  readonly monotonicMs: number;
  /** Whole milliseconds. */
  readonly epochMs: number;
}

interface CachedClock {
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

/** Something that may time out. */
export interface TimeoutEntry {
  readonly timeoutMs: number;
  expire(): void;
  /** Set by the timer at the end of the turn: when the entry expires (monotonic), and its list. */
  expiresMs: number | undefined;
  list: TimeoutList | undefined;
  /** Its index in its list, or among the entries of this turn. */
  index: number;
}

/** Entries with timeouts of 2^n to 2^(n+1) ms, checked every 2^n / 16 ms. */
export interface TimeoutList {
  readonly intervalMs: number;
  readonly entries: TimeoutEntry[];
  cancel: Cancel | undefined;
}

export interface SharedTimer {
  readonly clock: CachedClock;
  /** The caller has read `clock` in this turn, so the end of the turn is awaited. */
  add(entry: TimeoutEntry): void;
  remove(entry: TimeoutEntry): void;
}

export function createSharedTimer(source: TimeSource): SharedTimer {
  const lists: (TimeoutList | undefined)[] = [];
  /** Entries added in this turn; the first `recentCount` count. Most end within their turn. */
  let recent: TimeoutEntry[] = [];
  let recentCount = 0;

  function add(entry: TimeoutEntry): void {
    entry.index = recentCount;
    recent[recentCount++] = entry;
  }

  function remove(entry: TimeoutEntry): void {
    const { list } = entry;
    if (list === undefined) replaceBy(recent, entry, recent[--recentCount]);
    else if (replaceBy(list.entries, entry, list.entries.pop()) === 0) {
      list.cancel?.();
      list.cancel = undefined;
    }
  }

  /** Starts the timeouts of attempts that outlive their turn. They keep the process alive. */
  function startTimeouts(nowMs: number): void {
    for (const entry of recent.slice(0, recentCount)) {
      const list = listFor(entry.timeoutMs);
      entry.expiresMs = nowMs + entry.timeoutMs;
      entry.list = list;
      entry.index = list.entries.push(entry) - 1;
      arm(list);
    }
    recentCount = 0;
    recent = [];
  }

  function listFor(timeoutMs: number): TimeoutList {
    const size = 31 - Math.clz32(timeoutMs);
    const intervalMs = Math.max(1, 2 ** size / 16);
    lists[size] ??= { intervalMs, entries: [], cancel: undefined };
    return lists[size];
  }

  function arm(list: TimeoutList): void {
    list.cancel ??= source.alarm(list.intervalMs, () => expireDue(list));
  }

  /** Goes from last to first, because an entry that expires is removed and may remove others. */
  function expireDue(list: TimeoutList): void {
    list.cancel = undefined;
    const nowMs = source.monotonicMs();
    for (let index = list.entries.length - 1; index >= 0; index--) {
      const entry = list.entries[index];
      if (entry?.expiresMs !== undefined && nowMs >= entry.expiresMs) entry.expire();
    }
    if (list.entries.length > 0) arm(list);
  }

  return { clock: createCachedClock(source, startTimeouts), add, remove };
}

/** Puts the last entry in place of a removed one. Returns the length of the list. */
function replaceBy(
  entries: TimeoutEntry[],
  { index }: TimeoutEntry,
  last: TimeoutEntry | undefined,
): number {
  if (last !== undefined && last.index !== index) {
    entries[index] = last;
    last.index = index;
  }
  return entries.length;
}

const timers = new WeakMap<TimeSource, SharedTimer>();

/** The timer that all calls on one clock share. */
export function sharedTimerOf(source: TimeSource): SharedTimer {
  const timer = timers.get(source) ?? createSharedTimer(source);
  timers.set(source, timer);
  return timer;
}
