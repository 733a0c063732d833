/**
 * Engine events: publishes what happens in the engine to listeners, and keeps the latest events in
 * a ring, so that a reader that was disconnected can continue where it stopped.
 */
import type { EngineEvent, EngineEventBody } from "./engine-event.ts";
import { EventRing } from "./event-ring.ts";

/** May be async. */
export type EventListener = (event: EngineEvent) => unknown;

const RING_SIZE = 10_000;

export class EngineEvents {
  readonly #nodeId: string;
  readonly #listeners = new Set<EventListener>();
  readonly #ring = new EventRing(RING_SIZE);
  #count = 0;

  constructor(nodeId: string) {
    this.#nodeId = nodeId;
  }

  /**
   * The body itself becomes the event, so the caller must not use it again. A copy made by spread
   * would create a new hidden class for every event (docs/decisions/0012).
   */
  emit(at: number, body: EngineEventBody): void {
    this.#ring.put(++this.#count, at, body);
    if (this.#listeners.size === 0) return;
    const event = body as { -readonly [field in keyof EngineEvent]: EngineEvent[field] };
    event.id = this.idOf(this.#count);
    event.at = at;
    for (const listener of this.#listeners) notify(listener, event);
  }

  /** Returns a function that removes the listener. */
  listen(listener: EventListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The number of the latest event; 0: there was none yet. */
  get latest(): number {
    return this.#count;
  }

  /** The number of the event with that id; undefined if the ring does not have it. */
  numberOf(id: string): number | undefined {
    const number = Number(id.slice(id.lastIndexOf("-") + 1));
    const isKnown = number > this.#count - RING_SIZE && number <= this.#count;
    return isKnown && this.idOf(number) === id ? number : undefined;
  }

  /** The events after that number, at most `limit`. Undefined: the ring has lost some of them. */
  read(after: number, limit: number): readonly EngineEvent[] | undefined {
    if (after < this.#count - RING_SIZE) return undefined;
    return Array.from({ length: Math.min(limit, this.#count - after) }, (_, index) => {
      const next = after + 1 + index;
      return this.#ring.get(next, this.idOf(next));
    });
  }

  /** The events after the given id; undefined if the ring no longer has that event. */
  after(id: string): readonly EngineEvent[] | undefined {
    const number = this.numberOf(id);
    return number === undefined ? undefined : this.read(number, RING_SIZE);
  }

  /** `<node>-<number>`. */
  idOf(number: number): string {
    return `${this.#nodeId}-${number}`;
  }
}

/**
 * Calls a listener. If it throws or rejects, the error goes to the console, as in the library: it
 * must not stop the engine, end the host process or be lost.
 */
function notify(listener: EventListener, event: EngineEvent): void {
  try {
    const result = listener(event) as Partial<PromiseLike<unknown>> | undefined;
    result?.then?.(undefined, report);
  } catch (error) {
    report(error);
  }
}

function report(error: unknown): void {
  console.error("redrive:", error);
}
