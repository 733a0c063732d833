/**
 * Sliding window: counts the events of the last milliseconds, in a ring of buckets with running totals.
 * It expires by time, not by calls, so an event from a minute ago never counts in a window of five
 * seconds. The cost of a step does not depend on the number of events. `steadyAt` gives the instants that
 * all guards use.
 */
import { countRule, instantRule, listRule, readSavedState } from "../documents/document.ts";

/** A window has this many buckets, so an event leaves it at most a tenth early. */
export const BUCKETS_PER_WINDOW = 10;

/** The fixed dimensions of a window. */
export interface WindowShape {
  /** Length of the window. At least 1. */
  readonly windowMs: number;
  /**
   * Number of buckets. BUCKETS_PER_WINDOW of them cover at most `windowMs`, because the newest is still
   * being filled; one more covers at least `windowMs`.
   */
  readonly slots: number;
  /** Kinds of events that are counted separately, numbered from 0. */
  readonly kinds: number;
}

export interface CountWindow {
  readonly shape: WindowShape;
  /** The latest instant seen. */
  at: number;
  /** Number of the newest bucket, counted from the epoch. */
  tick: number;
  /** Index of the newest bucket in the ring. */
  head: number;
  /** The ring, bucket by bucket, kind by kind. */
  readonly counts: Float64Array;
  /** Invariant: each total is the sum of its kind over the ring. */
  readonly totals: Float64Array;
}

export function createWindow(shape: WindowShape, now: number): CountWindow {
  return {
    shape,
    at: now,
    tick: tickOf(shape, now),
    head: 0,
    counts: new Float64Array(shape.slots * shape.kinds),
    totals: new Float64Array(shape.kinds),
  };
}

/** Exact: the quotient of two such small integers never rounds up to the next tick. */
function tickOf(shape: WindowShape, at: number): number {
  return Math.floor((at * BUCKETS_PER_WINDOW) / shape.windowMs);
}

/** The first whole ms of a tick. */
export function tickAt(shape: WindowShape, tick: number): number {
  return -Math.floor(-(tick * shape.windowMs) / BUCKETS_PER_WINDOW);
}

/** Drops old events. Call it before counting or reading. */
export function advanceWindow(window: CountWindow, now: number): void {
  if (now === window.at) return;
  const at = steadyAt(window.at, now);
  if (at === window.at) return;
  const tick = tickOf(window.shape, at);
  const { slots } = window.shape;
  // After a gap longer than the ring every bucket is old, and one round clears all of them.
  for (let step = Math.min(tick - window.tick, slots); step > 0; step--) {
    window.head = (window.head + 1) % slots;
    clearHead(window);
  }
  window.tick = tick;
  window.at = at;
}

function clearHead({ shape, head, counts, totals }: CountWindow): void {
  for (let kind = 0; kind < shape.kinds; kind++) {
    const index = head * shape.kinds + kind;
    add(totals, kind, -(counts[index] as number));
    counts[index] = 0;
  }
}

/** Counts one event now, or several. */
export function countEvent(window: CountWindow, kind: number, count = 1): void {
  const { counts, totals, head, shape } = window;
  const index = head * shape.kinds + kind;
  counts[index] = (counts[index] as number) + count;
  totals[kind] = (totals[kind] as number) + count;
}

/** Indices come from the shape, so none is out of bounds. */
function add(counts: Float64Array, index: number, count: number): void {
  counts[index] = (counts[index] as number) + count;
}

/** Removes one event counted in the bucket `tick`, if it is still in the window. */
export function uncountEvent(window: CountWindow, kind: number, tick: number): void {
  const age = window.tick - tick;
  if (age < 0 || countOfAge(window, kind, age) === 0) return;
  const index = indexOf(window, kind, age);
  add(window.counts, index, -1);
  add(window.totals, kind, -1);
}

/** Events of a kind in all buckets. */
export function totalOf(window: CountWindow, kind: number): number {
  return window.totals[kind] as number;
}

/** Events of a kind in the bucket that is `age` buckets older than the newest. */
export function countOfAge(window: CountWindow, kind: number, age: number): number {
  return age < window.shape.slots ? (window.counts[indexOf(window, kind, age)] as number) : 0;
}

function indexOf({ shape, head }: CountWindow, kind: number, age: number): number {
  return ((head - age + shape.slots) % shape.slots) * shape.kinds + kind;
}

export function clearWindow(window: CountWindow): void {
  window.counts.fill(0);
  window.totals.fill(0);
}

/** A window as JSON. */
export interface SavedWindow {
  readonly windowMs: number;
  readonly at: number;
  /** Oldest bucket first. */
  readonly counts: readonly number[];
}

export function saveWindow(window: CountWindow): SavedWindow {
  const { shape, at } = window;
  const counts: number[] = [];
  for (let age = shape.slots - 1; age >= 0; age--) {
    for (let kind = 0; kind < shape.kinds; kind++) counts.push(countOfAge(window, kind, age));
  }
  return { windowMs: shape.windowMs, at, counts };
}

/** Restores a window. If `shape` has another length now, the old counts are dropped. */
export function restoreWindow(
  name: string,
  shape: WindowShape,
  saved: unknown,
  now: number,
): CountWindow {
  const size = shape.slots * shape.kinds;
  const { windowMs, at, counts } = readSavedState<SavedWindow>(name, saved, {
    windowMs: countRule,
    at: instantRule,
    counts: listRule(countRule, size, size),
  });
  if (windowMs !== shape.windowMs) return createWindow(shape, now);
  const window = createWindow(shape, at);
  window.head = shape.slots - 1;
  counts.forEach((count, index) => {
    const kind = index % shape.kinds;
    window.counts[index] = count;
    add(window.totals, kind, count);
  });
  return window;
}

// Callers may pass an instant that is late or repeated, or one from a clock that was set back. No guard may
// crash, run backwards or stop for an hour because of that.

/** A step back of at most this is a late reading. A longer one means that the clock was set back. */
export const STALE_READING_MS = 1000;

/**
 * The instant for a guard that last saw `lastAt`. After a late reading it stays at `lastAt`. If the
 * clock was set back, the guard follows it: it shifts its own instants by the step, as if no time had
 * passed.
 */
export function steadyAt(lastAt: number, now: number): number {
  return now < lastAt && lastAt - now <= STALE_READING_MS ? lastAt : now;
}
