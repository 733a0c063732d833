/**
 * Memory SQS: the queues of an SQS in memory, on a clock that the test moves. They have what the adapter
 * depends on: long polls, visibility timeouts with their limit of 12 hours, receipt handles that end,
 * receive counts, and the redrive policy of a queue (`maxReceiveCount`). `test/servers/sqs.ts` serves
 * them to the AWS SDK; a scenario calls them as the SDK's client.
 */
import type { Random, TimeSource } from "@redrive/core";
import { Heap } from "./heap.ts";

export interface StoredMessage {
  readonly id: string;
  readonly body: string;
  readonly attributes: object;
  readonly systemAttributes: Readonly<Record<string, string>>;
  /** In the order of the sends. */
  readonly sequence: number;
  receives: number;
  firstReceivedAt: number;
  receivedAt: number;
  visibleAt: number;
  handle: string;
  /** Deleted, or moved to the dead letters of the queue. */
  isGone: boolean;
}

export interface QueueOptions {
  /** Standard queues promise no order. Default: `oldest`. */
  readonly order?: "oldest" | "random";
  /** The redrive policy of the queue: a message that was received more often moves there. */
  readonly maxReceiveCount?: number;
  readonly deadLetters?: MemoryQueue;
}

type Input = Readonly<Record<string, unknown>>;

export const MAX_VISIBILITY_SECONDS = 43_200;

/** An error of the protocol. */
export class SqsError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = code;
    this.code = code;
  }
}

/** Wakes when a message may have become visible. Returns whether it still waits. */
type Poll = () => boolean;

export class MemoryQueue {
  readonly #time: TimeSource;
  readonly #random: Random;
  readonly #options: QueueOptions;
  readonly #byId = new Map<string, StoredMessage>();
  readonly #oldest = new Heap<StoredMessage>((a, b) => a.sequence < b.sequence);
  readonly #unordered: StoredMessage[] = [];
  readonly #hidden = new Heap<{ readonly at: number; readonly message: StoredMessage }>(
    (a, b) => a.at < b.at,
  );
  readonly #polls = new Set<Poll>();
  #ids = 0;
  #alarmAt = Number.POSITIVE_INFINITY;
  #cancelAlarm: () => void = () => undefined;

  constructor(time: TimeSource, random: Random, options: QueueOptions = {}) {
    this.#time = time;
    this.#random = random;
    this.#options = options;
  }

  /** Messages that are not deleted, in the order of the sends. */
  get messages(): readonly StoredMessage[] {
    return [...this.#byId.values()];
  }

  get size(): number {
    return this.#byId.size;
  }

  send(input: Input): StoredMessage {
    const id = `id-${++this.#ids}`;
    const group = input["MessageGroupId"];
    const message: StoredMessage = {
      id,
      body: String(input["MessageBody"]),
      attributes: (input["MessageAttributes"] as object | undefined) ?? {},
      systemAttributes: group === undefined ? {} : { MessageGroupId: String(group) },
      sequence: this.#ids,
      receives: 0,
      firstReceivedAt: 0,
      receivedAt: 0,
      visibleAt: this.#time.now(),
      handle: "",
      isGone: false,
    };
    this.#adopt(message);
    return message;
  }

  #adopt(message: StoredMessage): void {
    this.#byId.set(message.id, message);
    this.#show(message);
    this.wake();
  }

  #show(message: StoredMessage): void {
    if (this.#options.order === "random") this.#unordered.push(message);
    else this.#oldest.push(message);
  }

  /** Resolves with messages, or without any after `waitMs`, or when the signal is aborted. */
  receive(input: Input, signal?: AbortSignal): Promise<readonly StoredMessage[]> {
    const waitMs = Number(input["WaitTimeSeconds"] ?? 0) * 1000;
    const found = this.#take(input);
    if (found.length > 0 || waitMs === 0 || signal?.aborted) return Promise.resolve(found);
    return new Promise((resolve) => {
      const end = (messages: readonly StoredMessage[]) => {
        cancel();
        this.#polls.delete(poll);
        signal?.removeEventListener("abort", stop);
        resolve(messages);
      };
      const stop = () => end([]);
      const poll = () => {
        const messages = this.#take(input);
        if (messages.length > 0) end(messages);
        return messages.length === 0;
      };
      const cancel = this.#time.alarm(waitMs, stop, true);
      this.#polls.add(poll);
      signal?.addEventListener("abort", stop, { once: true });
      this.#arm();
    });
  }

  /** Gives visible messages to the polls that wait. */
  wake(): void {
    for (const poll of this.#polls) if (poll()) break;
    this.#arm();
  }

  /** Polls that wait are woken when the next message becomes visible. */
  #arm(): void {
    const at =
      this.#polls.size === 0
        ? Number.POSITIVE_INFINITY
        : (this.#nextVisibleAt() ?? Number.POSITIVE_INFINITY);
    if (at === this.#alarmAt) return;
    this.#cancelAlarm();
    this.#alarmAt = at;
    if (at === Number.POSITIVE_INFINITY) return;
    this.#cancelAlarm = this.#time.alarm(
      at - this.#time.now(),
      () => {
        this.#alarmAt = Number.POSITIVE_INFINITY;
        this.wake();
      },
      true,
    );
  }

  #nextVisibleAt(): number | undefined {
    for (let next = this.#hidden.first(); next !== undefined; next = this.#hidden.first()) {
      if (!next.message.isGone && next.at === next.message.visibleAt) return next.at;
      this.#hidden.pop();
    }
    return undefined;
  }

  #showVisible(): void {
    for (
      let at = this.#nextVisibleAt();
      at !== undefined && at <= this.#time.now();
      at = this.#nextVisibleAt()
    ) {
      const entry = this.#hidden.pop();
      if (entry !== undefined) this.#show(entry.message);
    }
  }

  #take(input: Input): StoredMessage[] {
    this.#showVisible();
    const count = Number(input["MaxNumberOfMessages"] ?? 1);
    const hiddenMs = Number(input["VisibilityTimeout"] ?? 30) * 1000;
    const taken: StoredMessage[] = [];
    while (taken.length < count) {
      const message = this.#takeOne();
      if (message === undefined) return taken;
      if (message.isGone || this.#isBeyondCount(message)) continue;
      message.receives++;
      message.receivedAt = this.#time.now();
      if (message.receives === 1) message.firstReceivedAt = message.receivedAt;
      message.handle = `${message.id}/${message.receives}`;
      this.#hide(message, message.receivedAt + hiddenMs);
      taken.push(message);
    }
    return taken;
  }

  #takeOne(): StoredMessage | undefined {
    if (this.#options.order !== "random") return this.#oldest.pop();
    const all = this.#unordered;
    const index = Math.floor(this.#random.next() * all.length);
    const found = all[index];
    const last = all.pop();
    if (last !== undefined && last !== found) all[index] = last;
    return found;
  }

  #isBeyondCount(message: StoredMessage): boolean {
    const { maxReceiveCount = Number.POSITIVE_INFINITY, deadLetters } = this.#options;
    if (message.receives < maxReceiveCount) return false;
    this.#byId.delete(message.id);
    if (deadLetters !== undefined) deadLetters.#adopt(message);
    return true;
  }

  #hide(message: StoredMessage, until: number): void {
    message.visibleAt = until;
    this.#hidden.push({ at: until, message });
  }

  /** The message of a receipt handle; undefined if the handle has ended. */
  #inFlight(handle: string): StoredMessage | undefined {
    const message = this.#byId.get(handle.split("/")[0] ?? "");
    const isHeld = message?.handle === handle && message.visibleAt > this.#time.now();
    return isHeld ? message : undefined;
  }

  /** A standard queue accepts an old handle, but may not delete the message. */
  delete(handle: string): void {
    const message = this.#byId.get(handle.split("/")[0] ?? "");
    if (message === undefined || message.handle !== handle) return;
    message.isGone = true;
    this.#byId.delete(message.id);
  }

  changeVisibility(input: Input): void {
    const message = this.#inFlight(String(input["ReceiptHandle"]));
    if (message === undefined) {
      throw new SqsError("MessageNotInflight", "the message is not in flight with this handle");
    }
    const seconds = Number(input["VisibilityTimeout"]);
    if (!Number.isInteger(seconds) || seconds < 0 || seconds > MAX_VISIBILITY_SECONDS) {
      throw new SqsError("InvalidParameterValue", `VisibilityTimeout ${seconds} is out of range`);
    }
    const until = this.#time.now() + seconds * 1000;
    if (until > message.receivedAt + MAX_VISIBILITY_SECONDS * 1000) {
      throw new SqsError("InvalidParameterValue", "Total VisibilityTimeout is beyond the limit");
    }
    this.#hide(message, until);
    this.wake();
  }
}

/** As the SDK shows a message. */
export function receivedMessage(message: StoredMessage) {
  const { id, handle, body, attributes, systemAttributes, receives, firstReceivedAt } = message;
  return {
    MessageId: id,
    ReceiptHandle: handle,
    Body: body,
    MessageAttributes: attributes as Readonly<Record<string, { readonly DataType: string }>>,
    Attributes: {
      ...systemAttributes,
      ApproximateReceiveCount: String(receives),
      ApproximateFirstReceiveTimestamp: String(firstReceivedAt),
    },
  };
}

type Entries = readonly (Input & { readonly Id: string })[];

/** What a batch answers: each entry stands alone. */
export function batchResult(entries: unknown, carryOut: (entry: Input) => void) {
  const all = entries as Entries;
  if (!Array.isArray(all) || all.length < 1 || all.length > 10) {
    throw new SqsError("TooManyEntriesInBatchRequest", "a batch has 1 to 10 entries");
  }
  const failed: { Id: string; Code: string; Message: string; SenderFault: boolean }[] = [];
  for (const entry of all) {
    try {
      carryOut(entry);
    } catch (error) {
      const { code, message } = error as SqsError;
      failed.push({ Id: entry.Id, Code: code, Message: message, SenderFault: true });
    }
  }
  const ids = new Set(failed.map(({ Id }) => Id));
  return {
    Successful: all.filter(({ Id }) => !ids.has(Id)).map(({ Id }) => ({ Id })),
    Failed: failed,
  };
}

/** How long a request takes. */
const LATENCY_MS = 5;

/** The SDK's client, as far as the adapter uses it. */
export class MemorySqs {
  readonly #time: TimeSource;
  readonly #queues: Readonly<Record<string, MemoryQueue>>;
  /** Requests by their action. */
  readonly requests = new Map<string, number>();

  constructor(time: TimeSource, queues: Readonly<Record<string, MemoryQueue>>) {
    this.#time = time;
    this.#queues = queues;
  }

  async receiveMessage(input: object, { abortSignal }: { abortSignal?: AbortSignal } = {}) {
    const queue = await this.#arrive("ReceiveMessage", input);
    const messages = await queue.receive(input as Input, abortSignal);
    if (abortSignal?.aborted && messages.length === 0) throw abortSignal.reason;
    await this.#latency();
    return { Messages: messages.map(receivedMessage) };
  }

  async deleteMessageBatch(input: object) {
    const queue = await this.#arrive("DeleteMessageBatch", input);
    return batchResult((input as Input)["Entries"], (entry) =>
      queue.delete(String(entry["ReceiptHandle"])),
    );
  }

  async changeMessageVisibility(input: object) {
    (await this.#arrive("ChangeMessageVisibility", input)).changeVisibility(input as Input);
    return {};
  }

  async changeMessageVisibilityBatch(input: object) {
    const queue = await this.#arrive("ChangeMessageVisibilityBatch", input);
    return batchResult((input as Input)["Entries"], (entry) => queue.changeVisibility(entry));
  }

  async sendMessage(input: object) {
    return { MessageId: (await this.#arrive("SendMessage", input)).send(input as Input).id };
  }

  async #arrive(action: string, input: object): Promise<MemoryQueue> {
    this.requests.set(action, (this.requests.get(action) ?? 0) + 1);
    await this.#latency();
    const queue = this.#queues[String((input as Input)["QueueUrl"])];
    if (queue === undefined) throw new SqsError("QueueDoesNotExist", "no such queue");
    return queue;
  }

  #latency(): Promise<void> {
    return new Promise((resolve) => void this.#time.alarm(LATENCY_MS, resolve));
  }
}
