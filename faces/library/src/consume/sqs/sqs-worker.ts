/**
 * SQS worker: receives messages as far as the consumer has slots, keeps them invisible while their
 * handlers run, and carries the consumer's dispositions out.
 */
import { systemId } from "@redrive/core";
import type { Consumer } from "../consumer.ts";
import type { DeadLetter, Disposition, Message } from "../message.ts";
import { RepeatingTask } from "../repeating-task.ts";
import { type Worker, WorkerState } from "../worker.ts";
import { deadLetterInput } from "./dead-letter-input.ts";
import { DeleteBatch } from "./delete-batch.ts";
import { KnownMessages } from "./known-messages.ts";
import type { SqsClient, SqsMessage } from "./sqs-client.ts";
import { visibilitySeconds } from "./visibility.ts";

export interface SqsWorkerParts {
  readonly consumer: Consumer<SqsMessage>;
  readonly client: SqsClient;
  readonly queueUrl: string;
  readonly deadLetterQueueUrl: string;
  readonly visibilityMs: number;
  readonly waitSeconds: number;
  readonly pollers: number;
  readonly idOf: (message: SqsMessage) => string | undefined;
}

/** A received message, and when it was received (monotonic). */
interface Receipt {
  readonly handle: string;
  readonly receives: number;
  readonly receivedMs: number;
  readonly message: Message<SqsMessage>;
}

/** The most messages that SQS returns at once. */
const MAX_RECEIVE = 10;

export class SqsWorker implements Worker {
  readonly #parts: SqsWorkerParts;
  readonly #state: WorkerState;
  readonly #known = new KnownMessages();
  readonly #deletes: DeleteBatch;
  readonly #extension: RepeatingTask;
  readonly #inFlight = new Set<Receipt>();

  // Mutable state.
  #polling: readonly Promise<void>[] = [];
  #reserved = 0;
  readonly #onRoom: (() => void)[] = [];

  constructor(parts: SqsWorkerParts) {
    this.#parts = parts;
    this.#state = new WorkerState(parts.consumer);
    const { consumer, client, queueUrl, visibilityMs } = parts;
    const { clock } = consumer;
    const onError = (error: unknown) => this.#state.fail(error);
    const onSuccess = () => this.#state.recover();
    this.#deletes = new DeleteBatch({ clock, client, queueUrl, onError, onSuccess });
    this.#extension = new RepeatingTask({
      clock,
      everyMs: Math.floor(visibilityMs / 3),
      run: () => this.#extend(),
      onError,
    });
  }

  async start(): Promise<void> {
    const { pollers } = this.#parts;
    this.#extension.start();
    const first = await this.#receive(0);
    for (const receipt of first) void this.#handle(receipt);
    this.#polling = Array.from({ length: pollers }, () => this.#poll());
  }

  async stop(drainMs?: number): Promise<void> {
    this.#state.stop();
    this.#wake();
    await Promise.all(this.#polling);
    await this.#parts.consumer.stop(drainMs);
    await Promise.all([this.#state.idle(), this.#extension.stop()]);
    await this.#deletes.flush();
  }

  async #poll(): Promise<void> {
    const { waitSeconds } = this.#parts;
    while (!this.#state.isStopping) {
      if (this.#room() === 0) {
        await new Promise<void>((resolve) => this.#onRoom.push(resolve));
        continue;
      }
      try {
        for (const receipt of await this.#receive(waitSeconds)) void this.#handle(receipt);
        this.#state.recover();
      } catch (error) {
        if (!this.#state.isStopping) await this.#state.pause(this.#state.fail(error));
      }
    }
  }

  #room(): number {
    return Math.max(0, this.#parts.consumer.free - this.#reserved);
  }

  async #receive(waitSeconds: number): Promise<readonly Receipt[]> {
    const { client, queueUrl, visibilityMs } = this.#parts;
    const count = Math.min(MAX_RECEIVE, this.#room());
    if (count === 0) return [];
    this.#reserved += count;
    try {
      const input = {
        QueueUrl: queueUrl,
        MaxNumberOfMessages: count,
        WaitTimeSeconds: waitSeconds,
        VisibilityTimeout: visibilitySeconds(visibilityMs, 0),
        MessageAttributeNames: ["All"],
        MessageSystemAttributeNames: ["All"],
      };
      const abortSignal = this.#state.signal;
      const { Messages: messages = [] } = await client.receiveMessage(input, { abortSignal });
      return messages.map((message) => this.#receiptOf(message));
    } finally {
      this.#reserved -= count;
    }
  }

  #receiptOf(received: SqsMessage): Receipt {
    const { consumer, idOf } = this.#parts;
    const { Attributes: attributes = {}, ReceiptHandle: handle = "", MessageId: own } = received;
    const id = idOf(received) ?? own ?? systemId();
    const receives = countOf(attributes["ApproximateReceiveCount"]) ?? 1;
    const now = consumer.clock.now();
    const firstAt = countOf(attributes["ApproximateFirstReceiveTimestamp"]) ?? now;
    const known = this.#known.read(id, receives, firstAt);
    const message = { id, body: received, ...known };
    return { handle, receives, receivedMs: consumer.clock.monotonicMs(), message };
  }

  /** SQS hides the messages for longer while their handlers run. */
  async #extend(): Promise<undefined> {
    const { visibilityMs } = this.#parts;
    for (const receipt of this.#inFlight) await this.#hide(receipt, visibilityMs);
  }

  async #hide({ handle, receivedMs }: Receipt, delayMs: number): Promise<void> {
    const { client, queueUrl, consumer } = this.#parts;
    const elapsedMs = consumer.clock.monotonicMs() - receivedMs;
    await client.changeMessageVisibility({
      QueueUrl: queueUrl,
      ReceiptHandle: handle,
      VisibilityTimeout: visibilitySeconds(delayMs, elapsedMs),
    });
  }

  /** Never rejects. */
  async #handle(receipt: Receipt): Promise<void> {
    this.#state.begin();
    this.#inFlight.add(receipt);
    const disposition = await this.#parts.consumer.handle(receipt.message);
    if (disposition.kind !== "ack") await this.#tryMove(receipt, disposition);
    else this.#delete(receipt);
    this.#inFlight.delete(receipt);
    this.#wake();
    this.#state.end();
  }

  #delete({ handle, message }: Receipt): void {
    this.#known.forget(message.id);
    this.#deletes.add(handle);
  }

  /** If it fails, the message comes back when its visibility timeout ends. */
  async #tryMove(
    receipt: Receipt,
    disposition: Exclude<Disposition, { kind: "ack" }>,
  ): Promise<void> {
    const { message, receives } = receipt;
    this.#known.keep(message.id, disposition.state, receives);
    try {
      if (disposition.kind === "dead-letter") await this.#deadLetter(receipt, disposition);
      else await this.#hide(receipt, disposition.delayMs);
    } catch (error) {
      this.#state.fail(error);
    }
  }

  async #deadLetter(receipt: Receipt, deadLetter: DeadLetter): Promise<void> {
    const { client, deadLetterQueueUrl } = this.#parts;
    await client.sendMessage(deadLetterInput(deadLetterQueueUrl, receipt.message, deadLetter));
    this.#delete(receipt);
  }

  #wake(): void {
    const { clock } = this.#parts.consumer;
    for (const resolve of this.#onRoom.splice(0)) clock.endOfTurn(resolve);
  }
}

function countOf(text: string | undefined): number | undefined {
  const count = Number(text);
  return text !== undefined && Number.isInteger(count) && count >= 0 ? count : undefined;
}
