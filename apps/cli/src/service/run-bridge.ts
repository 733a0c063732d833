/**
 * Run bridge: creates one task per message until it is stopped. A message is acknowledged after its
 * task is stored. While the service is down, messages wait at their broker; a message that the
 * service can never accept becomes a dead letter of the broker.
 */

import { createHash } from "node:crypto";
import {
  causedError,
  DocumentError,
  type ErrorCode,
  formatCount,
  quote,
  RedriveError,
} from "@redrive/core";
import type { Client, TaskToCreate } from "@redrive/service/client";
import { connect as connectAmqp } from "amqplib";
import { Redis } from "ioredis";
import { type Destination, destination, NonRetryableError } from "redrive";
import {
  type ConsumeEvent,
  type ConsumeOptions,
  consume,
  type RabbitBody,
  type RedisFields,
  rabbitmq,
  redisStreams,
} from "redrive/consume";
import type { Terminal } from "../terminal/terminal.ts";
import { bytesBody, MAX_SENT_BYTES } from "./send.ts";

export interface BridgeOptions extends SourceOptions, BridgeTaskOptions {
  readonly concurrency: number;
}

/**
 * A message is retried for as long as a policy allows, because a service that is down is no fault of the
 * message. After the breaker has opened, messages wait without using attempts.
 */
const PATIENT = {
  maxAttempts: 1000,
  initialDelayMs: 1000,
  maxDelayMs: 300_000,
  totalBudgetMs: 365 * 86_400_000,
} as const;

/**
 * Runs until `signal` is aborted. Throws if the queue cannot be read at the start. `onStart`: from now on
 * messages are handled, which a stop waits for.
 */
export async function runBridge(
  terminal: Terminal,
  client: Client,
  options: BridgeOptions,
  signal: AbortSignal,
  onStart: () => void = () => undefined,
): Promise<void> {
  const { from, queue, targetUrl } = options;
  const report = new BridgeReport(terminal);
  const source = openSource(options, (message) => createTask(client, message, options), {
    name: "bridge",
    destination: serviceGuards(),
    concurrency: options.concurrency,
    // What the service refuses for good is thrown as a `NonRetryableError`, which is not classified.
    classify: (result) => ("error" in result ? "transient" : undefined),
    onEvent: report.onEvent,
  });
  try {
    await source.start();
  } catch (cause) {
    await source.stop();
    const place = `${queue} at ${new URL(from).host}`;
    throw causedError("BROKER_UNAVAILABLE", `cannot read ${place}: ${textOf(cause)}`, cause);
  }
  onStart();
  terminal.print(`Messages of ${queue} become tasks to ${targetUrl}. Ctrl-C ends the bridge.\n`);
  await aborted(signal);
  await source.stop();
  terminal.print(`${report.summary()}\n`);
}

function serviceGuards(): Destination {
  return destination("service", {
    policy: PATIENT,
    // The broker spaces the deliveries. After an outage all messages are retries.
    retryBudget: false,
    breaker: { failureRate: 0.5, minCalls: 20 },
    concurrency: {},
  });
}

async function createTask(
  client: Client,
  message: BridgeMessage,
  options: BridgeTaskOptions,
): Promise<void> {
  try {
    const task = bridgeTask(message, options);
    const { content, hops } = message;
    if (content.length <= MAX_SENT_BYTES) {
      await client.createTask({ ...task, ...bytesBody(content) }, { hops });
      return;
    }
    const { bodyRef } = await client.uploadBody(new Uint8Array(content));
    await client.createTask({ ...task, bodyRef }, { hops });
  } catch (error) {
    throw isOfMessage(error) ? new NonRetryableError(error) : error;
  }
}

/** Problems of one message. All others are of the bridge or the service, and every message has them. */
const MESSAGE_CODES: ReadonlySet<ErrorCode> = new Set([
  "BODY_TOO_LARGE",
  "IDEMPOTENCY_CONFLICT",
  "STORE_REFUSED",
  "LOOP_DETECTED",
]);

const MESSAGE_FIELD = /^(headers|body|bodyBase64|bodyRef|idempotencyKey)(\.|$)/;

/** Whether the service will refuse the message again. */
export function isOfMessage(error: unknown): boolean {
  if (!(error instanceof RedriveError)) return false;
  if (MESSAGE_CODES.has(error.code)) return true;
  const isAboutFields = error instanceof DocumentError && error.code === "INVALID_ARGUMENT";
  return isAboutFields && error.problems.every(({ field }) => MESSAGE_FIELD.test(field));
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

// Bridge source: the queue that a bridge reads, of RabbitMQ or Redis, with the client of the broker
// and the adapter of the library.

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

interface BridgeSource {
  start(): Promise<void>;
  /** Waits for messages that are being handled, then closes the connection. */
  stop(): Promise<void>;
}

type Handle = (message: BridgeMessage) => Promise<void>;

function openSource(
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

// Bridge task: the task of the service that a message of a broker becomes. The same message always
// becomes the same task, so that a message that is delivered twice creates one task.

/** A message, independent of its broker. */
interface BridgeMessage {
  readonly id: string;
  readonly content: Buffer;
  /** With names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The Redrive services that it has passed through, so that a loop of queues and tasks ends. */
  readonly hops: number;
}

/** What all tasks of a bridge have in common. */
export interface BridgeTaskOptions {
  readonly targetUrl: string;
  /** The queue or stream. The keys of two queues differ, even if the ids of their messages do not. */
  readonly queue: string;
  readonly method?: string | undefined;
  /** Override those of the message. */
  readonly headers: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly policyId?: string | undefined;
}

/** The headers of a message that describe its trace. A task always has them. */
const DESCRIBING = ["traceparent", "tracestate"];

/** The fields of an entry of Redis that describe its body or its trace. */
const DESCRIBING_FIELDS = ["content-type", "content-encoding", ...DESCRIBING];

const HOP = "redrive-hop";

/** `forward`: further headers of the message that the request gets. */
export function rabbitMessage(
  id: string,
  { content, properties }: RabbitBody,
  forward: readonly string[],
): BridgeMessage {
  const { contentType, contentEncoding, headers: own = {} } = properties;
  const wanted = new Set([...DESCRIBING, ...forward.map((name) => name.toLowerCase())]);
  const headers: Record<string, string> = {};
  if (typeof contentType === "string") headers["content-type"] = contentType;
  if (typeof contentEncoding === "string") headers["content-encoding"] = contentEncoding;
  wanted.delete(HOP);
  for (const [name, value] of Object.entries(own)) {
    if (wanted.has(name.toLowerCase()) && isScalar(value)) headers[name.toLowerCase()] = `${value}`;
  }
  return { id, content: Buffer.from(content), headers, hops: hopsOf(own[HOP]) };
}

function hopsOf(value: unknown): number {
  return isScalar(value) && /^\d{1,9}$/.test(`${value}`) ? Number(value) : 0;
}

function isScalar(value: unknown): value is string | number | boolean {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}

/** `bodyField`: the field that is the body. Without it, the body is JSON with all fields. */
export function redisMessage(
  id: string,
  fields: RedisFields,
  bodyField: string | undefined,
): BridgeMessage {
  const hops = hopsOf(fields[HOP]);
  if (bodyField === undefined) {
    const headers = { "content-type": "application/json" };
    return { id, content: Buffer.from(JSON.stringify(fields)), headers, hops };
  }
  const described = DESCRIBING_FIELDS.flatMap((name) => {
    const value = fields[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  const headers = Object.fromEntries(described);
  return { id, content: Buffer.from(fields[bodyField] ?? ""), headers, hops };
}

/** The task of a message, without its body. */
export function bridgeTask(message: BridgeMessage, options: BridgeTaskOptions): TaskToCreate {
  const { targetUrl, queue, method, labels, policyId } = options;
  const headers = { ...message.headers };
  for (const [name, value] of Object.entries(options.headers)) headers[name.toLowerCase()] = value;
  return {
    targetUrl,
    ...(method !== undefined && { method: method.toUpperCase() }),
    ...(Object.keys(headers).length > 0 && { headers }),
    ...(Object.keys(labels).length > 0 && { labels }),
    ...(policyId !== undefined && { policyId }),
    idempotencyKey: keyOf(queue, message.id),
  };
}

const KEY = /^[\x21-\x7e]{1,255}$/;

/** An id that cannot be part of a key is hashed. */
function keyOf(queue: string, id: string): string {
  const key = `${queue}:${id}`;
  if (KEY.test(key)) return key;
  return `sha256:${createHash("sha256").update(key).digest("hex")}`;
}

// Bridge report: what a running bridge prints. It prints changes: the first failure and the
// recovery, not every message.

class BridgeReport {
  readonly #terminal: Terminal;

  // Mutable state.
  #tasks = 0;
  #deadLetters = 0;
  #isFailing = false;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  readonly onEvent = (event: ConsumeEvent): void => {
    switch (event.type) {
      case "handled":
        this.#tasks++;
        if (this.#isFailing) this.#say("the service accepts tasks again");
        this.#isFailing = false;
        break;
      case "retry":
        if (!this.#isFailing) {
          this.#say(`no task was created: ${textOf(event.error)}; messages wait at the broker`);
        }
        this.#isFailing = true;
        break;
      case "dead-letter":
        this.#deadLetters++;
        this.#say(`message ${quote(event.id)} is a dead letter: ${textOf(event.error)}`);
        break;
      case "broker-failed":
        this.#say(`the broker failed: ${textOf(event.error)}; next try in ${event.delayMs} ms`);
        break;
      case "broker-recovered":
        this.#say("the broker works again");
        break;
      default:
    }
  };

  /** One line for the end. */
  summary(): string {
    const tasks = formatCount(this.#tasks, "task");
    const deadLetters = formatCount(this.#deadLetters, "dead letter");
    return `${tasks} created, ${deadLetters}`;
  }

  #say(text: string): void {
    this.#terminal.printError(`${text}\n`);
  }
}

/** `fetch failed` alone says nothing; its cause does. */
function textOf(error: unknown): string {
  if (!(error instanceof Error)) return quote(error);
  const { cause } = error;
  return cause instanceof Error ? `${ownText(error)} (${ownText(cause)})` : ownText(error);
}

/** The error for a name with several addresses has only a code. */
function ownText(error: Error): string {
  return error.message || (error as NodeJS.ErrnoException).code || error.name;
}
