/**
 * Shared timer: enforces the timeouts of all attempts without a timer per attempt. Attempts that
 * outlive the event-loop turn in which they started go into lists by the size of their timeout. One
 * coarse alarm per list checks its entries. A timeout starts at the end of that turn, so no attempt
 * ends early, and none ends later than by the turn and a sixteenth of its timeout.
 */
import type { Cancel, TimeSource } from "@redrive/core";
import { CachedClock } from "./cached-clock.ts";

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

export class SharedTimer {
  readonly clock: CachedClock;
  readonly #source: TimeSource;
  /** Entries added in this turn; the first `#recentCount` count. Most end within their turn. */
  #recent: TimeoutEntry[] = [];
  #recentCount = 0;
  readonly #lists: (TimeoutList | undefined)[] = [];

  constructor(source: TimeSource) {
    this.#source = source;
    this.clock = new CachedClock(source, (nowMs) => this.#startTimeouts(nowMs));
  }

  /** The caller has read `clock` in this turn, so the end of the turn is awaited. */
  add(entry: TimeoutEntry): void {
    entry.index = this.#recentCount;
    this.#recent[this.#recentCount++] = entry;
  }

  remove(entry: TimeoutEntry): void {
    const { list } = entry;
    if (list === undefined) replaceBy(this.#recent, entry, this.#recent[--this.#recentCount]);
    else if (replaceBy(list.entries, entry, list.entries.pop()) === 0) {
      list.cancel?.();
      list.cancel = undefined;
    }
  }

  #listFor(timeoutMs: number): TimeoutList {
    const size = 31 - Math.clz32(timeoutMs);
    const intervalMs = Math.max(1, 2 ** size / 16);
    const list = this.#lists[size] ?? { intervalMs, entries: [], cancel: undefined };
    this.#lists[size] = list;
    return list;
  }

  #arm(list: TimeoutList): void {
    list.cancel ??= this.#source.alarm(list.intervalMs, () => this.#expireDue(list));
  }

  /** Goes from last to first, because an entry that expires is removed and may remove others. */
  #expireDue(list: TimeoutList): void {
    list.cancel = undefined;
    const nowMs = this.#source.monotonicMs();
    for (let index = list.entries.length - 1; index >= 0; index--) {
      const entry = list.entries[index];
      if (entry?.expiresMs !== undefined && nowMs >= entry.expiresMs) entry.expire();
    }
    if (list.entries.length > 0) this.#arm(list);
  }

  /** Starts the timeouts of attempts that outlive their turn. They keep the process alive. */
  #startTimeouts(nowMs: number): void {
    for (const entry of this.#recent.slice(0, this.#recentCount)) {
      const list = this.#listFor(entry.timeoutMs);
      entry.expiresMs = nowMs + entry.timeoutMs;
      entry.list = list;
      entry.index = list.entries.push(entry) - 1;
      this.#arm(list);
    }
    this.#recentCount = 0;
    this.#recent = [];
  }
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
  let timer = timers.get(source);
  if (timer === undefined) {
    timer = new SharedTimer(source);
    timers.set(source, timer);
  }
  return timer;
}
