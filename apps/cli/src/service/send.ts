/** `redrive send`: creates a task in a running service, which retries the request if it fails. */

import { isUtf8 } from "node:buffer";
import { createReadStream, statSync } from "node:fs";
import { Readable } from "node:stream";
import { causedError, RedriveError, systemClock } from "@redrive/core";
import type { Client, CreatedTask, TaskToCreate } from "@redrive/service/client";
import { type Command, InvalidArgumentError, Option } from "commander";
import { parseJson, readBytes } from "../terminal/documents.ts";
import { addExamples, didYouMean, durationFlag, withFlagNames } from "../terminal/flags.ts";
import { FAILED, OK, type Presentation } from "../terminal/presentation.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { addServiceFlags, type ClientFlags, callService } from "./service-client.ts";
import { lastResultText } from "./task-text.ts";

interface SendFlags extends ClientFlags {
  readonly method?: string;
  readonly header: Readonly<Record<string, string>>;
  readonly label: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly bodyJson?: string;
  readonly bodyFile?: string;
  readonly destination?: string;
  readonly policy?: string;
  readonly key?: string;
  readonly in?: number;
  readonly wait?: number;
}

/** The service delays its response by at most this long. */
const MAX_WAIT_MS = 25_000;

export function addSend(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("send <url>")
    .description("Send a request through a running service, which retries it if it fails.");
  command
    .option("-X, --method <method>", "HTTP method (default: POST)")
    .addOption(
      pairsOption(
        "-H, --header <name=value>",
        'a request header, also as "name: value"; repeatable',
        headerFlag,
      ),
    )
    .addOption(
      new Option("--body <text>", "request body, sent unchanged").conflicts(otherBodies("body")),
    )
    .addOption(
      new Option("--body-json <json>", "request body, sent as application/json").conflicts(
        otherBodies("bodyJson"),
      ),
    )
    .addOption(
      new Option(
        "--body-file <file>",
        "request body from a file; - reads standard input",
      ).conflicts(otherBodies("bodyFile")),
    )
    .option("--destination <name>", "whose guards apply (default: the origin of the URL)")
    .option("--policy <id>", "a registered policy or a preset (default: that of the destination)")
    .option(
      "--key <key>",
      "idempotency key: sending again with the same key creates no second task",
    )
    .addOption(
      pairsOption("--label <name=value>", "a label for finding the task; repeatable", labelFlag),
    )
    .option("--in <duration>", "delay before the first attempt", durationFlag)
    .option("--wait <duration>", "wait until the task ends, at most 25s", waitFlag);
  addServiceFlags(command);
  addExamples(
    command,
    "redrive send https://example.com/orders --body-json '{\"order\":42}' --key order-42",
    "redrive send https://example.com/ping --method GET --policy read --wait 5s",
    "redrive send grpcs://example.com/shop.v1.Orders/Create --body-file order.bin",
    "redrive send 'amqps://example.com/?queue=orders' --body-json '{\"order\":42}'",
  );
  command.action((target: string, flags: SendFlags) =>
    callService(terminal, flags, async (client) => {
      const waitSeconds = Math.ceil((flags.wait ?? 0) / 1000);
      const task = await withUpload(client, target, flags);
      const create = () => client.createTask(task, { waitSeconds });
      return presentCreated(
        await withFlagNames(FLAG_BY_FIELD, () => withPolicyHint(client, flags.policy, create)),
      );
    }),
  );
}

/** Adds the nearest name to the error for an unknown policy. */
async function withPolicyHint<T>(
  client: Client,
  policy: string | undefined,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isUnknown = error instanceof RedriveError && error.code === UNKNOWN_POLICY;
    if (!isUnknown || policy === undefined) throw error;
    const { policies } = await client.listPolicies();
    const hint = didYouMean(
      policy,
      policies.map(({ policyId }) => policyId),
    );
    if (hint === "") throw error;
    throw causedError(error.code, `${error.message}.${hint}`, error);
  }
}

/** A code of the service. The type of core's codes does not list it. */
const UNKNOWN_POLICY: string = "UNKNOWN_POLICY";

const BODY_FLAGS = ["body", "bodyJson", "bodyFile"] as const;

/** A task has at most one body. */
function otherBodies(flag: (typeof BODY_FLAGS)[number]): string[] {
  return BODY_FLAGS.filter((other) => other !== flag);
}

/** The flag that sets each field of a task, for the error messages of the service. */
const FLAG_BY_FIELD: Readonly<Record<string, string>> = {
  targetUrl: "<url>",
  method: "--method",
  headers: "--header",
  labels: "--label",
  policyId: "--policy",
  destination: "--destination",
  idempotencyKey: "--key",
  scheduledAt: "--in",
  json: "--body-json",
  body: "--body",
  bodyBase64: "--body-file",
};

/** A long file is uploaded as a stream. */
async function withUpload(client: Client, target: string, flags: SendFlags): Promise<TaskToCreate> {
  const { bodyFile, ...rest } = flags;
  const isFile = bodyFile !== undefined && bodyFile !== "-";
  if (!isFile || !isLong(bodyFile)) return taskToCreate(target, flags);
  const stream = Readable.toWeb(createReadStream(bodyFile)) as ReadableStream<Uint8Array>;
  const { bodyRef } = await client.uploadBody(stream);
  return { ...taskToCreate(target, rest), bodyRef };
}

/** A file that does not exist is reported when it is read. */
function isLong(path: string): boolean {
  return (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > MAX_SENT_BYTES;
}

function taskToCreate(targetUrl: string, flags: SendFlags): TaskToCreate {
  const { method, header, label, destination, policy, key, in: inMs } = flags;
  return {
    targetUrl,
    ...(method !== undefined && { method: method.toUpperCase() }),
    ...(Object.keys(header).length > 0 && { headers: header }),
    ...(Object.keys(label).length > 0 && { labels: label }),
    ...(destination !== undefined && { destination }),
    ...(policy !== undefined && { policyId: policy }),
    ...(key !== undefined && { idempotencyKey: key }),
    ...(inMs !== undefined && { scheduledAt: systemClock.now() + inMs }),
    ...bodyOf(flags),
  };
}

function bodyOf({ body, bodyJson, bodyFile }: SendFlags): Partial<TaskToCreate> {
  if (bodyJson !== undefined) {
    return { json: parseJson(bodyJson, "--body-json", "; use --body for other text") };
  }
  if (body !== undefined) return { body };
  return bodyFile === undefined ? {} : bytesBody(readBytes(bodyFile));
}

/** The exit code is 1 if the task has ended without success. */
function presentCreated(task: CreatedTask): Presentation {
  const { taskId, status, replayed, attemptNumber } = task;
  const hasFailed = status === "EXHAUSTED" || status === "CANCELLED";
  const tries = attemptNumber ? `, attempt ${attemptNumber}` : "";
  const why = hasFailed ? failureText(task) : "";
  return {
    json: task,
    text: () => [
      `${taskId}  ${status}${tries}${why}${replayed ? "  (the key is known: no new task was created)" : ""}`,
    ],
    exitCode: hasFailed ? FAILED : OK,
  };
}

/** For example ": 400, not-retryable (redrive explain ID)". */
function failureText({ taskId, reason, lastStatus = null, lastError = null }: CreatedTask): string {
  const causes = [lastResultText({ lastStatus, lastError }), reason].filter(Boolean).join(", ");
  return `${causes === "" ? "" : `: ${causes}`} (redrive explain ${taskId})`;
}

type Pairs = Readonly<Record<string, string>>;

/** Collects name=value pairs. Headers may also be "name: value", as in curl. */
function pairFlag(pattern: RegExp): (text: string, before: Pairs) => Pairs {
  return (text, before) => {
    const [, name, value] = pattern.exec(text) ?? [];
    if (name !== undefined && value !== undefined) return { ...before, [name]: value };
    throw new InvalidArgumentError("Must be name=value.");
  };
}

export function pairsOption(
  flags: string,
  text: string,
  parse: ReturnType<typeof pairFlag>,
): Option {
  return new Option(flags, text).argParser(parse).default({}, "none");
}

export const headerFlag = pairFlag(/^([^=:\s]+)(?:=|:\s*)(.*)$/su);
export const labelFlag = pairFlag(/^([^=\s]+)=(.*)$/su);

function waitFlag(text: string): number {
  const ms = durationFlag(text);
  if (ms <= MAX_WAIT_MS) return ms;
  throw new InvalidArgumentError(
    `Must be at most 25s. To wait longer, send without --wait, then use \`redrive tasks get --wait ${text}\`.`,
  );
}

/** A longer body is uploaded before, because a create may have at most 1 MiB in all. */
export const MAX_SENT_BYTES: number = 512 * 1024;

/** Bytes that are not UTF-8 text are sent as Base64, which preserves them. */
export function bytesBody(bytes: Buffer): Pick<TaskToCreate, "body" | "bodyBase64"> {
  return isUtf8(bytes)
    ? { body: bytes.toString("utf8") }
    : { bodyBase64: bytes.toString("base64") };
}
