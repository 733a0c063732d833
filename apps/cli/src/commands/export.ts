/**
 * `redrive export`: tasks with their bodies and attempts, a line of JSON each, oldest page last. What
 * a service never gives back, the values of headers that may be secret, is masked here too.
 */
import { formatCount, systemClock } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import type { Command } from "commander";
import { addExamples } from "../flags.ts";
import { OK } from "../presentation.ts";
import { addPlace, clientOf, type RemoteFlags, reaching } from "../remote.ts";
import type { Screen } from "../screen.ts";
import { addFilter, type FilterFlags, filterOf } from "../task-filter.ts";
import type { Task } from "../task-text.ts";
import { progressOn } from "../terminal/progress.ts";
import { addStatus } from "./tasks.ts";

interface ExportFlags extends RemoteFlags, FilterFlags {
  readonly status?: Task["status"];
}

/** One line of the file. */
interface ExportedLine {
  readonly task: Task;
  readonly attempts: Awaited<ReturnType<Client["listAttempts"]>>["attempts"];
  /** The policy that came with the task, which is registered nowhere. */
  readonly policy?: unknown;
}

const PAGE = 250;

export function addExport(parent: Command, screen: Screen): void {
  const command = parent
    .command("export")
    .description("tasks with their bodies and attempts, as lines of JSON");
  addPlace(addStatus(addFilter(command)));
  addExamples(
    command,
    "redrive export > tasks.ndjson",
    "redrive export --status EXHAUSTED --since 24h | jq .task.lastError",
  );
  command.action((flags: ExportFlags) =>
    reaching(screen, flags, () => exportTasks(screen, clientOf(flags), flags)),
  );
}

async function exportTasks(screen: Screen, client: Client, flags: ExportFlags): Promise<void> {
  const progress = progressOn(screen.note, { width: screen.width, isShown: screen.isWatched });
  const startMs = systemClock.monotonicMs();
  const { status } = flags;
  const query = { ...filterOf(flags), ...(status !== undefined && { status }), limit: PAGE };
  let count = 0;
  let cursor: string | null | undefined;
  while (cursor !== null) {
    const page = await client.listTasks({ ...query, ...(cursor !== undefined && { cursor }) });
    for (const { taskId } of page.tasks) {
      screen.print(`${JSON.stringify(await exported(client, taskId))}\n`);
      const elapsedMs = systemClock.monotonicMs() - startMs;
      progress.draw({ done: ++count, total: count, what: "exporting", elapsedMs });
    }
    cursor = page.cursor;
  }
  progress.clear();
  screen.note(`exported ${formatCount(count, "task")}\n`);
  screen.end(OK);
}

async function exported(client: Client, taskId: string): Promise<ExportedLine> {
  const task = await client.getTask(taskId, { include: ["body"] });
  const { policyId, policyVersion: version } = task;
  const isOwn = policyId.startsWith("inline.");
  const policy = isOwn ? (await client.getPolicy(policyId, { version })).document : undefined;
  const attempts = await allAttempts(client, taskId);
  return { task, attempts, ...(policy !== undefined && { policy }) };
}

async function allAttempts(client: Client, taskId: string): Promise<ExportedLine["attempts"]> {
  const all: ExportedLine["attempts"] = [];
  let cursor: string | null | undefined;
  while (cursor !== null) {
    const page = await client.listAttempts(taskId, {
      limit: PAGE,
      include: "body",
      ...(cursor !== undefined && { cursor }),
    });
    all.push(...page.attempts);
    cursor = page.cursor;
  }
  return all;
}
