/**
 * Memory RabbitMQ: as much of a RabbitMQ in memory as the adapter uses, with the interface of amqplib:
 * prefetch, confirmed and mandatory publishes, delay queues with a time to live, and the return of
 * messages whose connection is lost, with their count of deliveries. `test/fleet/rabbitmq.test.ts` runs
 * the same tests with it and with a real RabbitMQ.
 */
import type { TimeSource } from "@redrive/core";

interface Stored {
  readonly content: Uint8Array;
  readonly properties: Readonly<Record<string, unknown>>;
  readonly exchange: string;
  readonly routingKey: string;
  /** Returns to the queue. */
  returns: number;
  expiresAt: number;
}

interface Queue {
  readonly name: string;
  readonly isQuorum: boolean;
  readonly ttlMs: number | undefined;
  readonly next: string | undefined;
  ready: Deque;
  readonly consumers: Subscription[];
  alarmAt: number;
}

type OnMessage = (message: Delivered | null) => void;

interface Delivered {
  readonly content: Uint8Array;
  readonly fields: {
    readonly deliveryTag: number;
    readonly redelivered: boolean;
    readonly exchange: string;
    readonly routingKey: string;
    readonly consumerTag: string;
  };
  readonly properties: Readonly<Record<string, unknown>>;
}

interface Subscription {
  readonly tag: string;
  readonly queue: Queue;
  readonly channel: MemoryChannel;
  readonly onMessage: OnMessage;
  readonly prefetch: number;
  unacked: number;
  isCancelled: boolean;
}

/** Messages in order, also returned ones at the front. */
class Deque {
  #items: (Stored | undefined)[] = [];
  #head = 0;

  get size(): number {
    return this.#items.length - this.#head;
  }

  first(): Stored | undefined {
    return this.#items[this.#head];
  }

  push(message: Stored): void {
    this.#items.push(message);
  }

  shift(): Stored | undefined {
    const first = this.#items[this.#head];
    if (first === undefined) return undefined;
    this.#items[this.#head++] = undefined;
    if (this.#head > 10_000 && this.#head * 2 > this.#items.length) this.#compact([]);
    return first;
  }

  putBack(messages: readonly Stored[]): void {
    this.#compact(messages);
  }

  #compact(before: readonly Stored[]): void {
    this.#items = [...before, ...this.#items.slice(this.#head)];
    this.#head = 0;
  }
}

const LATENCY_MS = 1;

class NotFound extends Error {
  readonly code = 404;
}

export class MemoryRabbit {
  readonly time: TimeSource;
  readonly #queues = new Map<string, Queue>();
  readonly #connections = new Set<MemoryConnection>();
  isDown = false;
  tags = 0;
  publishes = 0;

  constructor(time: TimeSource) {
    this.time = time;
  }

  async connect(): Promise<MemoryConnection> {
    await this.latency();
    if (this.isDown) throw new Error("connect ECONNREFUSED");
    const connection = new MemoryConnection(this);
    this.#connections.add(connection);
    return connection;
  }

  latency(): Promise<void> {
    return new Promise((resolve) => void this.time.alarm(LATENCY_MS, resolve));
  }

  /** Cuts all connections. Queues and messages stay. */
  cut(): void {
    for (const connection of [...this.#connections]) connection.cut();
  }

  forget(connection: MemoryConnection): void {
    this.#connections.delete(connection);
  }

  declare(name: string, options: { readonly arguments?: Readonly<Record<string, unknown>> }): void {
    if (this.#queues.has(name)) return;
    const args = options.arguments ?? {};
    this.#queues.set(name, {
      name,
      isQuorum: args["x-queue-type"] === "quorum",
      ttlMs: args["x-message-ttl"] as number | undefined,
      next: args["x-dead-letter-routing-key"] as string | undefined,
      ready: new Deque(),
      consumers: [],
      alarmAt: Number.POSITIVE_INFINITY,
    });
  }

  queue(name: string): Queue {
    const queue = this.#queues.get(name);
    if (queue === undefined) throw new NotFound(`NOT_FOUND - no queue '${name}'`);
    return queue;
  }

  /** Ready messages; 0 if there is no such queue. */
  sizeOf(name: string): number {
    return this.#queues.get(name)?.ready.size ?? 0;
  }

  /** Messages of all queues but one, as a queue of dead letters. */
  sizeWithout(name: string): number {
    let size = 0;
    for (const queue of this.#queues.values()) if (queue.name !== name) size += queue.ready.size;
    return size;
  }

  /** False if no queue takes the message. */
  publish(routingKey: string, content: Uint8Array, properties: object): boolean {
    const queue = this.#queues.get(routingKey);
    if (queue === undefined) return false;
    const own = properties as Readonly<Record<string, unknown>>;
    const expiresAt = this.time.now() + (queue.ttlMs ?? Number.POSITIVE_INFINITY);
    const message = { content, properties: own, exchange: "", routingKey, returns: 0, expiresAt };
    queue.ready.push(message);
    this.deliver(queue);
    return true;
  }

  deliver(queue: Queue): void {
    this.#expire(queue);
    for (;;) {
      const free = queue.consumers.filter(({ unacked, prefetch }) => unacked < prefetch);
      // In turns: the one with the fewest unanswered messages.
      const [subscription] = free.toSorted((a, b) => a.unacked - b.unacked);
      const message = subscription === undefined ? undefined : queue.ready.shift();
      if (message === undefined) return;
      subscription?.channel.deliver(subscription, message);
    }
  }

  /** RabbitMQ removes expired messages at the head of the queue. */
  #expire(queue: Queue): void {
    const { ttlMs, next } = queue;
    if (ttlMs === undefined) return;
    let first = queue.ready.first();
    for (; first !== undefined && first.expiresAt <= this.time.now(); first = queue.ready.first()) {
      queue.ready.shift();
      this.publish(next ?? "", first.content, first.properties);
    }
    if (first === undefined || queue.alarmAt <= first.expiresAt) return;
    queue.alarmAt = first.expiresAt;
    this.time.alarm(first.expiresAt - this.time.now(), () => {
      queue.alarmAt = Number.POSITIVE_INFINITY;
      this.#expire(queue);
    });
  }
}

type Listener = (...values: never[]) => void;

class Emitter {
  readonly #listeners = new Map<string, Listener[]>();

  on(event: string, listener: Listener): this {
    this.#listeners.set(event, [...(this.#listeners.get(event) ?? []), listener]);
    return this;
  }

  emit(event: string, ...values: unknown[]): void {
    for (const listener of this.#listeners.get(event) ?? []) {
      (listener as (...values: unknown[]) => void)(...values);
    }
  }
}

export class MemoryConnection extends Emitter {
  readonly #rabbit: MemoryRabbit;
  readonly #channels = new Set<MemoryChannel>();
  #isOpen = true;

  constructor(rabbit: MemoryRabbit) {
    super();
    this.#rabbit = rabbit;
  }

  async createConfirmChannel(): Promise<MemoryChannel> {
    await this.#rabbit.latency();
    if (!this.#isOpen) throw new Error("Connection closed");
    const channel = new MemoryChannel(this.#rabbit, (one) => this.#channels.delete(one));
    this.#channels.add(channel);
    return channel;
  }

  /** The broker learns that the consumer is gone. */
  cut(error: Error | undefined = new Error("read ECONNRESET")): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#rabbit.forget(this);
    for (const channel of [...this.#channels]) channel.end();
    if (error !== undefined) this.emit("error", error);
    this.emit("close", error);
  }

  async close(): Promise<void> {
    await this.#rabbit.latency();
    this.cut(undefined);
  }
}

export class MemoryChannel extends Emitter {
  readonly #rabbit: MemoryRabbit;
  readonly #forget: (channel: MemoryChannel) => void;
  readonly #unacked = new Map<number, readonly [Subscription, Stored]>();
  readonly #subscriptions = new Map<string, Subscription>();
  #prefetch = Number.POSITIVE_INFINITY;
  #tag = 0;
  #isOpen = true;

  constructor(rabbit: MemoryRabbit, forget: (channel: MemoryChannel) => void) {
    super();
    this.#rabbit = rabbit;
    this.#forget = forget;
  }

  async assertQueue(name: string, options: object): Promise<unknown> {
    await this.#arrive();
    this.#rabbit.declare(name, options);
    return { queue: name };
  }

  async checkQueue(name: string): Promise<unknown> {
    await this.#arrive();
    return { queue: name, messageCount: this.#rabbit.queue(name).ready.size };
  }

  async prefetch(count: number): Promise<unknown> {
    await this.#arrive();
    this.#prefetch = count;
    return {};
  }

  async consume(name: string, onMessage: OnMessage): Promise<{ readonly consumerTag: string }> {
    await this.#arrive();
    const queue = this.#rabbit.queue(name);
    const tag = `consumer-${++this.#rabbit.tags}`;
    const place = { tag, queue, channel: this, onMessage, prefetch: this.#prefetch };
    const subscription: Subscription = { ...place, unacked: 0, isCancelled: false };
    this.#subscriptions.set(tag, subscription);
    queue.consumers.push(subscription);
    this.#rabbit.time.alarm(0, () => this.#rabbit.deliver(queue));
    return { consumerTag: tag };
  }

  async cancel(tag: string): Promise<unknown> {
    await this.#arrive();
    this.#unsubscribe(tag);
    return {};
  }

  #unsubscribe(tag: string): void {
    const subscription = this.#subscriptions.get(tag);
    if (subscription === undefined) return;
    subscription.isCancelled = true;
    this.#subscriptions.delete(tag);
    const { consumers } = subscription.queue;
    consumers.splice(consumers.indexOf(subscription), 1);
  }

  deliver(subscription: Subscription, message: Stored): void {
    subscription.unacked++;
    const deliveryTag = ++this.#tag;
    this.#unacked.set(deliveryTag, [subscription, message]);
    const { content, properties, exchange, routingKey, returns } = message;
    const counted = subscription.queue.isQuorum && returns > 0;
    const headers = {
      ...(properties["headers"] as object | undefined),
      ...(counted && { "x-delivery-count": returns }),
    };
    const fields = { deliveryTag, redelivered: returns > 0, exchange, routingKey };
    const { tag: consumerTag, onMessage } = subscription;
    this.#rabbit.time.alarm(LATENCY_MS, () => {
      if (!this.#isOpen) return;
      const delivered = { ...fields, consumerTag };
      onMessage({ content, fields: delivered, properties: { ...properties, headers } });
    });
  }

  ack({ fields }: { readonly fields: object }, allUpTo = false): void {
    const { deliveryTag } = fields as { readonly deliveryTag: number };
    if (!this.#isOpen) throw new Error("Channel closed");
    this.#rabbit.time.alarm(LATENCY_MS, () => {
      if (!this.#isOpen) return;
      const queues = new Set<Queue>();
      for (const [tag, [subscription]] of this.#unacked) {
        if (tag > deliveryTag) break;
        if (tag < deliveryTag && !allUpTo) continue;
        this.#unacked.delete(tag);
        subscription.unacked--;
        queues.add(subscription.queue);
      }
      for (const queue of queues) this.#rabbit.deliver(queue);
    });
  }

  publish(
    exchange: string,
    routingKey: string,
    content: Uint8Array,
    options: { readonly mandatory?: boolean },
    confirmed: (error: unknown) => void,
  ): boolean {
    if (!this.#isOpen) throw new Error("Channel closed");
    this.#rabbit.publishes++;
    const { mandatory = false, ...properties } = options;
    this.#rabbit.time.alarm(LATENCY_MS, () => {
      if (!this.#isOpen) return confirmed(new Error("channel closed"));
      const isRouted = exchange === "" && this.#rabbit.publish(routingKey, content, properties);
      this.#rabbit.time.alarm(LATENCY_MS, () => {
        if (!isRouted && mandatory) this.emit("return", { fields: {}, properties, content });
        confirmed(this.#isOpen ? null : new Error("channel closed"));
      });
    });
    return true;
  }

  async close(): Promise<unknown> {
    await this.#rabbit.latency();
    this.end();
    return {};
  }

  /** Unanswered messages return to the front of their queues, in their order. */
  end(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#forget(this);
    for (const tag of [...this.#subscriptions.keys()]) this.#unsubscribe(tag);
    const returned = new Map<Queue, Stored[]>();
    for (const [{ queue }, message] of this.#unacked.values()) {
      message.returns++;
      returned.set(queue, [...(returned.get(queue) ?? []), message]);
    }
    this.#unacked.clear();
    for (const [queue, messages] of returned) {
      queue.ready.putBack(messages);
      this.#rabbit.deliver(queue);
    }
    this.emit("close");
  }

  async #arrive(): Promise<void> {
    await this.#rabbit.latency();
    if (!this.#isOpen) throw new Error("Channel closed");
  }
}
