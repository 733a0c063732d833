/** `redrive tasks`: what a running service has to do, has done, and is told to do otherwise. */
import type { Client } from "@redrive/service/client";
import type { Command } from "commander";
import { addExamples, wholeFlag, wordFlag } from "../flags.ts";
import type { Presentation } from "../presentation.ts";
import { addRemote, askService, type RemoteFlags } from "../remote.ts";
import type { Screen } from "../screen.ts";
import { addFilter, type FilterFlags, filterOf } from "../task-filter.ts";
import { type Task, taskDetail, taskTable } from "../task-text.ts";
import { addTail } from "./tasks-tail.ts";

export interface ListFlags extends RemoteFlags, FilterFlags {
  readonly status?: Task["status"];
  readonly limit: number;
  readonly cursor?: string;
}

const STATUSES = ["PENDING", "IN_FLIGHT", "SUCCEEDED", "EXHAUSTED", "CANCELLED"] as const;

export function addTasks(parent: Command, screen: Screen): void {
  const tasks = parent.command("tasks").description("list, look at, retry, cancel, follow tasks");
  addList(tasks, screen);
  addGet(tasks, screen);
  addRetry(tasks, screen);
  addCancel(tasks, screen);
  addTail(tasks, screen);
}

function addList(parent: Command, screen: Screen): void {
  const command = parent.command("ls").description("tasks, the newest first");
  addPage(addStatus(addFilter(command)));
  addRemote(command);
  addExamples(command, "redrive tasks ls --status PENDING", "redrive tasks ls --since 2h --json");
  command.action((flags: ListFlags) =>
    askService(screen, flags, async (client) =>
      presentList(await client.listTasks(queryOf(flags))),
    ),
  );
}

export function addStatus(command: Command): Command {
  const parse = (text: string) => wordFlag(...STATUSES)(text.toUpperCase());
  return command.option("--status <status>", STATUSES.join(", "), parse);
}

export function addPage(command: Command): Command {
  return command
    .option("--limit <count>", "at most so many", wholeFlag(1, 250), 50)
    .option("--cursor <cursor>", "from the page before");
}

export function queryOf(flags: ListFlags) {
  const { status, limit, cursor } = flags;
  return {
    ...filterOf(flags),
    limit,
    ...(status !== undefined && { status }),
    ...(cursor !== undefined && { cursor }),
  };
}

export function presentList(list: Awaited<ReturnType<Client["listTasks"]>>): Presentation {
  const { tasks, cursor } = list;
  return {
    json: list,
    text: (look) => taskTable(tasks, look),
    ...(cursor !== null && { notes: [`there may be more: --cursor ${cursor}`] }),
  };
}

function addGet(parent: Command, screen: Screen): void {
  const command = parent
    .command("get <taskId>")
    .description("all about one task: its attempts, and why it is not running now");
  addRemote(command);
  addExamples(command, "redrive tasks get 01a1e1b6-b1b2-7000-83d9-6258b3c1903d");
  command.action((taskId: string, flags: RemoteFlags) =>
    askService(screen, flags, (client) => presentTask(client, taskId)),
  );
}

/** Attempts of a task that a page can show; more are told by their number. */
const MAX_ATTEMPTS = 250;

export async function presentTask(client: Client, taskId: string): Promise<Presentation> {
  const [task, { attempts }] = await Promise.all([
    client.getTask(taskId, { include: ["explain"] }),
    client.listAttempts(taskId, { limit: MAX_ATTEMPTS }),
  ]);
  return { json: { ...task, attempts }, text: (look) => taskDetail(task, attempts, look) };
}

function addRetry(parent: Command, screen: Screen): void {
  const command = parent
    .command("retry <taskId>")
    .description("run a waiting task now rather than when it is due");
  addRemote(command);
  addExamples(command, "redrive tasks retry 01a1e1b6-b1b2-7000-83d9-6258b3c1903d");
  command.action((taskId: string, flags: RemoteFlags) =>
    askService(screen, flags, async (client) => {
      const receipt = await client.retryNow(taskId);
      return { json: receipt, text: () => [`${taskId} runs as soon as its destination lets it.`] };
    }),
  );
}

function addCancel(parent: Command, screen: Screen): void {
  const command = parent
    .command("cancel <taskId>")
    .description("end a task; an attempt under way may still succeed");
  addRemote(command);
  addExamples(command, "redrive tasks cancel 01a1e1b6-b1b2-7000-83d9-6258b3c1903d");
  command.action((taskId: string, flags: RemoteFlags) =>
    askService(screen, flags, async (client) => {
      const view = await client.cancelTask(taskId);
      return { json: view, text: () => [cancelWords(taskId, view.status)] };
    }),
  );
}

function cancelWords(taskId: string, status: "CANCELLED" | "IN_FLIGHT"): string {
  return status === "CANCELLED"
    ? `${taskId} is cancelled.`
    : `${taskId} is being attempted: it is cancelled unless that succeeds.`;
}
