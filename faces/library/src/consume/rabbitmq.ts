/**
 * RabbitMQ: consumes the messages of a queue with the caller's own `amqplib`. Messages that come back
 * wait in delay queues, one for each delay, and return to their queue when their time to live ends. The
 * worker receives messages over one session after another. A copy of a message is stored in its next queue
 * before the message is acknowledged, so a crash in between doubles the message and never loses it.
 */
import {
  checkFields,
  choiceRule,
  DocumentError,
  type Fields,
  invalidArgument,
  numberRule,
  type Rule,
  systemId,
  textRule,
} from "@redrive/core";
import type { Consumer } from "./consumer.ts";
import { assertTiers, DEFAULT_TIERS, tierFor } from "./delay-tiers.ts";
import {
  type Disposition,
  decodeState,
  encodeState,
  type Message,
  type MessageState,
} from "./message.ts";
import { type Worker, WorkerState } from "./worker.ts";

export interface RabbitOptions {
  /** Opens a connection: `() => amqplib.connect(url)`. Called again when one is lost. */
  readonly connect: () => Promise<AmqpConnection>;
  /** The queue to consume. It must exist, unless `queueOptions` are given. */
  readonly queue: string;
  /** Creates the queue with these options of `assertQueue`. Default: it must exist. */
  readonly queueOptions?: object | undefined;
  /**
   * Messages that the broker delivers before their answers. 1 to 65,535. Default: the consumer's
   * concurrency, and four times as many while retries mostly fail.
   */
  readonly prefetch?: number | undefined;
  /** The type of the delay queues and of the queue of the dead letters. Default: `quorum`. */
  readonly queueType?: "quorum" | "classic" | undefined;
  /** The delays, in ascending order: a wait is rounded up to the next one. Default: 100, 150, 200, 300, 400, ... ms. */
  readonly tiersMs?: readonly number[] | undefined;
  /** The queue of the dead letters. It is created. Default: the name of the queue and `.dead`. */
  readonly deadLetterQueue?: string | undefined;
  /** Publishes dead letters to this exchange instead, with their first routing key. It must exist. */
  readonly deadLetterExchange?: string | undefined;
  /** The id of a message. Default: its property `messageId`, or else a new one. */
  readonly idOf?: ((message: AmqpMessage) => string | undefined) | undefined;
}

const nameRule = textRule(/^.{1,200}$/su, "1 to 200 characters");
const functionRule: Rule = (value) => (typeof value === "function" ? undefined : "a function");
const objectRule: Rule = (value) =>
  typeof value === "object" && value !== null ? undefined : "an object";

const FIELDS: Fields & Readonly<Record<keyof RabbitOptions, unknown>> = {
  connect: functionRule,
  queue: nameRule,
  queueOptions: objectRule,
  prefetch: numberRule(1, 65_535),
  queueType: choiceRule("quorum", "classic"),
  tiersMs: objectRule,
  deadLetterQueue: nameRule,
  deadLetterExchange: nameRule,
  idOf: functionRule,
};

/** Connects a consumer to a queue. Use one worker per consumer. */
export function rabbitmq(consumer: Consumer<RabbitBody>, options: RabbitOptions): Worker {
  const problems = checkFields(options, FIELDS);
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  const { connect, queue, tiersMs = DEFAULT_TIERS, queueType = "quorum" } = options;
  if (connect === undefined) throw invalidArgument("connect is required", connect);
  if (queue === undefined) throw invalidArgument("queue is required", queue);
  assertTiers(tiersMs);
  return new RabbitWorker({
    consumer,
    connect,
    queue,
    prefetch: options.prefetch,
    declarations: declarationsOf(options, queueType),
    tiersMs,
    delayQueueOf: (tierMs) => `${queue}.redrive.${tierMs}`,
    delayQueueOptions: (tierMs) => delayQueueOptions(queue, tierMs, queueType),
    deadLetter: deadLetterPlace(options),
    idOf: options.idOf ?? messageIdOf,
  });
}

function messageIdOf({ properties }: AmqpMessage): string | undefined {
  const { messageId } = properties;
  return typeof messageId === "string" && messageId !== "" ? messageId : undefined;
}

type QueueType = "quorum" | "classic";

function durable(queueType: QueueType, more: object = {}): object {
  return { durable: true, arguments: { "x-queue-type": queueType, ...more } };
}

/**
 * A message moves to its first queue when its time to live ends. A quorum queue keeps it until that
 * queue has stored it; a classic queue may lose it if the broker crashes at that moment.
 */
function delayQueueOptions(queue: string, tierMs: number, queueType: QueueType): object {
  return durable(queueType, {
    "x-message-ttl": tierMs,
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": queue,
    ...(queueType === "quorum" && {
      "x-dead-letter-strategy": "at-least-once",
      "x-overflow": "reject-publish",
    }),
  });
}

function declarationsOf(options: RabbitOptions, queueType: QueueType): Map<string, object> {
  const declarations = new Map<string, object>();
  const { queue, queueOptions, deadLetterExchange } = options;
  if (queueOptions !== undefined) declarations.set(queue, queueOptions);
  if (deadLetterExchange === undefined) {
    declarations.set(deadLetterQueueOf(options), durable(queueType));
  }
  return declarations;
}

function deadLetterQueueOf({ queue, deadLetterQueue = `${queue}.dead` }: RabbitOptions): string {
  return deadLetterQueue;
}

function deadLetterPlace(options: RabbitOptions) {
  const { deadLetterExchange } = options;
  if (deadLetterExchange === undefined) {
    return { exchange: "", routingKey: deadLetterQueueOf(options) };
  }
  return { exchange: deadLetterExchange, routingKey: undefined };
}

interface RabbitWorkerParts {
  readonly consumer: Consumer<RabbitBody>;
  readonly connect: () => Promise<AmqpConnection>;
  readonly queue: string;
  readonly prefetch: number | undefined;
  readonly declarations: ReadonlyMap<string, object>;
  readonly tiersMs: readonly number[];
  readonly delayQueueOf: (tierMs: number) => string;
  readonly delayQueueOptions: (tierMs: number) => object;
  readonly deadLetter: { readonly exchange: string; readonly routingKey: string | undefined };
  readonly idOf: (message: AmqpMessage) => string | undefined;
}

/** A delivery: the message, and what is needed to answer it. */
interface Delivery {
  readonly session: RabbitSession;
  readonly open: OpenDelivery;
  readonly message: Message<RabbitBody>;
}

class RabbitWorker implements Worker {
  readonly #parts: RabbitWorkerParts;
  readonly #state: WorkerState;

  // Mutable state.
  #session: RabbitSession | undefined;
  #running: Promise<void> = Promise.resolve();
  #ignoreLimit: () => void = () => undefined;

  constructor(parts: RabbitWorkerParts) {
    this.#parts = parts;
    this.#state = new WorkerState(parts.consumer);
  }

  async start(): Promise<void> {
    this.#session = await this.#open();
    this.#ignoreLimit = this.#parts.consumer.onLimit(() => this.#followLimit());
    this.#followLimit();
    this.#running = this.#reopen(this.#session);
  }

  /** If it fails, the session is closed, and the next one has the limit. */
  #followLimit(): void {
    void this.#session?.receive(this.#prefetch()).catch(() => undefined);
  }

  /** While the consumer takes no messages, the queue keeps them. */
  #prefetch(): number {
    const { consumer, prefetch } = this.#parts;
    const { limit, concurrency, overdue, areRetriesFailing } = consumer;
    if (this.#state.isStopping || limit === 0) return 0;
    // To the broker, messages without a slot count until they are answered: those whose handler is overdue,
    // and those that are deferred at once. The copy of one takes longer than many handlers.
    const usual = prefetch ?? (areRetriesFailing ? 4 * concurrency : concurrency);
    return overdue + (limit < concurrency ? Math.min(limit, usual) : usual);
  }

  async stop(drainMs?: number): Promise<void> {
    const isFirst = !this.#state.isStopping;
    this.#state.stop();
    this.#ignoreLimit();
    if (isFirst) await this.#session?.receive(0).catch(() => undefined);
    await this.#parts.consumer.stop(drainMs);
    await this.#state.idle();
    await this.#session?.close();
    await this.#running;
  }

  async #open(): Promise<RabbitSession> {
    const { connect, queue, declarations, consumer } = this.#parts;
    const session = await RabbitSession.open(await connect(), {
      queue,
      declarations,
      endOfTurn: (fn) => consumer.clock.endOfTurn(fn),
      onMessage: (open, from) => this.#receive(open, from),
    });
    try {
      await session.receive(this.#prefetch());
    } catch (error) {
      await session.close(error);
      throw error;
    }
    return session;
  }

  /** Replaces a session that was closed, until the worker stops. */
  async #reopen(first: RabbitSession): Promise<void> {
    let session = first;
    for (;;) {
      let cause = await session.closed;
      for (;;) {
        if (this.#state.isStopping) return;
        await this.#state.pause(this.#state.fail(cause));
        if (this.#state.isStopping) return;
        try {
          session = await this.#open();
          break;
        } catch (error) {
          cause = error;
        }
      }
      this.#session = session;
      this.#state.recover();
      this.#followLimit();
      if (this.#state.isStopping) await session.close();
    }
  }

  #receive(open: OpenDelivery, session: RabbitSession): void {
    const id = this.#parts.idOf(open.message) ?? systemId();
    void this.#handle({ session, open, message: messageOf(open.message, id) });
  }

  /** Never rejects. */
  async #handle(delivery: Delivery): Promise<void> {
    const { session, open, message } = delivery;
    this.#state.begin();
    const disposition = await this.#parts.consumer.handle(message);
    if (disposition.kind !== "ack") await this.#copy(delivery, disposition);
    session.ack(open);
    this.#state.end();
  }

  /** Tries until a copy is stored, or the session is closed: then the broker delivers it again. */
  async #copy(
    delivery: Delivery,
    disposition: Exclude<Disposition, { kind: "ack" }>,
  ): Promise<void> {
    const { session } = delivery;
    for (;;) {
      try {
        if (disposition.kind === "dead-letter") await this.#deadLetter(delivery, disposition);
        else await this.#delay(delivery, disposition);
        return;
      } catch (error) {
        if (!session.isOpen) return;
        const delayMs = this.#state.fail(error);
        if (this.#state.isStopping) return await session.close(error);
        await this.#state.pause(delayMs);
      }
    }
  }

  async #delay(
    { session, message }: Delivery,
    { delayMs, state }: Extract<Disposition, { delayMs: number }>,
  ): Promise<void> {
    const { tiersMs, delayQueueOf, delayQueueOptions } = this.#parts;
    const tierMs = tierFor(tiersMs, delayMs);
    const queue = delayQueueOf(tierMs);
    await session.declare(queue, delayQueueOptions(tierMs));
    try {
      await session.publish("", queue, message.body.content, copyProperties(message, state));
    } catch (error) {
      // Somebody has deleted the queue.
      if (error instanceof Unroutable) session.undeclare(queue);
      throw error;
    }
    this.#state.recover();
  }

  async #deadLetter(
    { session, message }: Delivery,
    { reason, state }: Extract<Disposition, { kind: "dead-letter" }>,
  ): Promise<void> {
    const { exchange, routingKey = message.body.routingKey } = this.#parts.deadLetter;
    const properties = copyProperties(message, state, reason);
    await session.publish(exchange, routingKey, message.body.content, properties);
    this.#state.recover();
  }
}

/** What a handler gets as the body of a message. */
export interface RabbitBody {
  /** A `Buffer`. */
  readonly content: Uint8Array;
  readonly properties: AmqpProperties;
  /** Where the message was published first. */
  readonly exchange: string;
  readonly routingKey: string;
}

const STATE = "x-redrive-state";
const EXCHANGE = "x-redrive-exchange";
const ROUTING_KEY = "x-redrive-routing-key";
const REASON = "x-redrive-reason";

/** Quorum queues count how often a message was returned to the queue. */
const DELIVERY_COUNT = "x-delivery-count";

/** Headers of an earlier delivery, and those that route further copies, must not stay on a copy. */
const DROPPED =
  /^(x-(redrive-.*|death|first-death-.*|last-death-.*|delivery-count|acquired-count)|CC|BCC)$/;

function messageOf(delivery: AmqpMessage, id: string): Message<RabbitBody> {
  const { content, fields, properties } = delivery;
  const headers = properties.headers ?? {};
  return {
    id,
    body: {
      content,
      properties,
      exchange: textOf(headers[EXCHANGE]) ?? fields.exchange,
      routingKey: textOf(headers[ROUTING_KEY]) ?? fields.routingKey,
    },
    deliveries: deliveriesOf(delivery),
    state: decodeState(textOf(headers[STATE])),
    isImmediate: true,
  };
}

/**
 * One delivery was lost, or none: a message that was delivered before is delayed first, so however often a
 * copy was delivered, its handler ran at most once.
 */
function deliveriesOf({ fields, properties }: AmqpMessage): number {
  const count = properties.headers?.[DELIVERY_COUNT];
  const isRepeated = typeof count === "number" ? count > 0 : fields.redelivered === true;
  return isRepeated ? 2 : 1;
}

/** The properties of a copy. Without a reason, the copy comes back. */
function copyProperties(
  { id, body }: Message<RabbitBody>,
  state: MessageState,
  reason?: string,
): AmqpProperties & { readonly mandatory: true } {
  const { properties, exchange, routingKey } = body;
  // The time to live would end in the delay queue. Only the first publisher may claim the user's id.
  const { expiration: _, userId: __, ...rest } = properties;
  const own = Object.entries(properties.headers ?? {}).filter(([name]) => !DROPPED.test(name));
  const headers = {
    ...Object.fromEntries(own),
    [STATE]: encodeState(state),
    [EXCHANGE]: exchange,
    [ROUTING_KEY]: routingKey,
    ...(reason !== undefined && { [REASON]: reason }),
  };
  return { ...rest, messageId: id, headers, deliveryMode: 2, mandatory: true };
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** What the adapter needs of the caller's `amqplib`. The library does not import it. */
export interface AmqpMessage {
  readonly content: Uint8Array;
  readonly fields: AmqpFields;
  readonly properties: AmqpProperties;
}

interface AmqpFields {
  readonly exchange: string;
  readonly routingKey: string;
  /** Absent in a message that the broker returns. */
  readonly redelivered?: boolean | undefined;
}

/** As `amqplib` has them. */
interface AmqpProperties {
  readonly headers?: Readonly<Record<string, unknown>> | undefined;
  readonly messageId?: unknown;
  readonly contentType?: unknown;
  readonly contentEncoding?: unknown;
  readonly correlationId?: unknown;
  readonly replyTo?: unknown;
  readonly timestamp?: unknown;
  readonly type?: unknown;
  readonly appId?: unknown;
  readonly priority?: unknown;
  readonly deliveryMode?: unknown;
  readonly expiration?: unknown;
  readonly userId?: unknown;
}

interface AmqpChannel {
  assertQueue(queue: string, options: object): Promise<unknown>;
  checkQueue(queue: string): Promise<unknown>;
  prefetch(count: number): Promise<unknown>;
  consume(
    queue: string,
    onMessage: (message: AmqpMessage | null) => void,
  ): Promise<{ readonly consumerTag: string }>;
  cancel(consumerTag: string): Promise<unknown>;
  publish(
    exchange: string,
    routingKey: string,
    content: Uint8Array,
    options: object,
    confirmed: (error: unknown) => void,
  ): boolean;
  ack(message: AmqpMessage, allUpTo?: boolean): void;
  close(): Promise<unknown>;
  on(event: string, listener: (...values: never[]) => void): unknown;
}

export interface AmqpConnection {
  createConfirmChannel(): Promise<AmqpChannel>;
  close(): Promise<unknown>;
  on(event: string, listener: (...values: never[]) => void): unknown;
}

interface SessionParts {
  readonly queue: string;
  /** The queues to create, with their options. */
  readonly declarations: ReadonlyMap<string, object>;
  readonly endOfTurn: (fn: () => void) => void;
  readonly onMessage: (delivery: OpenDelivery, session: RabbitSession) => void;
}

/** A header of each publish, by which a returned message is recognized. */
const PUBLISH_TOKEN = "x-redrive-publish";

/**
 * One connection to the broker, from open to closed. Deliveries belong to their session: after it is closed, the
 * broker delivers them again, and nothing can be done for them.
 */
class RabbitSession {
  /** Resolves with the cause when the session is closed. */
  readonly closed: Promise<unknown>;
  readonly #connection: AmqpConnection;
  readonly #channel: AmqpChannel;
  readonly #queue: string;
  readonly #acks: DeliveryAcks;
  readonly #onMessage: SessionParts["onMessage"];
  readonly #declared = new Set<string>();
  /** Messages that the broker could not route and returned. */
  readonly #returned = new Set<unknown>();

  // Mutable state.
  #close: (cause: unknown) => void = () => undefined;
  #isOpen = true;
  #consumerTag: string | undefined;
  /** Messages that it receives before their answers, and those that it should receive. */
  #prefetch = 0;
  #wantedPrefetch = 0;
  #changing: Promise<void> | undefined;
  #publishes = 0;

  private constructor(
    connection: AmqpConnection,
    channel: AmqpChannel,
    { queue, endOfTurn, onMessage }: SessionParts,
  ) {
    this.#connection = connection;
    this.#channel = channel;
    this.#queue = queue;
    this.#onMessage = onMessage;
    this.#acks = new DeliveryAcks({
      endOfTurn,
      // A closed session acknowledges nothing: the broker delivers the message again.
      ack: (message, allUpTo) => {
        if (this.#isOpen) channel.ack(message, allUpTo);
      },
    });
    this.closed = new Promise((resolve) => {
      this.#close = resolve;
    });
    const end = (cause: unknown) => {
      this.#isOpen = false;
      this.#close(cause);
    };
    // Without a listener, the event `error` would end the process. `close` follows it.
    let failure: unknown = new Error("the connection to the broker was closed");
    const fail = (error: unknown) => {
      failure = error;
    };
    connection.on("error", fail);
    connection.on("close", (error) => end(error ?? failure));
    channel.on("error", fail);
    channel.on("close", () => end(failure));
    channel.on("return", ({ properties }: AmqpMessage) => {
      this.#returned.add(properties.headers?.[PUBLISH_TOKEN]);
    });
  }

  /** Opens a session that receives messages. Leaves nothing open if it fails. */
  static async open(connection: AmqpConnection, parts: SessionParts): Promise<RabbitSession> {
    // An error of the connection before there is a session is reported by what fails.
    connection.on("error", () => undefined);
    try {
      const channel = await connection.createConfirmChannel();
      const session = new RabbitSession(connection, channel, parts);
      await session.#start(parts);
      return session;
    } catch (error) {
      await connection.close().catch(() => undefined);
      throw error;
    }
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  async #start({ queue, declarations }: SessionParts): Promise<void> {
    for (const [name, options] of declarations) await this.declare(name, options);
    if (!declarations.has(queue)) await this.#channel.checkQueue(queue);
  }

  /** From now on it receives so many messages before their answers. 0: none; those that it has stay. */
  async receive(prefetch: number): Promise<void> {
    this.#wantedPrefetch = prefetch;
    this.#changing ??= this.#change().finally(() => {
      this.#changing = undefined;
    });
    await this.#changing;
  }

  /** The limit of a consumer cannot be changed, so there is a new one. */
  async #change(): Promise<void> {
    while (this.#isOpen && this.#wantedPrefetch !== this.#prefetch) {
      const prefetch = this.#wantedPrefetch;
      if (this.#consumerTag !== undefined) await this.#channel.cancel(this.#consumerTag);
      this.#consumerTag = undefined;
      this.#prefetch = prefetch;
      if (prefetch === 0) continue;
      await this.#channel.prefetch(prefetch);
      this.#consumerTag = await this.#consume();
    }
  }

  async #consume(): Promise<string> {
    const { consumerTag } = await this.#channel.consume(this.#queue, (message) => {
      // Null: the queue was deleted, so there is nothing to consume.
      if (message === null) void this.close(new Error(`queue ${this.#queue} was deleted`));
      else this.#onMessage(this.#acks.begin(message), this);
    });
    return consumerTag;
  }

  /**
   * Creates a queue, once per session. It uses a channel of its own, because a queue that exists with
   * other options closes the channel.
   */
  async declare(name: string, options: object): Promise<void> {
    if (this.#declared.has(name)) return;
    const channel = await this.#connection.createConfirmChannel();
    channel.on("error", () => undefined);
    await channel.assertQueue(name, options);
    this.#declared.add(name);
    await channel.close();
  }

  /** Forgets that a queue exists. */
  undeclare(name: string): void {
    this.#declared.delete(name);
  }

  /** Resolves when the broker has stored the message in a queue. Rejects if no queue took it. */
  publish(
    exchange: string,
    routingKey: string,
    content: Uint8Array,
    properties: { readonly headers?: object | undefined },
  ): Promise<void> {
    const token = ++this.#publishes;
    const headers = { ...properties.headers, [PUBLISH_TOKEN]: token };
    return new Promise((resolve, reject) => {
      const confirmed = (error: unknown) => {
        if (error) reject(error);
        else if (this.#returned.delete(token)) reject(new Unroutable(exchange, routingKey));
        else resolve();
      };
      // Throws if the channel is closed.
      this.#channel.publish(exchange, routingKey, content, { ...properties, headers }, confirmed);
    });
  }

  /** The broker may forget the message. */
  ack(delivery: OpenDelivery): void {
    this.#acks.end(delivery);
  }

  async close(cause?: unknown): Promise<void> {
    this.#acks.flush();
    this.#isOpen = false;
    await this.#connection.close().catch(() => undefined);
    this.#close(cause);
  }
}

/** The exchange has no queue for the routing key. */
class Unroutable extends Error {
  override readonly name = "Unroutable";

  constructor(exchange: string, routingKey: string) {
    super(`no queue takes messages of exchange "${exchange}" with routing key "${routingKey}"`);
  }
}

/** A message without an acknowledgment, between its neighbors in the order of the deliveries. */
export interface OpenDelivery {
  readonly message: AmqpMessage;
  state: "running" | "ended" | "acknowledged";
  before: OpenDelivery | undefined;
  after: OpenDelivery | undefined;
}

interface DeliveryAcksParts {
  readonly endOfTurn: (fn: () => void) => void;
  /** `allUpTo`: with all earlier deliveries of the channel. */
  readonly ack: (message: AmqpMessage, allUpTo: boolean) => void;
}

/**
 * Acknowledges all messages that end in one turn of the event loop. The oldest messages, up to the first one that
 * still runs, need one frame together; each of the others needs its own.
 */
export class DeliveryAcks {
  readonly #parts: DeliveryAcksParts;

  // Mutable state.
  #oldest: OpenDelivery | undefined;
  #newest: OpenDelivery | undefined;
  #ended: OpenDelivery[] = [];

  constructor(parts: DeliveryAcksParts) {
    this.#parts = parts;
  }

  /** Called for every delivery of the channel, in their order. */
  begin(message: AmqpMessage): OpenDelivery {
    const before = this.#newest;
    const delivery: OpenDelivery = { message, state: "running", before, after: undefined };
    if (before === undefined) this.#oldest = delivery;
    else before.after = delivery;
    this.#newest = delivery;
    return delivery;
  }

  /** The message is acknowledged at the end of this turn. */
  end(delivery: OpenDelivery): void {
    delivery.state = "ended";
    if (this.#ended.push(delivery) === 1) this.#parts.endOfTurn(() => this.flush());
  }

  /** Acknowledges what has ended. */
  flush(): void {
    const ended = this.#ended;
    this.#ended = [];
    this.#ackOldest();
    for (const delivery of ended) if (delivery.state === "ended") this.#ackOne(delivery);
  }

  #ackOldest(): void {
    let last: OpenDelivery | undefined;
    for (let next = this.#oldest; next?.state === "ended"; next = next.after) {
      next.state = "acknowledged";
      last = next;
    }
    if (last === undefined) return;
    this.#oldest = last.after;
    if (last.after === undefined) this.#newest = undefined;
    else last.after.before = undefined;
    this.#parts.ack(last.message, true);
  }

  #ackOne(delivery: OpenDelivery): void {
    const { message, before, after } = delivery;
    delivery.state = "acknowledged";
    // It has an older neighbor that runs; otherwise it would be one of the oldest.
    if (before !== undefined) before.after = after;
    if (after === undefined) this.#newest = before;
    else after.before = before;
    this.#parts.ack(message, false);
  }
}
