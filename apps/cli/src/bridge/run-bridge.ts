/**
 * Run bridge: creates one task per message until it is stopped. A message is acknowledged after its task
 * is stored. While the service is down, messages wait at their broker; a message that the service can
 * never accept becomes a dead letter of the broker.
 */
import { causedError, DocumentError, type ErrorCode, RedriveError } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import { type Destination, destination, NonRetryableError } from "redrive";
import type { Terminal } from "../print/terminal.ts";
import { bytesBody, MAX_SENT_BYTES } from "../service/bytes-body.ts";
import { BridgeReport, textOf } from "./bridge-report.ts";
import { openSource, type SourceOptions } from "./bridge-source.ts";
import { type BridgeMessage, type BridgeTaskOptions, bridgeTask } from "./bridge-task.ts";

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
