/**
 * RabbitMQ world: a real RabbitMQ, a channel of the test, and consumers that each have a queue of their
 * own.
 */
import { type ChannelModel, type ConfirmChannel, connect } from "amqplib";
import {
  type ConsumeOptions,
  consume,
  type Message,
  type MessageContext,
  type RabbitBody,
  type RabbitOptions,
  rabbitmq,
  type Worker,
} from "redrive/consume";
import { type RabbitmqServer, startRabbitmq } from "../servers/rabbitmq.ts";
import { Received } from "./received.ts";

export type Handler = (message: Message<RabbitBody>, context: MessageContext) => unknown;

export const QUORUM = { durable: true, arguments: { "x-queue-type": "quorum" } };

export class RabbitWorld {
  readonly server: RabbitmqServer;

  // Mutable state: replaced after a crash of the server.
  connection: ChannelModel;
  channel: ConfirmChannel;
  #queues = 0;
  readonly #workers: Worker[] = [];

  private constructor(server: RabbitmqServer, connection: ChannelModel, channel: ConfirmChannel) {
    this.server = server;
    this.connection = connection;
    this.channel = channel;
  }

  static async start(): Promise<RabbitWorld> {
    const server = await startRabbitmq();
    return new RabbitWorld(server, ...(await connectTo(server.url)));
  }

  async restart(): Promise<void> {
    await this.server.crash();
    await this.server.start();
    [this.connection, this.channel] = await connectTo(this.server.url);
  }

  async stopWorkers(): Promise<void> {
    await Promise.all(this.#workers.splice(0).map((worker) => worker.stop(0)));
  }

  async stop(): Promise<void> {
    await this.connection.close();
    await this.server.stop();
  }

  /** A consumer of its own queue. Messages come back after 20 or 40 ms. */
  consumer(
    handler: Handler,
    options: ConsumeOptions = {},
    rabbit: Partial<RabbitOptions> & { readonly url?: string } = {},
  ) {
    const { url = this.server.url, queue = `orders-${++this.#queues}`, ...more } = rabbit;
    const received = new Received();
    const policy = { maxAttempts: 3, initialDelayMs: 20, maxDelayMs: 40, jitterType: "NONE" };
    const consumer = consume(handler, {
      policy: policy as ConsumeOptions["policy"],
      minDelayMs: 1,
      deferMs: 2,
      onEvent: received.onEvent,
      ...options,
    });
    const worker = rabbitmq(consumer, {
      connect: () => connect(url),
      queue,
      queueOptions: QUORUM,
      tiersMs: [20, 40, 100],
      ...more,
    });
    this.#workers.push(worker);
    const add = (...ids: string[]) => this.publish(queue, ids);
    return { queue, received, consumer, worker, add };
  }

  async publish(queue: string, ids: readonly string[]): Promise<void> {
    const { channel } = this;
    for (const messageId of ids) {
      const body = Buffer.from(`body of ${messageId}`);
      channel.sendToQueue(queue, body, { messageId, persistent: true });
    }
    await channel.waitForConfirms();
  }

  /** Ready messages of a queue; 0 if it does not exist. */
  async sizeOf(queue: string): Promise<number> {
    const own = await this.connection.createChannel();
    own.on("error", () => undefined);
    try {
      return (await own.checkQueue(queue)).messageCount;
    } catch {
      return 0;
    } finally {
      await own.close().catch(() => undefined);
    }
  }
}

async function connectTo(url: string): Promise<[ChannelModel, ConfirmChannel]> {
  const connection = await connect(url);
  connection.on("error", () => undefined);
  return [connection, await connection.createConfirmChannel()];
}
