/** `redrive send`: creates a task in a running service, which retries the request if it fails. */
import { isUtf8 } from "node:buffer";
import { createReadStream, statSync } from "node:fs";
import { Readable } from "node:stream";
import { causedError, systemClock } from "@redrive/core";
import type { Client, CreatedTask, TaskToCreate } from "@redrive/service/client";
import { type Command, InvalidArgumentError, Option } from "commander";
import { readBytes } from "../input/documents.ts";
import { addExamples, choiceFlag, durationFlag } from "../input/flags.ts";
import { FAILED, OK, type Presentation } from "../print/presentation.ts";
import type { Terminal } from "../print/terminal.ts";
import { addConnectionFlags, type ClientFlags, callService } from "./service-client.ts";

interface SendFlags extends Omit<ClientFlags, "json"> {
  readonly method?: string;
  readonly header: Readonly<Record<string, string>>;
  readonly label: Readonly<Record<string, string>>;
  /** The request body. The output format is `--output`. */
  readonly json?: string;
  readonly data?: string;
  readonly dataFile?: string;
  readonly policy?: string;
  readonly key?: string;
  readonly in?: number;
  readonly wait?: number;
  readonly output: "text" | "json";
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
      new Option("--json <text>", "request body, sent as application/json").conflicts([
        "data",
        "dataFile",
      ]),
    )
    .addOption(new Option("--data <text>", "request body, sent unchanged").conflicts("dataFile"))
    .option("--data-file <file>", "request body from a file; - reads standard input")
    .option("--policy <id>", "a registered policy or a preset (default: background)")
    .option(
      "--key <key>",
      "idempotency key: sending again with the same key creates no second task",
    )
    .addOption(
      pairsOption("--label <name=value>", "a label for finding the task; repeatable", labelFlag),
    )
    .option("--in <duration>", "delay before the first attempt", durationFlag)
    .option("--wait <duration>", "wait until the task ends, at most 25s", waitFlag)
    .option("--output <format>", "output format: text or json", choiceFlag("text", "json"), "text");
  addConnectionFlags(command);
  addExamples(
    command,
    "redrive send https://example.com/orders --json '{\"order\":42}' --key order-42",
    "redrive send https://example.com/ping --method GET --policy read --wait 5s",
    "redrive send grpcs://example.com/shop.v1.Orders/Create --data-file order.bin",
  );
  command.action((target: string, flags: SendFlags) => {
    const { url, apiKey, output } = flags;
    const remote = { url, json: output === "json", ...(apiKey && { apiKey }) };
    return callService(terminal, remote, async (client) => {
      const waitSeconds = Math.ceil((flags.wait ?? 0) / 1000);
      const task = await withUpload(client, target, flags);
      return presentCreated(await client.createTask(task, { waitSeconds }));
    });
  });
}

/** A longer file is uploaded as a stream, because a create may have at most 1 MiB in all. */
const MAX_SENT_BYTES = 512 * 1024;

async function withUpload(client: Client, target: string, flags: SendFlags): Promise<TaskToCreate> {
  const { dataFile, json, data, ...rest } = flags;
  const isFile = dataFile !== undefined && dataFile !== "-" && data === undefined;
  if (!isFile || json !== undefined || !isLong(dataFile)) return taskToCreate(target, flags);
  const stream = Readable.toWeb(createReadStream(dataFile)) as ReadableStream<Uint8Array>;
  const { bodyRef } = await client.uploadBody(stream);
  return { ...taskToCreate(target, rest), bodyRef };
}

/** A file that does not exist is reported when it is read. */
function isLong(path: string): boolean {
  return (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > MAX_SENT_BYTES;
}

export function taskToCreate(targetUrl: string, flags: SendFlags): TaskToCreate {
  const { method, header, label, policy, key, in: inMs } = flags;
  return {
    targetUrl,
    ...(method !== undefined && { method: method.toUpperCase() }),
    ...(Object.keys(header).length > 0 && { headers: header }),
    ...(Object.keys(label).length > 0 && { labels: label }),
    ...(policy !== undefined && { policyId: policy }),
    ...(key !== undefined && { idempotencyKey: key }),
    ...(inMs !== undefined && { scheduledAt: systemClock.now() + inMs }),
    ...bodyOf(flags),
  };
}

function bodyOf({ json, data, dataFile }: SendFlags): Partial<TaskToCreate> {
  if (json !== undefined) return { json: parseBody(json) };
  if (data !== undefined) return { body: data };
  return dataFile === undefined ? {} : fileBody(readBytes(dataFile));
}

/** Bytes that are not UTF-8 text are sent as Base64, which preserves them. */
function fileBody(bytes: Buffer): Partial<TaskToCreate> {
  return isUtf8(bytes)
    ? { body: bytes.toString("utf8") }
    : { bodyBase64: bytes.toString("base64") };
}

function parseBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const message = `--json must be JSON: ${(cause as Error).message}; use --data for other text`;
    throw causedError("INVALID_ARGUMENT", message, cause);
  }
}

/** The exit code is 1 if the task has ended without success. */
export function presentCreated(task: CreatedTask): Presentation {
  const { taskId, status, replayed, attemptNumber } = task;
  const hasFailed = status === "EXHAUSTED" || status === "CANCELLED";
  const tries = attemptNumber ? `, attempt ${attemptNumber}` : "";
  return {
    json: task,
    text: () => [
      `${taskId}  ${status}${tries}${replayed ? "  (the key is known: no new task was created)" : ""}`,
    ],
    exitCode: hasFailed ? FAILED : OK,
  };
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

function pairsOption(flags: string, text: string, parse: ReturnType<typeof pairFlag>): Option {
  return new Option(flags, text).argParser(parse).default({}, "none");
}

const headerFlag = pairFlag(/^([^=:\s]+)(?:=|:\s*)(.*)$/su);
const labelFlag = pairFlag(/^([^=\s]+)=(.*)$/su);

function waitFlag(text: string): number {
  const ms = durationFlag(text);
  if (ms <= MAX_WAIT_MS) return ms;
  throw new InvalidArgumentError("Must be at most 25s. To wait longer, use `redrive tasks tail`.");
}
