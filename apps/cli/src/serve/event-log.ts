/** Event log: the events of the engine that `redrive serve` writes to its log, because people act on them. */
import type { Redrive } from "@redrive/service";
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

export function logEvent({ log }: Pick<App, "log">, event: EngineEvent): void {
  const [level, text] = MESSAGES[event.type] ?? [];
  if (level === undefined || text === undefined) return;
  const { reason, tenantId, taskId, destination, policyId } = event;
  log[level]({ event: event.type, reason, tenantId, taskId, destination, policyId }, text);
}
