/**
 * Event queue: the events of the virtual clock, earliest first, and at one instant in the order in which
 * they were set. It is a heap of numbers that combine both, because a seed compares them a hundred
 * thousand times.
 */

/** An event that is canceled keeps its place. */
export interface SimEvent {
  readonly isCanceled: boolean;
  run(): void;
}

/** More events than a seed can set. A key stays exact for 99 days of milliseconds. */
const MAX_EVENTS = 2 ** 20;

export class EventQueue {
  /** `ms * MAX_EVENTS + sequence` */
  readonly #keys: number[] = [];
  readonly #events: SimEvent[] = [];
  #sequence = 0;

  /** `ms`: when it is due. Whole milliseconds from 0. */
  push(ms: number, event: SimEvent): void {
    if (++this.#sequence >= MAX_EVENTS) throw new Error(`more than ${MAX_EVENTS} events`);
    const keys = this.#keys;
    const events = this.#events;
    const key = ms * MAX_EVENTS + this.#sequence;
    let index = keys.length;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const parentKey = keys[parent] as number;
      if (key >= parentKey) break;
      keys[index] = parentKey;
      events[index] = events[parent] as SimEvent;
      index = parent;
    }
    keys[index] = key;
    events[index] = event;
  }

  /** When the next event is due; Infinity: there is none. */
  nextMs(): number {
    const key = this.#keys[0];
    return key === undefined ? Number.POSITIVE_INFINITY : Math.floor(key / MAX_EVENTS);
  }

  /** Removes the next event, which must exist. */
  pop(): SimEvent {
    const top = this.#events[0] as SimEvent;
    const key = this.#keys.pop() as number;
    const event = this.#events.pop() as SimEvent;
    if (this.#keys.length > 0) this.#sinkFromTop(key, event);
    return top;
  }

  #sinkFromTop(key: number, event: SimEvent): void {
    const keys = this.#keys;
    const events = this.#events;
    const { length } = keys;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= length) break;
      if (child + 1 < length && (keys[child + 1] as number) < (keys[child] as number)) child++;
      const childKey = keys[child] as number;
      if (childKey >= key) break;
      keys[index] = childKey;
      events[index] = events[child] as SimEvent;
      index = child;
    }
    keys[index] = key;
    events[index] = event;
  }
}
