/** `redrive explain`: says in a few sentences what happened to a task, why it waits, and what comes next. */
import { formatCount, formatDuration, statusText, systemClock } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import type { Command } from "commander";
import { addExamples } from "../input/flags.ts";
import type { Presentation } from "../print/presentation.ts";
import { formatAgo, formatTimeOfDay } from "../print/relative-time.ts";
import type { Terminal } from "../print/terminal.ts";
import { waitsText } from "../print/wait-text.ts";
import { wrapWithPrefix } from "../print/wrap.ts";
import { addServiceFlags, type ClientFlags, callService } from "./service-client.ts";
import { taskIdOrNewest } from "./task-id.ts";
import type { Attempt, Task } from "./task-text.ts";

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
const MAX_ATTEMPTS = 250;

async function lastAttempt(client: Client, { taskId }: Task): Promise<Attempt | undefined> {
  let cursor: string | null = null;
  let last: Attempt | undefined;
  do {
    const page = { limit: MAX_ATTEMPTS, ...(cursor !== null && { cursor }) };
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
export function explainTask(task: Task, last: Attempt | undefined, now: number): readonly string[] {
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
