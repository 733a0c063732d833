/** Event text: an event of a task in one line, for people who follow tasks. */
import { formatDuration } from "@redrive/core";
import type { ServiceEvent } from "@redrive/service/client";
import type { Tone } from "./paint.ts";
import { waitsText } from "./wait-text.ts";

export type TaskEvent = Extract<ServiceEvent, { readonly kind: "event" }>["event"];

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

/** Such as "attempt 2: 503 in 12 ms". */
function attemptText({ attemptNumber = 0, attempt }: TaskEvent): string {
  if (attempt === undefined) return "without another attempt";
  const { responseStatus, errorClass, outcome, durationMs } = attempt;
  const result = responseStatus ?? errorClass ?? outcome;
  return `attempt ${attemptNumber}: ${result} in ${formatDuration(Math.round(durationMs))}`;
}

function nextText({ at, nextAttemptAt }: TaskEvent): string {
  if (nextAttemptAt === undefined || nextAttemptAt <= at) return "";
  return `, next in ${formatDuration(Math.round(nextAttemptAt - at))}`;
}
