/**
 * RabbitMQ session: one connection to the broker, from open to closed. Deliveries belong to their
 * session: after it is closed, the broker delivers them again, and nothing can be done for them.
 */
import type { AmqpChannel, AmqpConnection, AmqpMessage } from "./amqp-client.ts";
import { PUBLISH_TOKEN } from "./amqp-delivery.ts";
import { DeliveryAcks, type OpenDelivery } from "./delivery-acks.ts";

export interface SessionParts {
  readonly queue: string;
  readonly prefetch: number;
  /** The queues to create, with their options. */
  readonly declarations: ReadonlyMap<string, object>;
  readonly endOfTurn: (fn: () => void) => void;
  readonly onMessage: (delivery: OpenDelivery, session: RabbitSession) => void;
}

export class RabbitSession {
  /** Resolves with the cause when the session is closed. */
  readonly closed: Promise<unknown>;
  readonly #connection: AmqpConnection;
  readonly #channel: AmqpChannel;
  readonly #queue: string;
  readonly #acks: DeliveryAcks;
  readonly #declared = new Set<string>();
  /** Messages that the broker could not route and returned. */
  readonly #returned = new Set<unknown>();

  // Mutable state.
  #close: (cause: unknown) => void = () => undefined;
  #isOpen = true;
  #consumerTag: string | undefined;
  #publishes = 0;

  private constructor(
    connection: AmqpConnection,
    channel: AmqpChannel,
    { queue, endOfTurn }: SessionParts,
  ) {
    this.#connection = connection;
    this.#channel = channel;
    this.#queue = queue;
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

  async #start({ queue, prefetch, declarations, onMessage }: SessionParts): Promise<void> {
    for (const [name, options] of declarations) await this.declare(name, options);
    if (!declarations.has(queue)) await this.#channel.checkQueue(queue);
    await this.#channel.prefetch(prefetch);
    const { consumerTag } = await this.#channel.consume(queue, (message) => {
      // Null: the queue was deleted, so there is nothing to consume.
      if (message === null) void this.close(new Error(`queue ${this.#queue} was deleted`));
      else onMessage(this.#acks.begin(message), this);
    });
    this.#consumerTag = consumerTag;
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

  /** Receives no more messages. Those that it has stay its own. */
  async cancel(): Promise<void> {
    if (this.#isOpen && this.#consumerTag !== undefined) {
      await this.#channel.cancel(this.#consumerTag).catch(() => undefined);
    }
  }

  async close(cause?: unknown): Promise<void> {
    this.#acks.flush();
    this.#isOpen = false;
    await this.#connection.close().catch(() => undefined);
    this.#close(cause);
  }
}

/** The exchange has no queue for the routing key. */
export class Unroutable extends Error {
  override readonly name = "Unroutable";

  constructor(exchange: string, routingKey: string) {
    super(`no queue takes messages of exchange "${exchange}" with routing key "${routingKey}"`);
  }
}
