/** `redrive send`: hands a request to a running service, which sees to it that it arrives. */
import { isUtf8 } from "node:buffer";
import { causedError, systemClock } from "@redrive/core";
import type { CreatedTask, TaskToCreate } from "@redrive/service/client";
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
  /** The body: `--output json` is the form of the answer. */
  readonly json?: string;
  readonly data?: string;
  readonly dataFile?: string;
  readonly policy?: string;
  readonly key?: string;
  readonly in?: number;
  readonly wait?: number;
  readonly output: "text" | "json";
}

/** The service waits no longer than this with its answer. */
const MAX_WAIT_MS = 25_000;

export function addSend(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("send <url>")
    .description("hand over a request, to be retried until it arrives");
  command
    .option("-X, --method <method>", "default: POST")
    .option("-H, --header <name=value>", "may be given several times", headerFlag, {})
    .addOption(
      new Option("--json <text>", "the body, as application/json").conflicts(["data", "dataFile"]),
    )
    .addOption(new Option("--data <text>", "the body, as it is").conflicts("dataFile"))
    .option("--data-file <file>", "the body from a file; - is standard input")
    .option("--policy <id>", "a registered policy or a preset (default: background)")
    .option("--key <key>", "idempotency key: the same key makes one task, however often it is sent")
    .option("--label <name=value>", "to find it by; may be given several times", labelFlag, {})
    .option("--in <span>", "not before this much time has gone by", durationFlag)
    .option("--wait <span>", "wait for its end, at most 25s", waitFlag)
    .option("--output <form>", "text or json", choiceFlag("text", "json"), "text");
  addConnectionFlags(command);
  addExamples(
    command,
    "redrive send https://example.com/orders --json '{\"order\":42}' --key order-42",
    "redrive send https://example.com/ping --method GET --policy read --wait 5s",
  );
  command.action((target: string, flags: SendFlags) => {
    const { url, apiKey, output } = flags;
    const remote = { url, json: output === "json", ...(apiKey && { apiKey }) };
    return callService(terminal, remote, async (client) => {
      const waitSeconds = Math.ceil((flags.wait ?? 0) / 1000);
      return presentCreated(await client.createTask(taskToCreate(target, flags), { waitSeconds }));
    });
  });
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

/** Bytes that are no text go as Base64, so that they arrive as they are. */
function fileBody(bytes: Buffer): Partial<TaskToCreate> {
  return isUtf8(bytes)
    ? { body: bytes.toString("utf8") }
    : { bodyBase64: bytes.toString("base64") };
}

function parseBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const message = `--json must be JSON: ${(cause as Error).message}; --data sends any text`;
    throw causedError("INVALID_ARGUMENT", message, cause);
  }
}

/** Exits with 1 if the task has ended otherwise than well. */
export function presentCreated(task: CreatedTask): Presentation {
  const { taskId, status, replayed, attemptNumber } = task;
  const isLost = status === "EXHAUSTED" || status === "CANCELLED";
  const tries = attemptNumber ? `, attempt ${attemptNumber}` : "";
  return {
    json: task,
    text: () => [
      `${taskId}  ${status}${tries}${replayed ? "  (known by its key: nothing new was made)" : ""}`,
    ],
    exitCode: isLost ? FAILED : OK,
  };
}

type Pairs = Readonly<Record<string, string>>;

/** Collects name=value; of headers also "name: value", as curl has it. */
function pairFlag(pattern: RegExp): (text: string, before: Pairs) => Pairs {
  return (text, before) => {
    const [, name, value] = pattern.exec(text) ?? [];
    if (name !== undefined && value !== undefined) return { ...before, [name]: value };
    throw new InvalidArgumentError("Must be name=value.");
  };
}

const headerFlag = pairFlag(/^([^=:\s]+)(?:=|:\s*)(.*)$/su);
const labelFlag = pairFlag(/^([^=\s]+)=(.*)$/su);

function waitFlag(text: string): number {
  const ms = durationFlag(text);
  if (ms <= MAX_WAIT_MS) return ms;
  throw new InvalidArgumentError("The service waits 25s at most; `redrive tasks tail` goes on.");
}
