/** Event text: an event of a task in one line, for people who follow tasks. */
import { formatDuration, statusText } from "@redrive/core";
import type { ServiceEvent } from "@redrive/service/client";
import type { Tone } from "./paint.ts";
import { formatTimeOfDay } from "./relative-time.ts";
import type { TextStyle } from "./terminal.ts";
import { waitsText } from "./wait-text.ts";

type ClientEvent = Extract<ServiceEvent, { readonly kind: "event" }>["event"];

/** From the API of a service, or from an embedded one. */
export type TaskEvent = Omit<ClientEvent, "waits"> & {
  readonly waits?: readonly NonNullable<ClientEvent["waits"]>[number][];
};

export interface EventText {
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
