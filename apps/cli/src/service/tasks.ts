/**
 * `redrive tasks` and `redrive explain`: lists, shows, explains, retries, cancels, follows and
 * exports the tasks of a running service.
 */
import { formatCount, formatDuration, statusText, systemClock } from "@redrive/core";
import { type Client, fullPage } from "@redrive/service/client";
import type { Command } from "commander";
import { formatAgo, formatTimeOfDay, waitsText } from "../terminal/event-text.ts";
import { addExamples, durationFlag, integerFlag } from "../terminal/flags.ts";
import type { Presentation } from "../terminal/presentation.ts";
import { type Terminal, wrapWithPrefix } from "../terminal/terminal.ts";
import { addTasksExport, addTasksImport } from "./exported-tasks.ts";
import { addServiceFlags, type ClientFlags, callService } from "./service-client.ts";
import {
  addFilterFlags,
  addStatusFlag,
  type FilterFlags,
  fullTaskId,
  taskFilter,
  taskIdOrNewest,
} from "./task-selection.ts";
import { type Attempt, type Task, taskDetail, taskTable } from "./task-text.ts";
import { addTail } from "./tasks-tail.ts";

export interface ListFlags extends ClientFlags, FilterFlags {
  readonly status?: Task["status"];
  readonly limit: number;
  readonly cursor?: string;
}

interface GetFlags extends ClientFlags {
  readonly wait?: number;
}

export function addTasks(parent: Command, terminal: Terminal): void {
  const tasks = parent
    .command("tasks")
    .description("List, show, retry, cancel, follow, export and import tasks of a service.");
  addList(tasks, terminal);
  addGet(tasks, terminal);
  addRetry(tasks, terminal);
  addCancel(tasks, terminal);
  addTail(tasks, terminal);
  addTasksExport(tasks, terminal);
  addTasksImport(tasks, terminal);
}

function addList(parent: Command, terminal: Terminal): void {
  const command = parent.command("ls").description("List tasks, newest first.");
  addPagingFlags(addStatusFlag(addFilterFlags(command)));
  addServiceFlags(command);
  addExamples(command, "redrive tasks ls --status PENDING", "redrive tasks ls --since 2h --json");
  command.action((flags: ListFlags) =>
    callService(terminal, flags, async (client) =>
      presentTasks(await fullPage(client.listTasks, listQuery(flags))),
    ),
  );
}

export interface PagingFlags {
  readonly limit: number;
  readonly cursor?: string;
}

/** `what`: the items of the list. */
export function addPagingFlags(command: Command, what = "tasks"): Command {
  return command
    .option("--limit <count>", `maximum number of ${what}`, integerFlag(1, 250), 50)
    .option("--cursor <cursor>", "continue a list: the cursor that the previous page printed");
}

export function listQuery(flags: ListFlags) {
  const { status, limit, cursor } = flags;
  return {
    ...taskFilter(flags),
    limit,
    ...(status !== undefined && { status }),
    ...(cursor !== undefined && { cursor }),
  };
}

/** `textOf`: the tasks as a table. */
export function presentTasks(
  list: Awaited<ReturnType<Client["listTasks"]>>,
  textOf = taskTable,
): Presentation {
  const { tasks, cursor } = list;
  return {
    json: list,
    text: (style) => textOf(tasks, style),
    ...(cursor !== null && { notes: [`there may be more; continue with --cursor ${cursor}`] }),
  };
}

function addGet(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("get [taskId]")
    .description("Show a task (default: the newest), its attempts, and why it waits.");
  command.option(
    "--wait <duration>",
    "wait until the task ends, at most this long (default: do not wait)",
    durationFlag,
  );
  addServiceFlags(command);
  addExamples(
    command,
    "redrive tasks get 01a1e1b6-b1b2-7000-83d9-6258b3c1903d",
    "redrive tasks get 01a1e1b6-b1b2",
    "redrive tasks get --wait 1m",
  );
  command.action((text: string | undefined, { wait = 0, ...flags }: GetFlags) =>
    callService(terminal, flags, async (client) => {
      const taskId = await taskIdOrNewest(client, text);
      await untilEnded(client, taskId, wait);
      return presentTask(client, taskId);
    }),
  );
}

const POLL_MS = 500;

/** Waits until the task has ended, or the time is over. */
async function untilEnded(client: Client, taskId: string, waitMs: number): Promise<void> {
  const endMs = systemClock.monotonicMs() + waitMs;
  const isOpen = async () =>
    ["PENDING", "IN_FLIGHT"].includes((await client.getTask(taskId)).status);
  while (systemClock.monotonicMs() < endMs && (await isOpen())) await systemClock.sleep(POLL_MS);
}

/** The details list at most this many attempts; the total is always shown. */
const MAX_ATTEMPTS = 250;

async function presentTask(client: Client, taskId: string): Promise<Presentation> {
  const [task, { attempts }] = await Promise.all([
    client.getTask(taskId, { include: ["explain"] }),
    client.listAttempts(taskId, { limit: MAX_ATTEMPTS }),
  ]);
  return { json: { ...task, attempts }, text: (style) => taskDetail(task, attempts, style) };
}

function addRetry(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("retry [taskId]")
    .description("Make a waiting task (default: the newest task) due now. Guards still apply.");
  addServiceFlags(command);
  addExamples(command, "redrive tasks retry 01a1e1b6-b1b2-7000-83d9-6258b3c1903d");
  command.action((text: string | undefined, flags: ClientFlags) =>
    callService(terminal, flags, async (client) => {
      const taskId = await taskIdOrNewest(client, text);
      const receipt = await client.retryNow(taskId);
      return {
        json: receipt,
        text: () => [`${taskId} runs as soon as its destination allows it.`],
      };
    }),
  );
}

function addCancel(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("cancel <taskId>")
    .description("Cancel a task. An attempt in flight may still succeed.");
  addServiceFlags(command);
  addExamples(command, "redrive tasks cancel 01a1e1b6-b1b2-7000-83d9-6258b3c1903d");
  command.action((taskId: string, flags: ClientFlags) =>
    callService(terminal, flags, async (client) => {
      const view = await client.cancelTask(await fullTaskId(client, taskId));
      return { json: view, text: () => [cancelText(taskId, view.status)] };
    }),
  );
}

function cancelText(taskId: string, status: "CANCELLED" | "IN_FLIGHT"): string {
  return status === "CANCELLED"
    ? `${taskId} is canceled.`
    : `${taskId} is being attempted. It is canceled unless the attempt succeeds.`;
}

// `redrive explain`: says in a few sentences what happened to a task, why it waits, and what comes
// next.

export function addExplain(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("explain [taskId]")
    .description(
      "Say what happened to a task (default: the newest), why it waits, and what comes next.",
    );
  addServiceFlags(command);
  addExamples(command, "redrive explain", "redrive explain 01a1e1b6-b1b2");
  command.action((taskId: string | undefined, flags: ClientFlags) =>
    callService(terminal, flags, async (client) =>
      presentExplanation(client, await taskIdOrNewest(client, taskId)),
    ),
  );
}

async function presentExplanation(client: Client, taskId: string): Promise<Presentation> {
  const task = await client.getTask(taskId, { include: ["explain"] });
  const last = await lastAttempt(client, task);
  const sentences = explainTask(task, last, systemClock.now());
  return {
    json: { taskId, explain: sentences.join(" "), wait: task.wait ?? null },
    text: ({ width }) => wrapWithPrefix("", sentences.join(" "), width),
  };
}

/** The longest list of attempts that the service returns. */
const MAX_PAGE = 250;

async function lastAttempt(client: Client, { taskId }: Task): Promise<Attempt | undefined> {
  let cursor: string | null = null;
  let last: Attempt | undefined;
  do {
    const page = { limit: MAX_PAGE, ...(cursor !== null && { cursor }) };
    const found: Awaited<ReturnType<Client["listAttempts"]>> = await client.listAttempts(
      taskId,
      page,
    );
    last = found.attempts.at(-1) ?? last;
    cursor = found.cursor;
  } while (cursor !== null);
  return last;
}

/** What happened, why it is not running now, and what comes next. */
function explainTask(task: Task, last: Attempt | undefined, now: number): readonly string[] {
  const { method, targetUrl, createdAt, explain = "" } = task;
  return [
    `The task sends ${method} ${targetUrl} and was created ${formatAgo(createdAt, now)}.`,
    ...(last === undefined ? [] : [attemptSentence(task, last, now)]),
    explain,
    nextSentence(task),
  ].filter((sentence) => sentence !== "");
}

function attemptSentence({ attemptNumber }: Task, last: Attempt, now: number): string {
  const { responseStatus, errorClass, outcome, durationMs, waits } = last;
  const result =
    responseStatus === null ? (errorClass ?? outcome) : `status ${statusText(responseStatus)}`;
  const waited = waits.length === 0 ? "" : ` It had waited: ${waitsText(waits)}.`;
  const count = formatCount(attemptNumber, "attempt");
  return `It has made ${count}; the last result, ${formatAgo(last.startedAt, now)}, was ${result} after ${formatDuration(durationMs)}.${waited}`;
}

/** Delays of the task itself, whose end the service's sentence already says. */
const DELAYS: ReadonlySet<string> = new Set(["policy", "retry-after"]);

function nextSentence({ status, wait, reason, redrivenTo }: Task): string {
  switch (status) {
    case "PENDING":
      if (wait === undefined || wait === null || DELAYS.has(wait.cause)) return "";
      return `It has waited since ${formatTimeOfDay(wait.sinceAt)}.`;
    case "EXHAUSTED":
      if (redrivenTo !== null) return "";
      return `It is a dead letter (${reason}): when the cause is fixed, \`redrive dlq redrive\` sends it again.`;
    case "IN_FLIGHT":
      return "The result of the attempt decides what follows.";
    default:
      return "Nothing follows.";
  }
}
