/** Causes: the names that people use for what a task waits for. */
import type { AttemptView } from "../service/client.ts";

export type WaitCause = AttemptView["waits"][number]["cause"];

const LABELS: Readonly<Record<WaitCause | "ended", string>> = {
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

export function causeLabel(cause: string): string {
  return LABELS[cause as WaitCause] ?? cause;
}
