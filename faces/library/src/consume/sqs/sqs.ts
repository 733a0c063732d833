/**
 * SQS: consumes the messages of a queue with the caller's own client. SQS itself does the waiting: a
 * message that comes back is invisible until then.
 */
import {
  checkFields,
  DocumentError,
  type Fields,
  invalidArgument,
  numberRule,
  type Rule,
  textRule,
} from "@redrive/core";
import type { Consumer } from "../consumer.ts";
import type { Worker } from "../worker.ts";
import type { SqsClient, SqsMessage } from "./sqs-client.ts";
import { SqsWorker } from "./sqs-worker.ts";

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
const clientRule: Rule = (value) =>
  typeof (value as SqsClient | null)?.receiveMessage === "function"
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
