/**
 * Event ring: the latest events of a node. It allocates its memory in blocks, when they are first used:
 * 10,000 events take 1.6 MB, and most processes that restart often never have that many.
 */
import type { EngineEvent, EngineEventBody } from "./engine-event.ts";
import { EventColumns } from "./event-columns.ts";

const BLOCK_SIZE = 100;

export class EventRing {
  readonly #size: number;
  readonly #blocks: EventColumns[] = [];

  /** `size`: the number of events to keep, a multiple of 100. */
  constructor(size: number) {
    if (size % BLOCK_SIZE !== 0)
      throw new RangeError(`size ${size} is no multiple of ${BLOCK_SIZE}`);
    this.#size = size;
  }

  /** Writes event `number`, from 1, over the event that is `size` older. Numbers arrive in order. */
  put(number: number, at: number, event: EngineEventBody): void {
    const place = number % this.#size;
    const index = Math.floor(place / BLOCK_SIZE);
    this.#blocks[index] ??= new EventColumns(BLOCK_SIZE);
    this.#blocks[index].put(place % BLOCK_SIZE, at, event);
  }

  /** The event with that number, which must be one of the latest `size`. */
  get(number: number, id: string): EngineEvent {
    const place = number % this.#size;
    const block = this.#blocks[Math.floor(place / BLOCK_SIZE)];
    if (block === undefined) throw new RangeError(`event ${number} was never put`);
    return block.get(place % BLOCK_SIZE, id);
  }
}
