/**
 * Event log: what `redrive serve` writes to its log: a line per attempt, a line per end of a task, and the
 * events that people act on. No line contains a URL, a header, a body or a label.
 */
import type { Redrive } from "@redrive/service";
import { attemptText, eventText } from "../print/event-text.ts";
import type { App } from "./running-service.ts";

type EngineEvent = Parameters<Parameters<Redrive["onEvent"]>[0]>[0];

const MESSAGES: Readonly<
  Partial<Record<EngineEvent["type"], readonly [level: "info" | "warn" | "error", text: string]>>
> = {
  "store.failed": ["error", "the store failed"],
  "store.recovered": ["info", "the store responds again"],
  "store.refused": ["error", "the store refused an item"],
  "node.lease-lost": ["error", "the lease is lost: running attempts are aborted"],
  "attempt.fenced": [
    "warn",
    "fenced: another node had taken over the task, so the result of this attempt is not stored",
  ],
  "node.shortage": [
    "warn",
    "the process lacks files, memory or ports and runs fewer attempts: raise `ulimit -n`, or lower --attempts-at-once",
  ],
  "clock.following": ["warn", "the clock was set forward or the machine slept: following it"],
  "clock.ahead": ["warn", "the clock was set back: running slower until it catches up"],
  "clock.refused": ["error", "clock refused"],
  "clock.synced": ["info", "the time of the service agrees with the clock again"],
  "document.unreadable": ["error", "a stored document cannot be read: its tasks are held"],
  "document.fields-ignored": ["warn", "a stored document has unknown fields, which are ignored"],
};

/** Writes a line for the attempt that the event ends, if any, and one for the end of the task. */
export function logTaskEvent({ log }: Pick<App, "log">, event: EngineEvent): void {
  const { type, tenantId, taskId, destination, policyId, attemptNumber, attempt, waits } = event;
  if (type === "attempt.started" || type === "task.created" || taskId === undefined) return;
  const task = { tenantId, taskId, destination, policyId };
  if (attempt !== undefined) {
    const { nextAttemptAt } = event;
    const fields = { event: "attempt", ...task, attemptNumber, ...attempt, nextAttemptAt, waits };
    log.info(fields, attemptText(event));
  }
  if (!type.startsWith("task.")) return;
  const { reason, by } = event;
  log.info({ event: type, ...task, attemptNumber, reason, by }, eventText(event)?.text ?? type);
}

export function logEvent({ log }: Pick<App, "log">, event: EngineEvent): void {
  const [level, text] = MESSAGES[event.type] ?? [];
  if (level === undefined || text === undefined) return;
  const { reason, tenantId, taskId, destination, policyId } = event;
  log[level]({ event: event.type, reason, tenantId, taskId, destination, policyId }, text);
}
