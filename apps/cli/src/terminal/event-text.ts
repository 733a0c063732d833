/**
 * Event text: events of tasks, what tasks wait for, and instants relative to now, in words for
 * people who follow tasks.
 */
import { formatDuration, statusText } from "@redrive/core";
import type { Client, ServiceEvent } from "@redrive/service/client";
import type { TextStyle, Tone } from "./terminal.ts";

type ClientEvent = Extract<ServiceEvent, { readonly kind: "event" }>["event"];

/** From the API of a service, or from an embedded one. */
export type TaskEvent = Omit<ClientEvent, "waits"> & {
  readonly waits?: readonly NonNullable<ClientEvent["waits"]>[number][];
};

interface EventText {
  readonly tone: Tone;
  readonly text: string;
}

/** Undefined for an event that says nothing new, such as the start of an attempt that was on time. */
export function eventText(event: TaskEvent): EventText | undefined {
  const { type, attemptNumber = 0, waits = [], reason, by } = event;
  const end = (tone: Tone, status: string, text: string) => ({ tone, text: `${status} ${text}` });
  switch (type) {
    case "task.created":
      return { tone: "accent", text: `created${nextText(event)}` };
    case "attempt.started":
      if (waits.length === 0) return undefined;
      return { tone: "accent", text: `attempt ${attemptNumber} starts, held ${waitsText(waits)}` };
    case "attempt.failed":
      return { tone: "warn", text: `${attemptText(event)}${nextText(event)}` };
    case "attempt.abandoned":
      return { tone: "warn", text: `attempt ${attemptNumber} was lost${nextText(event)}` };
    case "task.succeeded":
      return end("good", "SUCCEEDED", attemptText(event));
    case "task.exhausted":
      return end("bad", "EXHAUSTED", `${attemptText(event)}: ${reason}${by ? ` by ${by}` : ""}`);
    case "task.cancelled":
      return { tone: "warn", text: "CANCELLED" };
    default:
      return undefined;
  }
}

/** A line with the time, the task, what happened and the destination; undefined as in `eventText`. */
export function eventLine(
  event: TaskEvent,
  { paint }: Pick<TextStyle, "paint">,
): string | undefined {
  const found = eventText(event);
  if (found === undefined || event.taskId === undefined) return undefined;
  const { at, taskId, destination = "" } = event;
  const cells = [formatTimeOfDay(at), taskId, paint(found.tone, found.text)];
  return `${[...cells, paint("faint", destination)].join("  ")}\n`;
}

/** Such as "attempt 2: 503 in 12 ms". */
export function attemptText({ attemptNumber = 0, attempt }: TaskEvent): string {
  if (attempt === undefined) return "without another attempt";
  const { responseStatus, errorClass, outcome, durationMs } = attempt;
  const result = responseStatus === null ? (errorClass ?? outcome) : statusText(responseStatus);
  return `attempt ${attemptNumber}: ${result} in ${formatDuration(Math.round(durationMs))}`;
}

/** The delay that was decided, or the time until a scheduled task is due. */
function nextText({ at, nextAttemptAt = at, attempt }: TaskEvent): string {
  const delayMs = attempt?.nextDelayMs ?? nextAttemptAt - at;
  return delayMs > 0 ? `, next in ${formatDuration(Math.round(delayMs))}` : "";
}

// Wait text: what a task waits for now, and how long its attempts waited and for which cause.

type Task = Awaited<ReturnType<Client["getTask"]>>;
type Wait = NonNullable<Task["wait"]>;

const NAMES: Readonly<Record<Wait["cause"], string>> = {
  policy: "policy",
  "retry-after": "Retry-After",
  "circuit-open": "breaker",
  "retry-budget": "retry budget",
  concurrency: "concurrency limit",
  rate: "rate",
  throttle: "throttle",
  pause: "pause",
  late: "late",
};

/** The waits before an attempt, such as "2 s policy, 7.2 s breaker". */
export function waitsText(
  waits: readonly { readonly cause: Wait["cause"]; readonly durationMs: number }[],
): string {
  return waits
    .map(({ cause, durationMs }) => `${formatDuration(durationMs)} ${NAMES[cause]}`)
    .join(", ");
}

/** Such as "held by the breaker of `payments` since 14:03:59, next probe in 1.9 s". */
export function currentWaitText(
  { cause, sinceAt, untilAt }: Wait,
  destination: string,
  now: number,
): string {
  const left = untilAt !== null && untilAt > now ? formatUntil(untilAt, now) : undefined;
  if (cause === "policy") return `waits for the delay of its policy${ending(", next", left)}`;
  const since = `since ${formatTimeOfDay(sinceAt)}`;
  const next = cause === "circuit-open" ? ", next probe" : ", next check";
  if (cause === "late") return `late ${since}`;
  return `held by the ${NAMES[cause]} of \`${destination}\` ${since}${ending(next, left)}`;
}

function ending(what: string, left: string | undefined): string {
  return left === undefined ? "" : `${what} in ${left}`;
}

// Relative time: formats an instant as a duration before or after now, rounded for people.

export function formatAgo(at: number, now: number): string {
  return now - at < 1000 ? "just now" : `${formatDuration(roundDuration(now - at))} ago`;
}

export function formatUntil(at: number, now: number): string {
  return formatDuration(roundDuration(at - now));
}

/** Longer durations are rounded to larger units. */
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

const TIME = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** Formats the local time of day, such as "14:03:59". */
export function formatTimeOfDay(at: number): string {
  return TIME.format(at);
}
