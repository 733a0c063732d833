/**
 * Event queue of a fleet with guards. Each member has at most one pending event, at any fraction of
 * a ms. The wheel stores them by whole ms. The heap holds only the events of the current ms, and
 * the events that belong to no member. The order is that of the heap. Deterministic.
 */
import { createHeap, type Heap, peekAt, popEvent, pushEvent } from "./heap.ts";
import { createWheel, nextInstant, popEntry, pushEntry, type Wheel } from "./wheel.ts";

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
