/**
 * RabbitMQ: consumes the messages of a queue with the caller's own `amqplib`. Messages that come back
 * wait in delay queues, one for each delay, and return to their queue when their time to live ends.
 */
import {
  checkFields,
  choiceRule,
  DocumentError,
  type Fields,
  invalidArgument,
  numberRule,
  type Rule,
  textRule,
} from "@redrive/core";
import type { Consumer } from "../consumer.ts";
import { assertTiers, DEFAULT_TIERS } from "../delay-tiers.ts";
import type { Worker } from "../worker.ts";
import type { AmqpConnection, AmqpMessage } from "./amqp-client.ts";
import type { RabbitBody } from "./amqp-delivery.ts";
import { RabbitWorker } from "./rabbit-worker.ts";

export interface RabbitOptions {
  /** Opens a connection: `() => amqplib.connect(url)`. Called again when one is lost. */
  readonly connect: () => Promise<AmqpConnection>;
  /** The queue to consume. It must exist, unless `queueOptions` are given. */
  readonly queue: string;
  /** Creates the queue with these options of `assertQueue`. Default: it must exist. */
  readonly queueOptions?: object | undefined;
  /** Messages that the broker delivers before their answers. 1 to 65,535. Default: the consumer's concurrency. */
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
    prefetch: options.prefetch ?? consumer.concurrency,
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
