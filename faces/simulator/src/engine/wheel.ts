/**
 * Wheel: the event queue of a fleet in which each member has at most one pending event. Slots of 1
 * ms hold lists of blocks, so the cost of push and pop does not depend on the number of members.
 * Events of one instant are adjacent in memory; a list linked through the members would miss the
 * cache at every step. Events are ordered by time, then by order of pushing. Deterministic. For
 * events at fractions of a ms, an event queue joins the wheel with a heap.
 */
import { createHeap, type Heap, peekAt, popEvent, pushEvent } from "./heap.ts";

/** 2^15 ms: waits up to 32 s are inserted once; longer ones are inserted again. */
const SLOTS = 32_768;
const MASK = SLOTS - 1;
const NONE = -1;

/** An entry is a member plus a payload of 0 to 1023, in units of `PAYLOAD`. */
const MEMBER_BITS = 21;
export const PAYLOAD: number = 2 ** MEMBER_BITS;
export const MEMBER_MASK: number = PAYLOAD - 1;

/** One cache line of words: entries, and in the last word the start of the next block. */
const BLOCK = 16;
const LINK = BLOCK - 1;

/**
 * A plain record with functions, not closures: V8 then keeps its arrays in registers, which doubles
 * the speed.
 */
export interface Wheel {
  /**
   * Two per slot: the index of its first entry in `words`, or -1, and the index for its next entry.
   */
  readonly ends: Int32Array;
  readonly words: Int32Array;
  /** The head of the list of freed blocks, and the first block that was never used. */
  freed: number;
  fresh: number;
  /** One bit per slot, so the search skips 32 empty slots at a time. */
  readonly filled: Int32Array;
  /** When members beyond the wheel's range are due; empty until there is one. */
  farAt: Float64Array;
  readonly size: number;
  /** The wheel's current instant. */
  now: number;
  pending: number;
}

/** Creates a wheel for members 0 to `size` - 1; at most 2^21. */
export function createWheel(size: number): Wheel {
  // The first and last block of a slot may be partly used.
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

/** The payload of an entry. It saves the member a lookup. */
export function payloadOf(entry: number): number {
  return entry >> MEMBER_BITS;
}

/** Sets the event of an entry's member to the whole ms `at`, which must not be in the past. */
export function pushEntry(wheel: Wheel, entry: number, at: number): void {
  wheel.pending++;
  append(wheel, entry, at - wheel.now < SLOTS ? at : postpone(wheel, entry, at));
}

/** An event beyond the wheel's range waits in the last slot and is inserted again from there. */
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

/**
 * The next instant that may have events; infinite if nothing is pending. Does not advance the
 * wheel.
 */
function nextInstant({ pending, filled, now }: Wheel): number {
  return pending === 0 ? Number.POSITIVE_INFINITY : nextFilled(filled, now);
}

/** Advances to the next instant that has events. Returns false if nothing is pending. */
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

/**
 * The first instant from `now` on whose slot is not empty. The caller makes sure that there is one.
 */
function nextFilled(filled: Int32Array, now: number): number {
  let at = now;
  for (;;) {
    const slot = at & MASK;
    const ahead = (filled[slot >> 5] as number) >>> (slot & 31);
    if (ahead !== 0) return at + 31 - Math.clz32(ahead & -ahead);
    at += 32 - (slot & 31);
  }
}

// Event queue of a fleet with guards. Each member has at most one pending event, at any fraction of
// a ms. The wheel stores them by whole ms. The heap holds only the events of the current ms, and
// the events that belong to no member. The order is that of the heap. Deterministic.

export interface EventQueue {
  /** The events that are due next, and the fields of the event that was popped last. */
  readonly heap: Heap;
  readonly wheel: Wheel;
  /** By member: its event in the wheel. */
  readonly at: Float64Array;
  readonly kinds: Uint8Array;
  readonly sequences: Float64Array;
  /** The current ms. */
  ms: number;
}

export function createEventQueue(size: number, ranks: Uint8Array): EventQueue {
  return {
    heap: createHeap(1024, ranks),
    wheel: createWheel(size),
    at: new Float64Array(size),
    kinds: new Uint8Array(size),
    sequences: new Float64Array(size),
    ms: 0,
  };
}

/** Sets the event of a member. Push events of no member on the heap. */
export function pushMember(queue: EventQueue, at: number, kind: number, member: number): void {
  const { heap } = queue;
  if (at < queue.ms + 1) {
    pushEvent(heap, at, kind, member);
    return;
  }
  queue.at[member] = at;
  queue.kinds[member] = kind;
  queue.sequences[member] = heap.sequence++;
  pushEntry(queue.wheel, member, Math.floor(at));
}

/** Takes the earliest event, as `popEvent` does. Returns false if there is none. */
export function popNext(queue: EventQueue): boolean {
  const { heap, wheel } = queue;
  for (;;) {
    const at = peekAt(heap);
    if (at < queue.ms + 1) return popEvent(heap);
    const ms = nextInstant(wheel);
    if (at < ms || ms === Number.POSITIVE_INFINITY) {
      queue.ms = Math.floor(at);
      return popEvent(heap);
    }
    queue.ms = ms;
    wheel.now = ms;
    moveMembers(queue);
  }
}

function moveMembers({ heap, wheel, at, kinds, sequences }: EventQueue): void {
  for (let member = popEntry(wheel); member >= 0; member = popEntry(wheel)) {
    const sequence = sequences[member] as number;
    pushEvent(heap, at[member] as number, kinds[member] as number, member, sequence);
  }
}
