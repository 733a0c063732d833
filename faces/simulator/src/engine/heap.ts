/**
 * Heap: the event queue of worlds in which a call may have several pending events. A 4-ary heap on
 * typed arrays. Events are ordered by time, then by the rank of their kind, then by order of
 * pushing. Deterministic. A plain record with functions, for the same reason as the wheel.
 */
import { doubleLength } from "./run.ts";

export interface Heap {
  times: Float64Array;
  orders: Float64Array;
  events: Float64Array;
  /** Slots in use, including the empty top slot. */
  size: number;
  /** The top event has been popped and no other event has replaced it yet. */
  hollow: boolean;
  /** By kind of event. */
  readonly ranks: Uint8Array;
  /** Events pushed so far. */
  sequence: number;
  /** The order key of the event that was pushed or popped last. */
  order: number;
  /** The event that was popped last. */
  at: number;
  kind: number;
  subject: number;
}

const ARITY = 4;
const KINDS = 16;

/** Larger than any sequence number, so the rank decides first. */
const RANK = 2 ** 48;

/**
 * `ranks` is indexed by kind, 0 to 15. At one instant, kinds with a lower rank come first. Default:
 * all 0.
 */
export function createHeap(capacity = 1024, ranks: Uint8Array = new Uint8Array(KINDS)): Heap {
  return {
    ranks,
    times: new Float64Array(capacity),
    orders: new Float64Array(capacity),
    events: new Float64Array(capacity),
    size: 0,
    hollow: false,
    sequence: 0,
    order: 0,
    at: 0,
    kind: 0,
    subject: 0,
  };
}

/**
 * Adds an event at `at` ms (not necessarily whole), of a `kind` (0 to 15), for `subject`. An event
 * from another queue keeps its sequence number.
 */
export function pushEvent(
  heap: Heap,
  at: number,
  kind: number,
  subject: number,
  sequence: number = heap.sequence++,
): void {
  const order = (heap.ranks[kind] as number) * RANK + sequence;
  const event = subject * KINDS + kind;
  heap.order = order;
  if (heap.hollow) {
    heap.hollow = false;
    sink(heap, at, order, event);
    return;
  }
  if (heap.size === heap.times.length) enlarge(heap);
  const { times, orders, events } = heap;
  let index = heap.size++;
  while (index > 0) {
    const parent = (index - 1) >> 2;
    const time = times[parent] as number;
    if (time < at || (time === at && (orders[parent] as number) < order)) break;
    times[index] = times[parent] as number;
    orders[index] = orders[parent] as number;
    events[index] = events[parent] as number;
    index = parent;
  }
  times[index] = at;
  orders[index] = order;
  events[index] = event;
}

/** Takes the earliest event into `at`, `kind` and `subject`. Returns false if there is none. */
export function popEvent(heap: Heap): boolean {
  if (heap.hollow) fill(heap);
  if (heap.size === 0) return false;
  const event = heap.events[0] as number;
  heap.at = heap.times[0] as number;
  heap.order = heap.orders[0] as number;
  // Not `%`: the remainder of doubles is a slow call.
  heap.subject = Math.floor(event / KINDS);
  heap.kind = event - heap.subject * KINDS;
  // Most events push another event, which then fills this slot and saves half the work.
  heap.hollow = true;
  return true;
}

/** When the next event is due; infinite if there is none. */
export function peekAt(heap: Heap): number {
  if (heap.hollow) fill(heap);
  return heap.size === 0 ? Number.POSITIVE_INFINITY : (heap.times[0] as number);
}

/** True if no event is pending. */
export function isIdle(heap: Heap): boolean {
  return heap.size === (heap.hollow ? 1 : 0);
}

/** No new event filled the top slot, so the last event moves there. */
function fill(heap: Heap): void {
  heap.hollow = false;
  heap.size--;
  const last = heap.size;
  if (last === 0) return;
  const { times, orders, events } = heap;
  sink(heap, times[last] as number, orders[last] as number, events[last] as number);
}

/** Inserts an event at the top and moves it down to its position. */
function sink(
  { times, orders, events, size }: Heap,
  at: number,
  order: number,
  event: number,
): void {
  let index = 0;
  for (let first = 1; first < size; first = index * ARITY + 1) {
    const child = earliest(times, orders, first, Math.min(size, first + ARITY));
    const time = times[child] as number;
    if (at < time || (at === time && order < (orders[child] as number))) break;
    times[index] = time;
    orders[index] = orders[child] as number;
    events[index] = events[child] as number;
    index = child;
  }
  times[index] = at;
  orders[index] = order;
  events[index] = event;
}

/** The earliest of the events from `first` to before `end`. */
function earliest(times: Float64Array, orders: Float64Array, first: number, end: number): number {
  let best = first;
  let bestTime = times[first] as number;
  for (let child = first + 1; child < end; child++) {
    const time = times[child] as number;
    if (
      time > bestTime ||
      (time === bestTime && (orders[child] as number) > (orders[best] as number))
    )
      continue;
    best = child;
    bestTime = time;
  }
  return best;
}

function enlarge(heap: Heap): void {
  heap.times = doubleLength(heap.times);
  heap.orders = doubleLength(heap.orders);
  heap.events = doubleLength(heap.events);
}
