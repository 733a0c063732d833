/**
 * Delete batch: deletes all messages that end in one turn of the event loop, ten with each request. What
 * SQS does not delete is tried again: the message would come back otherwise.
 */
import type { Clock } from "@redrive/core";
import type { SqsClient } from "./sqs-client.ts";

export interface DeleteBatchParts {
  readonly clock: Clock;
  readonly client: SqsClient;
  readonly queueUrl: string;
  /** Reports a failure; returns the wait before the next try. */
  readonly onError: (error: unknown) => number;
  readonly onSuccess: () => void;
}

/** The most messages of one request. */
const MAX_BATCH = 10;

/** After this many tries, the receipt has likely expired. */
const MAX_TRIES = 5;

interface Receipt {
  readonly handle: string;
  readonly tries: number;
}

export class DeleteBatch {
  readonly #parts: DeleteBatchParts;

  // Mutable state.
  #waiting: Receipt[] = [];
  #isScheduled = false;
  readonly #running = new Set<Promise<void>>();

  constructor(parts: DeleteBatchParts) {
    this.#parts = parts;
  }

  add(handle: string): void {
    this.#waiting.push({ handle, tries: 0 });
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#parts.clock.endOfTurn(() => this.#sendAll());
  }

  /** Sends what waits, and resolves when all requests have ended. */
  async flush(): Promise<void> {
    this.#sendAll();
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  #sendAll(): void {
    this.#isScheduled = false;
    const all = this.#waiting;
    this.#waiting = [];
    for (let at = 0; at < all.length; at += MAX_BATCH) {
      const sent = this.#send(all.slice(at, at + MAX_BATCH)).finally(() =>
        this.#running.delete(sent),
      );
      this.#running.add(sent);
    }
  }

  async #send(receipts: readonly Receipt[]): Promise<void> {
    const { client, queueUrl, onError, onSuccess, clock } = this.#parts;
    const entries = receipts.map(({ handle }, index) => ({
      Id: String(index),
      ReceiptHandle: handle,
    }));
    let failed: readonly Receipt[] = [];
    let error: unknown;
    try {
      const input = { QueueUrl: queueUrl, Entries: entries };
      const { Failed: refused = [] } = await client.deleteMessageBatch(input);
      failed = refused.flatMap(({ Id: id }) => receipts[Number(id)] ?? []);
      [error] = refused;
    } catch (thrown) {
      error = thrown;
      failed = receipts;
    }
    if (failed.length === 0) {
      onSuccess();
      return;
    }
    const again = failed.filter(({ tries }) => tries + 1 < MAX_TRIES);
    const delayMs = onError(error);
    if (again.length > 0) await clock.sleep(delayMs);
    this.#waiting.push(...again.map(({ handle, tries }) => ({ handle, tries: tries + 1 })));
    if (again.length > 0) this.#sendAll();
  }
}
