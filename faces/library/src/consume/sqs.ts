/**
 * SQS: consumes the messages of a queue with the caller's own client. SQS itself does the waiting: a
 * message that comes back is invisible until then. The worker receives messages as far as the consumer
 * has slots, keeps them invisible while their handlers run, and carries the dispositions out.
 */
import {
  type Clock,
  checkFields,
  DocumentError,
  type Fields,
  invalidArgument,
  numberRule,
  type Rule,
  systemId,
  textRule,
} from "@redrive/core";
import { setBounded } from "../destination/keyed-guards.ts";
import type { Consumer } from "./consumer.ts";
import {
  type DeadLetter,
  type Disposition,
  freshState,
  type Message,
  type MessageState,
} from "./message.ts";
import { RepeatingTask, type Worker, WorkerState } from "./worker.ts";

/** What the adapter needs of the caller's `SQS` of `@aws-sdk/client-sqs`. The library does not import it. */
export interface SqsClient {
  receiveMessage(
    input: object,
    options?: { abortSignal?: AbortSignal },
  ): Promise<{ readonly Messages?: readonly SqsMessage[] | undefined }>;
  deleteMessageBatch(input: object): Promise<BatchResult>;
  changeMessageVisibility(input: object): Promise<unknown>;
  /** Without it, each message needs a request of its own. */
  changeMessageVisibilityBatch?(input: object): Promise<BatchResult>;
  sendMessage(input: object): Promise<unknown>;
}

export interface SqsOptions {
  /** An `SQS` of `@aws-sdk/client-sqs`. Turn off its own retries: `new SQS({ maxAttempts: 1 })`. */
  readonly client: SqsClient;
  readonly queueUrl: string;
  /** Where dead letters go. SQS's own redrive policy would not add their history. */
  readonly deadLetterQueueUrl: string;
  /**
   * How long SQS hides a message from other consumers. It is extended while the handler runs. 3 s to
   * 12 h. Default: 60,000.
   */
  readonly visibilityMs?: number | undefined;
  /** How long a request waits for messages. 0 to 20 s. Default: 20. */
  readonly waitSeconds?: number | undefined;
  /** The id of a message. Default: its `MessageId`. */
  readonly idOf?: ((message: SqsMessage) => string | undefined) | undefined;
}

const urlRule = textRule(/^https?:\/\/[^\s]{1,2000}$/u, "an http(s) URL");
const functionRule: Rule = (value) => (typeof value === "function" ? undefined : "a function");
/** An `SQSClient` has only `send`. */
const NEEDED = [
  "receiveMessage",
  "deleteMessageBatch",
  "changeMessageVisibility",
  "sendMessage",
] as const satisfies readonly (keyof SqsClient)[];
const clientRule: Rule = (value) =>
  NEEDED.every((name) => typeof (value as SqsClient | null)?.[name] === "function")
    ? undefined
    : "an SQS of @aws-sdk/client-sqs";

const FIELDS: Fields & Readonly<Record<keyof SqsOptions, unknown>> = {
  client: clientRule,
  queueUrl: urlRule,
  deadLetterQueueUrl: urlRule,
  visibilityMs: numberRule(3000, 43_200_000),
  waitSeconds: numberRule(0, 20),
  idOf: functionRule,
};

/** One request returns at most ten messages. */
const MESSAGES_PER_POLLER = 10;
const MAX_POLLERS = 10;

/** Connects a consumer to a queue. Use one worker per consumer. */
export function sqs(consumer: Consumer<SqsMessage>, options: SqsOptions): Worker {
  const problems = checkFields(options, FIELDS);
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  for (const name of ["client", "queueUrl", "deadLetterQueueUrl"] as const) {
    if (options[name] === undefined) throw invalidArgument(`${name} is required`, options[name]);
  }
  const pollers = Math.ceil(consumer.concurrency / MESSAGES_PER_POLLER);
  return new SqsWorker({
    consumer,
    client: options.client,
    queueUrl: options.queueUrl,
    deadLetterQueueUrl: options.deadLetterQueueUrl,
    visibilityMs: options.visibilityMs ?? 60_000,
    waitSeconds: options.waitSeconds ?? 20,
    pollers: Math.min(MAX_POLLERS, pollers),
    idOf: options.idOf ?? (() => undefined),
  });
}

interface SqsWorkerParts
  extends Required<Omit<SqsOptions, "idOf" | "visibilityMs" | "waitSeconds">> {
  readonly consumer: Consumer<SqsMessage>;
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
  /** Its disposition is known, or its handle has ended: its visibility is not extended any more. */
  isEnding: boolean;
  /** An extension on its way. A wait that is set meanwhile could be overwritten by it. */
  extending: Promise<unknown> | undefined;
}

/** The most messages that SQS returns at once. */
const MAX_RECEIVE = 10;

class SqsWorker implements Worker {
  readonly #parts: SqsWorkerParts;
  readonly #state: WorkerState;
  readonly #known = new KnownMessages();
  readonly #deletes: SqsBatch;
  readonly #visibility: SqsBatch;
  readonly #extensions: SqsBatch;
  readonly #extension: RepeatingTask;
  readonly #inFlight = new Set<Receipt>();

  // Mutable state.
  #polling: readonly Promise<void>[] = [];
  #reserved = 0;
  /** How many messages end while a request is on its way. */
  #ahead = 0;
  /** Messages that have ended since the latest answer, which came then (monotonic). */
  #ended = 0;
  #answeredMs = 0;
  readonly #onRoom: (() => void)[] = [];
  #ignoreLimit: () => void = () => undefined;

  constructor(parts: SqsWorkerParts) {
    this.#parts = parts;
    this.#state = new WorkerState(parts.consumer);
    const { consumer, client, queueUrl, visibilityMs } = parts;
    const { clock } = consumer;
    const onError = (error: unknown) => this.#state.fail(error);
    const onSuccess = () => this.#state.recover();
    const batch = (send: (input: object) => Promise<BatchResult>, maxTries: number) =>
      new SqsBatch({ clock, send, queueUrl, maxTries, onError, onSuccess });
    const hide = (input: object) => changeVisibility(client, input);
    // After this many tries, the receipt has likely ended.
    this.#deletes = batch((input) => client.deleteMessageBatch(input), 5);
    this.#visibility = batch(hide, 5);
    // The next extension comes soon.
    this.#extensions = batch(hide, 1);
    this.#extension = new RepeatingTask({
      clock,
      everyMs: Math.floor(visibilityMs / 3),
      run: async () => this.#extend(),
      onError,
    });
  }

  async start(): Promise<void> {
    const { pollers, consumer } = this.#parts;
    const first = await this.#receive(0);
    this.#extension.start();
    this.#ignoreLimit = consumer.onLimit(() => this.#wake());
    for (const receipt of first) void this.#handle(receipt);
    this.#polling = Array.from({ length: pollers }, () => this.#poll());
  }

  async stop(drainMs?: number): Promise<void> {
    this.#state.stop();
    this.#ignoreLimit();
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

  /** While there is a backlog, it also receives what will have a slot when the answer arrives. */
  #room(): number {
    const { free, limit, concurrency } = this.#parts.consumer;
    const ahead = limit === concurrency ? Math.min(this.#ahead, concurrency) : 0;
    return Math.max(0, free + ahead - this.#parts.consumer.waiting - this.#reserved);
  }

  async #receive(waitSeconds: number): Promise<readonly Receipt[]> {
    const { client, queueUrl, visibilityMs, consumer } = this.#parts;
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
      const startMs = consumer.clock.monotonicMs();
      const { Messages: messages = [] } = await client.receiveMessage(input, { abortSignal });
      this.#learnPace(startMs, messages.length === count);
      return messages.map((message) => this.#receiptOf(message));
    } finally {
      this.#reserved -= count;
    }
  }

  /** `isFull`: the queue has a backlog, so the request did not wait. */
  #learnPace(startMs: number, isFull: boolean): void {
    const nowMs = this.#parts.consumer.clock.monotonicMs();
    const sinceMs = Math.max(1, nowMs - this.#answeredMs);
    this.#ahead = isFull ? Math.round((this.#ended * (nowMs - startMs)) / sinceMs) : 0;
    this.#ended = 0;
    this.#answeredMs = nowMs;
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
    const receivedMs = consumer.clock.monotonicMs();
    return { handle, receives, receivedMs, message, isEnding: false, extending: undefined };
  }

  /** SQS hides the messages for longer while their handlers run. Each stands alone. */
  #extend(): undefined {
    for (const receipt of this.#inFlight) if (!receipt.isEnding) this.#extendOne(receipt);
  }

  #extendOne(receipt: Receipt): void {
    const { visibilityMs } = this.#parts;
    const extending = this.#extensions.send(this.#hidden(receipt, visibilityMs)).then((result) => {
      receipt.extending = undefined;
      if (result === "refused") receipt.isEnding = true;
    });
    receipt.extending = extending;
  }

  #hidden({ handle, receivedMs }: Receipt, delayMs: number): object {
    const elapsedMs = this.#parts.consumer.clock.monotonicMs() - receivedMs;
    return { ReceiptHandle: handle, VisibilityTimeout: visibilitySeconds(delayMs, elapsedMs) };
  }

  /** Never rejects. */
  async #handle(receipt: Receipt): Promise<void> {
    this.#state.begin();
    this.#inFlight.add(receipt);
    const disposition = await this.#parts.consumer.handle(receipt.message);
    receipt.isEnding = true;
    if (disposition.kind === "ack") this.#delete(receipt);
    else if (disposition.kind === "dead-letter") await this.#deadLetter(receipt, disposition);
    else await this.#hide(receipt, disposition);
    this.#inFlight.delete(receipt);
    this.#ended++;
    this.#wake();
    this.#state.end();
  }

  #delete({ handle, message }: Receipt): void {
    this.#known.forget(message.id);
    this.#deletes.add({ ReceiptHandle: handle });
  }

  /** If it fails, the message comes back when its visibility timeout ends. */
  async #hide(
    receipt: Receipt,
    { state, delayMs }: Extract<Disposition, { delayMs: number }>,
  ): Promise<void> {
    const { message, receives } = receipt;
    this.#known.keep(message.id, state, receives);
    if (receipt.extending !== undefined) await receipt.extending;
    await this.#visibility.send(this.#hidden(receipt, delayMs));
  }

  async #deadLetter(receipt: Receipt, deadLetter: DeadLetter): Promise<void> {
    const { client, deadLetterQueueUrl } = this.#parts;
    const { message, receives } = receipt;
    this.#known.keep(message.id, deadLetter.state, receives);
    try {
      await client.sendMessage(deadLetterInput(deadLetterQueueUrl, message, deadLetter));
      this.#delete(receipt);
    } catch (error) {
      this.#state.fail(error);
    }
  }

  #wake(): void {
    const { clock } = this.#parts.consumer;
    for (const resolve of this.#onRoom.splice(0)) clock.endOfTurn(resolve);
  }
}

type Entry = object & { readonly Id: string };

/** A client without the request for ten messages needs one request for each. */
async function changeVisibility(client: SqsClient, input: object): Promise<BatchResult> {
  if (client.changeMessageVisibilityBatch !== undefined) {
    return await client.changeMessageVisibilityBatch(input);
  }
  const { QueueUrl, Entries } = input as { QueueUrl: string; Entries: readonly Entry[] };
  const change = async ({ Id, ...entry }: Entry) => {
    try {
      await client.changeMessageVisibility({ QueueUrl, ...entry });
      return [];
    } catch (error) {
      // The SDK says whose fault it is.
      const isFinal = (error as { readonly $fault?: unknown } | null)?.$fault === "client";
      return [{ Id, SenderFault: isFinal, error }];
    }
  };
  return { Failed: (await Promise.all(Entries.map(change))).flat() };
}

function countOf(text: string | undefined): number | undefined {
  const count = Number(text);
  return text !== undefined && Number.isInteger(count) && count >= 0 ? count : undefined;
}

// What SQS shows of a message and what it keeps with it: a count of receives and nothing else. The states of
// messages that will be delivered again are kept in the process.

export interface SqsMessage {
  readonly MessageId?: string | undefined;
  readonly ReceiptHandle?: string | undefined;
  readonly Body?: string | undefined;
  readonly Attributes?: Readonly<Partial<Record<string, string>>> | undefined;
  readonly MessageAttributes?: Readonly<Record<string, SqsAttribute>> | undefined;
}

interface SqsAttribute {
  readonly DataType: string | undefined;
  readonly StringValue?: string | undefined;
  readonly BinaryValue?: Uint8Array | undefined;
}

interface Known {
  readonly state: MessageState;
  /** The receive count when the state was kept. */
  readonly receives: number;
}

/** Keeps the states of the latest 10,000 messages. */
export class KnownMessages {
  readonly #byId = new Map<string, Known>();

  keep(id: string, state: MessageState, receives: number): void {
    setBounded(this.#byId, id, { state, receives });
  }

  forget(id: string): void {
    this.#byId.delete(id);
  }

  /**
   * What is known about a message at its `receives`th receive. Receives of other processes are neither
   * attempts nor losses: the message may have been deferred there, and no handler may have run.
   */
  read(
    id: string,
    receives: number,
    firstAt: number,
  ): Pick<Message, "state" | "receivesElsewhere"> {
    const known = this.#byId.get(id);
    if (known !== undefined && receives > known.receives) {
      return { state: known.state, receivesElsewhere: receives - known.receives - 1 };
    }
    return { state: freshState(firstAt), receivesElsewhere: Math.max(0, receives - 1) };
  }
}

/** The attribute that a dead letter has beside its own. */
const ATTRIBUTE = "redrive";

/** The most attributes of a message. */
const MAX_ATTRIBUTES = 10;

/** SQS limits the attributes of a message to ten, so the reason and the history share one. */
function deadLetterInput(
  queueUrl: string,
  { id, body }: Message<SqsMessage>,
  { reason, state }: DeadLetter,
): object {
  const { Body: text = "", MessageAttributes: own = {}, Attributes: attributes = {} } = body;
  const note = { DataType: "String", StringValue: JSON.stringify({ id, reason, ...state }) };
  const names = Object.keys(own).filter((name) => name !== ATTRIBUTE);
  const fits = names.length < MAX_ATTRIBUTES;
  const isFifo = queueUrl.endsWith(".fifo");
  return {
    QueueUrl: queueUrl,
    MessageBody: text,
    MessageAttributes: fits ? { ...own, [ATTRIBUTE]: note } : own,
    ...(isFifo && {
      MessageGroupId: attributes["MessageGroupId"] ?? id,
      MessageDeduplicationId: id,
    }),
  };
}

/** 12 hours, the longest visibility timeout of SQS. */
export const MAX_VISIBILITY_SECONDS = 43_200;

/**
 * The visibility timeout for a wait that begins `elapsedMs` after the receive. Never shorter than the
 * wait, unless SQS does not allow it. At least a second: a message never comes back at once.
 */
export function visibilitySeconds(delayMs: number, elapsedMs: number): number {
  const left = MAX_VISIBILITY_SECONDS - Math.ceil(Math.max(0, elapsedMs) / 1000);
  return Math.max(1, Math.min(Math.ceil(delayMs / 1000), left));
}

/** What SQS answers to a batch. */
interface BatchResult {
  readonly Failed?: readonly BatchFailure[] | undefined;
}

interface BatchFailure {
  readonly Id: string | undefined;
  /** True: SQS will refuse the message again. Its receipt has ended. */
  readonly SenderFault?: boolean | undefined;
}

interface SqsBatchParts {
  readonly clock: Clock;
  readonly send: (input: object) => Promise<BatchResult>;
  readonly queueUrl: string;
  readonly maxTries: number;
  /** Reports a failure; returns the wait before the next try. */
  readonly onError: (error: unknown) => number;
  readonly onSuccess: () => void;
}

/** `refused`: SQS will refuse it again. `failed`: every try has failed. */
type EntryResult = "done" | "refused" | "failed";

interface BatchEntry {
  readonly fields: object;
  readonly tries: number;
  readonly settle: ((result: EntryResult) => void) | undefined;
}

/** The most messages of one request. */
const MAX_BATCH = 10;

/**
 * What all messages of one turn of the event loop ask of SQS, ten with each request, in parallel. Each message
 * stands alone: what SQS refuses for one says nothing about the others. What fails otherwise is tried again.
 */
class SqsBatch {
  readonly #parts: SqsBatchParts;

  // Mutable state.
  #waiting: BatchEntry[] = [];
  #isScheduled = false;
  readonly #running = new Set<Promise<void>>();

  constructor(parts: SqsBatchParts) {
    this.#parts = parts;
  }

  /** `settle`: called when nothing more is done for the message. */
  add(fields: object, settle?: (result: EntryResult) => void): void {
    this.#waiting.push({ fields, tries: 0, settle });
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#parts.clock.endOfTurn(() => this.#sendAll());
  }

  /** As `add`. Never rejects. */
  send(fields: object): Promise<EntryResult> {
    return new Promise((resolve) => this.add(fields, resolve));
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

  async #send(entries: readonly BatchEntry[]): Promise<void> {
    const { send, queueUrl, onError, onSuccess, clock } = this.#parts;
    let failures: readonly BatchFailure[] = [];
    let error: unknown;
    try {
      const Entries = entries.map(({ fields }, index) => ({ Id: String(index), ...fields }));
      ({ Failed: failures = [] } = await send({ QueueUrl: queueUrl, Entries }));
      error = failures.find(({ SenderFault }) => SenderFault !== true);
    } catch (thrown) {
      error = thrown;
      failures = entries.map((_, index) => ({ Id: String(index) }));
    }
    const again = this.#settle(entries, failures);
    if (error === undefined) onSuccess();
    const delayMs = error === undefined ? 0 : onError(error);
    if (again.length === 0) return;
    await clock.sleep(delayMs);
    this.#waiting.push(...again);
    this.#sendAll();
  }

  /** Returns the messages to try again. */
  #settle(
    entries: readonly BatchEntry[],
    failures: readonly BatchFailure[],
  ): readonly BatchEntry[] {
    const byId = new Map(failures.map((failure) => [failure.Id, failure]));
    return entries.flatMap((entry, index) => {
      const failure = byId.get(String(index));
      const tries = entry.tries + 1;
      if (failure !== undefined && failure.SenderFault !== true && tries < this.#parts.maxTries) {
        return [{ ...entry, tries }];
      }
      const failed = failure?.SenderFault === true ? "refused" : "failed";
      entry.settle?.(failure === undefined ? "done" : failed);
      return [];
    });
  }
}
