/**
 * Task text: tasks and their attempts for people. An instant is told as how long ago, or how soon;
 * the clock's own time only where lines follow one another.
 */
import { systemClock } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import { counted, formatDuration } from "@redrive/simulator/words";
import type { Tone } from "../print/paint.ts";
import { type Cell, type Column, table } from "../print/table.ts";
import type { TextStyle } from "../print/terminal.ts";
import { wrapWithPrefix } from "../print/wrap.ts";

export type Task = Awaited<ReturnType<Client["getTask"]>>;
export type Attempt = Awaited<ReturnType<Client["listAttempts"]>>["attempts"][number];

const TONES: Readonly<Record<Task["status"], Tone>> = {
  PENDING: "accent",
  IN_FLIGHT: "accent",
  SUCCEEDED: "good",
  EXHAUSTED: "bad",
  CANCELLED: "warn",
};

/** The target is not broken into lines, however narrow the terminal: people search for it. */
const COLUMNS: readonly Column[] = [
  { head: "task" },
  { head: "status" },
  { head: "tries", align: "right" },
  { head: "last" },
  { head: "when" },
  { head: "target" },
];

export function taskTable(tasks: readonly Task[], style: TextStyle): readonly string[] {
  if (tasks.length === 0) return ["There are no such tasks."];
  const now = systemClock.now();
  return table(
    COLUMNS,
    tasks.map((task) => taskRow(task, now)),
    style,
  );
}

function taskRow(task: Task, now: number): readonly Cell[] {
  const { taskId, status, attemptNumber, method, targetUrl } = task;
  return [
    taskId,
    statusCell(status),
    String(attemptNumber),
    lastResultText(task),
    timingText(task, now),
    method === "POST" ? targetUrl : `${method} ${targetUrl}`,
  ];
}

export function statusCell(status: Task["status"]): Cell {
  return { text: status, tone: TONES[status] };
}

/** What the last attempt came to. */
export function lastResultText({ lastStatus, lastError }: Task): string {
  return lastStatus === null ? (lastError ?? "") : String(lastStatus);
}

/** How it stands in time: when it ended, or when it goes on; a dead letter may live on as another. */
export function timingText(task: Task, now: number): string {
  const { finishedAt, nextAttemptAt, status, redrivenTo } = task;
  if (redrivenTo !== null) return "redriven";
  if (finishedAt !== null) return formatAgo(finishedAt, now);
  if (status === "IN_FLIGHT" || nextAttemptAt === null) return "now";
  return nextAttemptAt > now ? `next in ${formatUntil(nextAttemptAt, now)}` : "due";
}

export function formatAgo(at: number, now: number): string {
  return now - at < 1000 ? "just now" : `${formatDuration(roundDuration(now - at))} ago`;
}

export function formatUntil(at: number, now: number): string {
  return formatDuration(roundDuration(at - now));
}

/** In the steps that people count in: the more there is of it, the larger. */
const STEPS = [
  { untilMs: 10_000, ms: 100 },
  { untilMs: 120_000, ms: 1000 },
  { untilMs: 7_200_000, ms: 60_000 },
  { untilMs: Number.POSITIVE_INFINITY, ms: 3_600_000 },
] as const;

function roundDuration(ms: number): number {
  const step = STEPS.find(({ untilMs }) => ms < untilMs)?.ms ?? 1;
  return Math.round(ms / step) * step;
}

const ATTEMPT_COLUMNS: readonly Column[] = [
  { head: "attempt", align: "right" },
  { head: "at" },
  { head: "took", align: "right" },
  { head: "outcome" },
  { head: "answer", wraps: true },
  { head: "then waited", align: "right" },
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
    `${paint("strong", task.taskId)}  ${status}  ${counted(task.attemptNumber, "attempt")}`,
    ...lines,
    ...(attempts.length === 0 ? [] : ["", ...attemptTable(attempts, style)]),
  ];
}

function detailFields(task: Task, now: number): readonly (readonly [string, string])[] {
  const { idempotencyKey, explain, redrivenFrom, redrivenTo, reason } = task;
  return [
    ["target", `${task.method} ${task.targetUrl}`],
    ["destination", task.destination],
    ["policy", `${task.policyId}, version ${task.policyVersion}`],
    ...(idempotencyKey === null ? [] : [["key", idempotencyKey] as const]),
    ["created", formatAgo(task.createdAt, now)],
    [task.finishedAt === null ? "next" : "ended", endText(task, now)],
    ...(reason === null ? [] : [["reason", reason] as const]),
    ...(redrivenFrom === null ? [] : [["redrives", redrivenFrom] as const]),
    ...(redrivenTo === null ? [] : [["redriven as", redrivenTo] as const]),
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
    formatTimeOfDay(one.startedAt),
    formatDuration(one.durationMs),
    one.outcome,
    responseText(one),
    one.nextDelayMs === null ? "" : formatDuration(one.nextDelayMs),
  ]);
  return table(ATTEMPT_COLUMNS, rows, style);
}

function responseText({ responseStatus, errorClass, errorMessage }: Attempt): string {
  if (responseStatus !== null) return String(responseStatus);
  return [errorClass, errorMessage].filter((text) => text !== null).join(": ");
}

const TIME = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** As the clock on the wall shows it. */
export function formatTimeOfDay(at: number): string {
  return TIME.format(at);
}
