/**
 * Task text: formats tasks and their attempts. Instants are shown relative to now; only the list of
 * attempts shows the time of day.
 */
import { formatCount, formatDuration, statusText, systemClock } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import {
  currentWaitText,
  formatAgo,
  formatTimeOfDay,
  formatUntil,
  waitsText,
} from "../terminal/event-text.ts";
import { type Cell, type Column, table } from "../terminal/table.ts";
import { type TextStyle, type Tone, wrapWithPrefix } from "../terminal/terminal.ts";
import { shortIds } from "./task-selection.ts";

export type Task = Awaited<ReturnType<Client["getTask"]>>;
export type Attempt = Awaited<ReturnType<Client["listAttempts"]>>["attempts"][number];

const TONES: Readonly<Record<Task["status"], Tone>> = {
  PENDING: "accent",
  IN_FLIGHT: "accent",
  SUCCEEDED: "good",
  EXHAUSTED: "bad",
  CANCELLED: "warn",
};

const COLUMNS: readonly Column[] = [
  { head: "task" },
  { head: "status" },
  { head: "attempts", align: "right" },
  { head: "last", cuts: "first" },
  { head: "when" },
  { head: "target", cuts: true },
];

const DEAD_LETTER_COLUMNS: readonly Column[] = [
  { head: "task" },
  { head: "reason" },
  { head: "attempts", align: "right" },
  { head: "last", cuts: "first" },
  { head: "when" },
  { head: "target", cuts: true },
];

export function taskTable(tasks: readonly Task[], style: TextStyle): readonly string[] {
  if (tasks.length === 0) return ["There are no matching tasks."];
  return table(
    COLUMNS,
    taskRows(tasks, ({ status }) => statusCell(status)),
    style,
  );
}

export function deadLetterTable(tasks: readonly Task[], style: TextStyle): readonly string[] {
  if (tasks.length === 0) return ["There are no matching dead letters."];
  return table(
    DEAD_LETTER_COLUMNS,
    taskRows(tasks, ({ reason }) => reason ?? ""),
    style,
  );
}

/** `second`: the content of the second column. */
function taskRows(
  tasks: readonly Task[],
  second: (task: Task) => Cell,
): readonly (readonly Cell[])[] {
  const now = systemClock.now();
  const ids = shortIds(tasks.map(({ taskId }) => taskId));
  return tasks.map((task, index) => [ids[index] ?? "", second(task), ...taskCells(task, now)]);
}

function taskCells(task: Task, now: number): readonly Cell[] {
  const { attemptNumber, method, targetUrl } = task;
  return [
    String(attemptNumber),
    lastResultText(task),
    timingText(task, now),
    method === "POST" ? targetUrl : `${method} ${targetUrl}`,
  ];
}

function statusCell(status: Task["status"]): Cell {
  return { text: status, tone: TONES[status] };
}

type LastResult = Pick<Task, "lastStatus" | "lastError">;

/** The status or the error of the last attempt. */
export function lastResultText({ lastStatus, lastError }: LastResult): string {
  return lastStatus === null ? (lastError ?? "") : statusText(lastStatus);
}

/** When the task ended or is due, or that a redrive replaced it. */
export function timingText(task: Task, now: number): string {
  const { finishedAt, nextAttemptAt, status, redrivenTo } = task;
  if (redrivenTo !== null) return "redriven";
  if (finishedAt !== null) return formatAgo(finishedAt, now);
  if (status === "IN_FLIGHT" || nextAttemptAt === null) return "now";
  return nextAttemptAt > now ? `next in ${formatUntil(nextAttemptAt, now)}` : "due";
}

const ATTEMPT_COLUMNS: readonly Column[] = [
  { head: "attempt", align: "right" },
  { head: "waited", wraps: true },
  { head: "at" },
  { head: "duration", align: "right" },
  { head: "outcome" },
  { head: "response", wraps: true },
];

export function taskDetail(
  task: Task,
  attempts: readonly Attempt[],
  style: TextStyle,
): readonly string[] {
  const now = systemClock.now();
  const { paint, width } = style;
  const lines = detailFields(task, now).flatMap(([name, text]) =>
    wrapWithPrefix(name.padEnd(13), text, width),
  );
  const status = paint(TONES[task.status], task.status);
  return [
    `${paint("strong", task.taskId)}  ${status}  ${formatCount(task.attemptNumber, "attempt")}`,
    ...lines,
    ...(attempts.length === 0 ? [] : ["", ...attemptTable(attempts, style)]),
  ];
}

function detailFields(task: Task, now: number): readonly (readonly [string, string])[] {
  const { idempotencyKey, explain, redrivenFrom, redrivenTo, reason, wait, destination } = task;
  return [
    ["target", `${task.method} ${task.targetUrl}`],
    ["destination", destination],
    ["policy", `${task.policyId}, version ${task.policyVersion}`],
    ...(idempotencyKey === null ? [] : [["key", idempotencyKey] as const]),
    ["created", formatAgo(task.createdAt, now)],
    [task.finishedAt === null ? "next" : "ended", endText(task, now)],
    ...(reason === null ? [] : [["reason", reason] as const]),
    ...(redrivenFrom === null ? [] : [["redrives", redrivenFrom] as const]),
    ...(redrivenTo === null ? [] : [["redriven as", redrivenTo] as const]),
    ...(wait ? [["waits", currentWaitText(wait, destination, now)] as const] : []),
    ...(explain === undefined ? [] : [["why", explain] as const]),
  ];
}

function endText(task: Task, now: number): string {
  const { finishedAt } = task;
  return finishedAt === null
    ? timingText(task, now).replace("next ", "")
    : formatAgo(finishedAt, now);
}

function attemptTable(attempts: readonly Attempt[], style: TextStyle): readonly string[] {
  const rows = attempts.map((one) => [
    String(one.attemptNumber),
    waitsText(one.waits),
    formatTimeOfDay(one.startedAt),
    formatDuration(one.durationMs),
    one.outcome,
    responseText(one),
  ]);
  return table(ATTEMPT_COLUMNS, rows, style);
}

function responseText({ responseStatus, errorClass, errorMessage }: Attempt): string {
  if (responseStatus !== null) return statusText(responseStatus);
  return [errorClass, errorMessage].filter((text) => text !== null).join(": ");
}
