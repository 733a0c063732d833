/**
 * Ack batch: acknowledges all messages that end in one turn of the event loop with one command. If Redis
 * fails, it tries again: a message whose acknowledgment is lost would be handled again.
 */
import type { Clock } from "@redrive/core";
import type { StreamEntry } from "./stream-entry.ts";

export interface AckBatchParts {
  readonly clock: Clock;
  readonly ack: (isRetry: boolean, entryIds: readonly string[]) => Promise<void>;
  /** Reports a failure; returns the wait before the next try. */
  readonly onError: (error: unknown) => number;
}

export class AckBatch {
  readonly #parts: AckBatchParts;

  // Mutable state: by whether the entry is in the retry stream.
  #isScheduled = false;
  #ids: [fresh: string[], retried: string[]] = [[], []];
  #running: Promise<void> = Promise.resolve();

  constructor(parts: AckBatchParts) {
    this.#parts = parts;
  }

  add({ isRetry, entryId }: StreamEntry): void {
    this.#ids[isRetry ? 1 : 0].push(entryId);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#parts.clock.endOfTurn(() => {
      this.#isScheduled = false;
      const before = this.#running;
      this.#running = this.#flush().then(() => before);
    });
  }

  /** Sends what is left, and resolves when everything was sent or has failed once more. */
  async flush(): Promise<void> {
    await this.#running;
    await this.#flush();
  }

  async #flush(): Promise<void> {
    const [fresh, retried] = this.#ids;
    this.#ids = [[], []];
    await Promise.all([this.#send(false, fresh), this.#send(true, retried)]);
  }

  async #send(isRetry: boolean, ids: string[]): Promise<void> {
    if (ids.length === 0) return;
    const { ack, onError, clock } = this.#parts;
    try {
      await ack(isRetry, ids);
    } catch (error) {
      this.#ids[isRetry ? 1 : 0].push(...ids);
      clock.alarm(onError(error), () => void this.#flush(), true);
    }
  }
}
