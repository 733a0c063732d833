/** Status: the words for the status of a task or a redrive, and for what a task waits for. */
import type { AttemptView } from "./client.ts";

const TONES: Readonly<Record<string, string>> = {
  SUCCEEDED: "good",
  DONE: "good",
  EXHAUSTED: "bad",
  FAILED: "bad",
  IN_FLIGHT: "accent",
  RUNNING: "accent",
  PAUSED: "warn",
};

/** The names that people use. A dead letter is an EXHAUSTED task. */
const LABELS: Readonly<Record<string, string>> = {
  PENDING: "waiting",
  IN_FLIGHT: "running",
  SUCCEEDED: "succeeded",
  EXHAUSTED: "dead letter",
  CANCELLED: "canceled",
};

export function statusLabel(status: string): string {
  return LABELS[status] ?? status.toLowerCase();
}

export function Status({ status }: { readonly status: string }) {
  return <span class={`status ${TONES[status] ?? "plain"}`}>{statusLabel(status)}</span>;
}

export type WaitCause = AttemptView["waits"][number]["cause"];

const CAUSE_LABELS: Readonly<Record<WaitCause | "ended", string>> = {
  policy: "delay of the policy",
  "retry-after": "Retry-After",
  "circuit-open": "open circuit",
  "retry-budget": "retry budget",
  concurrency: "concurrency limit",
  rate: "rate limit",
  throttle: "throttle",
  pause: "paused destination",
  late: "late: no node started it",
  ended: "waited until its end",
};

/** The names that people use for what a task waits for. */
export function causeLabel(cause: string): string {
  return CAUSE_LABELS[cause as WaitCause] ?? cause;
}
