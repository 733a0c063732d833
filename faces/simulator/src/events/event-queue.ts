/**
 * Calendar: the event queue of a fleet with guards. Each member has at most one pending event, at an
 * instant that need not be whole. The wheel keeps them by ms; only the events of the ms that is under
 * way are in a heap, together with events of no member. Order: that of the heap. Deterministic.
 */
import { createHeap, type Heap, peekAt, popEvent, pushEvent } from "./heap.ts";
import { createWheel, nextInstant, popEntry, pushEntry, type Wheel } from "./wheel.ts";

export interface Calendar {
  /** The events that are due next; the one popped last is told here. */
  readonly heap: Heap;
  readonly wheel: Wheel;
  /** By member: its event in the wheel. */
  readonly at: Float64Array;
  readonly kinds: Uint8Array;
  readonly sequences: Float64Array;
  /** The ms that is under way. */
  ms: number;
}

export function createCalendar(size: number, ranks: Uint8Array): Calendar {
  return {
    heap: createHeap(1024, ranks),
    wheel: createWheel(size),
    at: new Float64Array(size),
    kinds: new Uint8Array(size),
    sequences: new Float64Array(size),
    ms: 0,
  };
}

/** Sets the event of a member. Events of no member are pushed on the heap. */
export function pushMember(calendar: Calendar, at: number, kind: number, member: number): void {
  const { heap } = calendar;
  if (at < calendar.ms + 1) {
    pushEvent(heap, at, kind, member);
    return;
  }
  calendar.at[member] = at;
  calendar.kinds[member] = kind;
  calendar.sequences[member] = heap.sequence++;
  pushEntry(calendar.wheel, member, Math.floor(at));
}

/** Takes the earliest event, as `popEvent` does; false when there is none. */
export function popNext(calendar: Calendar): boolean {
  const { heap, wheel } = calendar;
  for (;;) {
    const at = peekAt(heap);
    if (at < calendar.ms + 1) return popEvent(heap);
    const ms = nextInstant(wheel);
    if (at < ms || ms === Number.POSITIVE_INFINITY) {
      calendar.ms = Math.floor(at);
      return popEvent(heap);
    }
    calendar.ms = ms;
    wheel.now = ms;
    moveMembers(calendar);
  }
}

function moveMembers({ heap, wheel, at, kinds, sequences }: Calendar): void {
  for (let member = popEntry(wheel); member >= 0; member = popEntry(wheel)) {
    const sequence = sequences[member] as number;
    pushEvent(heap, at[member] as number, kinds[member] as number, member, sequence);
  }
}
