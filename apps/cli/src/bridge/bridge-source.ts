/**
 * Bridge source: the queue that a bridge reads, of RabbitMQ or Redis, with the client of the broker and
 * the adapter of the library.
 */
import { connect as connectAmqp } from "amqplib";
import { Redis } from "ioredis";
import {
  type ConsumeOptions,
  consume,
  type RabbitBody,
  type RedisFields,
  rabbitmq,
  redisStreams,
} from "redrive/consume";
import { type BridgeMessage, rabbitMessage, redisMessage } from "./bridge-task.ts";

export interface SourceOptions {
  /** `amqp:`, `amqps:`, `redis:` or `rediss:`. */
  readonly from: string;
  readonly queue: string;
  /** For Redis. */
  readonly group: string;
  readonly bodyField?: string | undefined;
  readonly idField?: string | undefined;
  /** For RabbitMQ: headers of a message that the request gets. */
  readonly forwardHeader: readonly string[];
}

export interface BridgeSource {
  start(): Promise<void>;
  /** Waits for messages that are being handled, then closes the connection. */
  stop(): Promise<void>;
}

type Handle = (message: BridgeMessage) => Promise<void>;

export function openSource(
  options: SourceOptions,
  handle: Handle,
  settings: ConsumeOptions,
): BridgeSource {
  return options.from.startsWith("amqp")
    ? rabbitSource(options, handle, settings)
    : redisSource(options, handle, settings);
}

/** How long the broker may take to accept a connection. */
const CONNECT_TIMEOUT_MS = 10_000;

function rabbitSource(
  { from, queue, forwardHeader }: SourceOptions,
  handle: Handle,
  settings: ConsumeOptions,
): BridgeSource {
  const consumer = consume<RabbitBody>(
    ({ id, body }) => handle(rabbitMessage(id, body, forwardHeader)),
    settings,
  );
  return rabbitmq(consumer, {
    connect: () => connectAmqp(from, { timeout: CONNECT_TIMEOUT_MS }),
    queue,
  });
}

/**
 * A lost connection is opened again, at least once per second. After a few tries the commands that wait
 * fail, so that the worker reports the failure and can be stopped. It repeats them itself.
 */
const REDIS_OPTIONS = {
  lazyConnect: true,
  connectTimeout: CONNECT_TIMEOUT_MS,
  maxRetriesPerRequest: 3,
  retryStrategy: (tries: number) => Math.min(100 * tries, 1000),
} as const;

function redisSource(
  { from, queue, group, bodyField, idField }: SourceOptions,
  handle: Handle,
  settings: ConsumeOptions,
): BridgeSource {
  const consumer = consume<RedisFields>(
    ({ id, body }) => handle(redisMessage(id, body, bodyField)),
    settings,
  );
  const client = new Redis(from, REDIS_OPTIONS);
  // The worker reports what fails. Without a listener, ioredis would print every error.
  let lastError: Error | undefined;
  client.on("error", (error) => {
    lastError = error;
  });
  const worker = redisStreams(consumer, {
    client,
    stream: queue,
    group,
    ...(idField !== undefined && { idField }),
  });
  let isConnected = false;
  return {
    async start() {
      try {
        await client.connect();
        isConnected = true;
      } catch (cause) {
        // ioredis would go on trying, and its own error hides why it cannot connect.
        client.disconnect();
        throw lastError ?? cause;
      }
      await worker.start();
    },
    async stop() {
      // Commands of a client that never connected wait forever.
      if (isConnected) await worker.stop();
      client.disconnect();
    },
  };
}
