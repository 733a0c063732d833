/**
 * `redrive tasks export`: writes tasks with their bodies and attempts as NDJSON, newest first. The service
 * masks the values of headers that may be secret, so the export has them masked too.
 */
import { formatCount, systemClock } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import type { Command } from "commander";
import { addExamples } from "../input/flags.ts";
import { OK, PARTIAL } from "../print/presentation.ts";
import { createProgress } from "../print/progress.ts";
import type { Terminal } from "../print/terminal.ts";
import { BodyDownloads } from "./body-files.ts";
import {
  addConnectionFlags,
  type ClientFlags,
  createServiceClient,
  withErrorReport,
} from "./service-client.ts";
import { addFilterFlags, addStatusFlag, type FilterFlags, taskFilter } from "./task-filter.ts";
import type { Task } from "./task-text.ts";

interface ExportFlags extends ClientFlags, FilterFlags {
  readonly status?: Task["status"];
  /** The folder for large bodies. */
  readonly bodies?: string;
}

/** One line of the export. */
interface ExportedLine {
  readonly task: Task;
  readonly attempts: Awaited<ReturnType<Client["listAttempts"]>>["attempts"];
  /** An inline policy, which exists only in the task. */
  readonly policy?: unknown;
}

const PAGE_SIZE = 250;

export function addTasksExport(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("export")
    .description(
      "Export tasks of a running service with their bodies and attempts, one task per line.",
    )
    .option("--bodies <folder>", "save large bodies as files there; lines have only their bodyRef");
  addConnectionFlags(addStatusFlag(addFilterFlags(command)));
  addExamples(
    command,
    "redrive tasks export --bodies bodies > tasks.ndjson",
    "redrive tasks export --status EXHAUSTED --since 24h | jq .task.lastError",
  );
  command.action((flags: ExportFlags) =>
    withErrorReport(terminal, flags, () =>
      exportTasks(terminal, createServiceClient(flags), flags),
    ),
  );
}

async function exportTasks(terminal: Terminal, client: Client, flags: ExportFlags): Promise<void> {
  const progress = createProgress(terminal.printError, {
    width: terminal.width,
    isShown: terminal.showsProgress,
  });
  const startMs = systemClock.monotonicMs();
  const { status, bodies } = flags;
  const query = { ...taskFilter(flags), ...(status !== undefined && { status }), limit: PAGE_SIZE };
  const downloads = new BodyDownloads(client, bodies);
  let count = 0;
  let cursor: string | null | undefined;
  while (cursor !== null) {
    const page = await client.listTasks({ ...query, ...(cursor !== undefined && { cursor }) });
    for (const { taskId, bodyRef } of page.tasks) {
      terminal.print(`${JSON.stringify(await exportTask(client, taskId))}\n`);
      await downloads.save(taskId, bodyRef);
      const elapsedMs = systemClock.monotonicMs() - startMs;
      progress.draw({ done: ++count, total: count, what: "exporting", elapsedMs });
    }
    cursor = page.cursor;
  }
  progress.clear();
  terminal.printError(`exported ${formatCount(count, "task")}\n`);
  for (const note of downloads.notes) terminal.printError(`note: ${note}\n`);
  for (const problem of downloads.problems) terminal.printError(`error: ${problem}\n`);
  terminal.setExitCode(downloads.problems.length === 0 ? OK : PARTIAL);
}

async function exportTask(client: Client, taskId: string): Promise<ExportedLine> {
  const task = await client.getTask(taskId, { include: ["body"] });
  const { policyId, policyVersion: version } = task;
  const isInline = policyId.startsWith("inline.");
  const policy = isInline ? (await client.getPolicy(policyId, { version })).document : undefined;
  const attempts = await listAllAttempts(client, taskId);
  return { task, attempts, ...(policy !== undefined && { policy }) };
}

async function listAllAttempts(client: Client, taskId: string): Promise<ExportedLine["attempts"]> {
  const all: ExportedLine["attempts"] = [];
  let cursor: string | null | undefined;
  while (cursor !== null) {
    const page = await client.listAttempts(taskId, {
      limit: PAGE_SIZE,
      include: "body",
      ...(cursor !== undefined && { cursor }),
    });
    all.push(...page.attempts);
    cursor = page.cursor;
  }
  return all;
}
