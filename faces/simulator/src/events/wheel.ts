/**
 * Wheel: the event queue of a fleet in which each member has at most one pending event. Slots of
 * 1 ms hold lists of blocks, so pushing and popping cost the same for ten members and a million, and
 * what is due at one instant lies side by side: a list that ran through the members themselves would
 * miss the cache at every step. Order: by time, then by order of pushing. Deterministic.
 *
 * A plain record with functions, not closures: V8 then keeps its arrays in registers, which
 * doubles the speed.
 */

/** 2^15 ms: waits up to 32 s are placed once; longer ones go round. */
const SLOTS = 32_768;
const MASK = SLOTS - 1;
const NONE = -1;

/** An entry is a member and, counted in units of `NOTE`, up to 1023 of what it carries along. */
const MEMBER_BITS = 21;
export const NOTE: number = 2 ** MEMBER_BITS;
export const MEMBER_MASK: number = NOTE - 1;

/** One cache line of words: entries, and at the end where the next block begins. */
const BLOCK = 16;
const LINK = BLOCK - 1;

export interface Wheel {
  /** Two for each slot: where its first entry stands in `words`, or -1; and where its next one goes. */
  readonly ends: Int32Array;
  readonly words: Int32Array;
  /** A list of blocks that are free again, and the first that was never used. */
  freed: number;
  fresh: number;
  /** One bit a slot: empty stretches are skipped 32 slots at a time. */
  readonly filled: Int32Array;
  /** When members beyond the horizon are due; empty until there is one. */
  farAt: Float64Array;
  readonly size: number;
  /** The instant the wheel stands at. */
  now: number;
  pending: number;
}

/** A wheel for members 0 to `size` - 1; at most 2^21. */
export function createWheel(size: number): Wheel {
  // A slot's first and last block may be partly used.
  const blocks = Math.ceil(size / LINK) + 2 * Math.min(size, SLOTS);
  return {
    ends: new Int32Array(2 * SLOTS).fill(NONE),
    words: new Int32Array(blocks * BLOCK),
    freed: NONE,
    fresh: 0,
    filled: new Int32Array(SLOTS / 32),
    farAt: new Float64Array(0),
    size,
    now: 0,
    pending: 0,
  };
}

/** What an entry carries along: what its member would else have to look up. */
export function noteOf(entry: number): number {
  return entry >> MEMBER_BITS;
}

/** Sets the event of an entry's member to the whole ms `at`, which must not lie in the past. */
export function pushEntry(wheel: Wheel, entry: number, at: number): void {
  wheel.pending++;
  append(wheel, entry, at - wheel.now < SLOTS ? at : postpone(wheel, entry, at));
}

/** What lies beyond the horizon waits in the last slot and is placed anew from there. */
function postpone(wheel: Wheel, entry: number, at: number): number {
  if (wheel.farAt.length === 0) wheel.farAt = new Float64Array(wheel.size);
  wheel.farAt[entry & MEMBER_MASK] = at;
  return wheel.now + SLOTS - 1;
}

function append(wheel: Wheel, entry: number, at: number): void {
  const { ends, words } = wheel;
  const slot = at & MASK;
  let end = ends[2 * slot + 1] as number;
  if ((ends[2 * slot] as number) === NONE) {
    const { filled } = wheel;
    end = takeBlock(wheel);
    ends[2 * slot] = end;
    filled[slot >> 5] = (filled[slot >> 5] as number) | (1 << (slot & 31));
  } else if ((end & LINK) === LINK) {
    const block = takeBlock(wheel);
    words[end] = block;
    end = block;
  }
  words[end] = entry;
  ends[2 * slot + 1] = end + 1;
}

function takeBlock(wheel: Wheel): number {
  const block = wheel.freed;
  if (block === NONE) {
    wheel.fresh += BLOCK;
    return wheel.fresh - BLOCK;
  }
  wheel.freed = wheel.words[block] as number;
  return block;
}

function freeBlock(wheel: Wheel, at: number): void {
  const block = at & ~LINK;
  wheel.words[block] = wheel.freed;
  wheel.freed = block;
}

/** The next instant that may have events; infinite if nothing is pending. Does not move. */
export function nextInstant({ pending, filled, now }: Wheel): number {
  return pending === 0 ? Number.POSITIVE_INFINITY : nextFilled(filled, now);
}

/** Moves to the next instant that has events; false when nothing is pending. */
export function advanceWheel(wheel: Wheel): boolean {
  if (wheel.pending === 0) return false;
  if ((wheel.ends[2 * (wheel.now & MASK)] as number) === NONE) {
    wheel.now = nextFilled(wheel.filled, wheel.now);
  }
  return true;
}

/** Takes the next entry due at this instant, or -1. */
export function popEntry(wheel: Wheel): number {
  for (;;) {
    const entry = takeFirst(wheel, wheel.now & MASK);
    if (entry === NONE) return NONE;
    wheel.pending--;
    const { farAt } = wheel;
    if (farAt.length === 0) return entry;
    const at = farAt[entry & MEMBER_MASK] as number;
    if (at <= wheel.now) return entry;
    pushEntry(wheel, entry, at);
  }
}

function takeFirst(wheel: Wheel, slot: number): number {
  const { ends, words } = wheel;
  const at = ends[2 * slot] as number;
  if (at === NONE) return NONE;
  const entry = words[at] as number;
  const following = at + 1;
  if (following === (ends[2 * slot + 1] as number)) empty(wheel, slot, at);
  else if ((following & LINK) === LINK) {
    ends[2 * slot] = words[following] as number;
    freeBlock(wheel, at);
  } else ends[2 * slot] = following;
  return entry;
}

function empty(wheel: Wheel, slot: number, at: number): void {
  const { filled } = wheel;
  wheel.ends[2 * slot] = NONE;
  filled[slot >> 5] = (filled[slot >> 5] as number) & ~(1 << (slot & 31));
  freeBlock(wheel, at);
}

/** The first instant from `now` on whose slot is not empty; there is one. */
function nextFilled(filled: Int32Array, now: number): number {
  let at = now;
  for (;;) {
    const slot = at & MASK;
    const ahead = (filled[slot >> 5] as number) >>> (slot & 31);
    if (ahead !== 0) return at + 31 - Math.clz32(ahead & -ahead);
    at += 32 - (slot & 31);
  }
}
