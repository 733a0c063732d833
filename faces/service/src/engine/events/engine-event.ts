/** Engine event: the events that the engine publishes, as plain data. */
import type { HoldReason } from "@redrive/core";
import type { AttemptWait, Headers } from "../../model/task.ts";

export type EngineEventType =
  | "task.created"
  | "task.succeeded"
  | "task.exhausted"
  | "task.cancelled"
  | "attempt.started"
  | "attempt.failed"
  | "attempt.fenced"
  | "attempt.abandoned"
  | "destination.changed"
  | "breaker.opened"
  | "breaker.closed"
  | "store.failed"
  | "store.recovered"
  | "store.refused"
  | "clock.following"
  | "clock.ahead"
  | "clock.refused"
  | "clock.synced"
  | "document.unreadable"
  | "document.fields-ignored"
  | "node.lease-lost"
  | "node.shortage"
  | "node.failed";

export interface EngineEvent {
  /** `<node>-<number>`, in order within a node. */
  readonly id: string;
  readonly at: number;
  readonly type: EngineEventType;
  readonly tenantId?: string;
  readonly taskId?: string;
  readonly destination?: string;
  /** The labels of the task; absent if it has none. */
  readonly labels?: Headers;
  /** Of the attempt. At the end of a task: how many it has made, 0 if none. */
  readonly attemptNumber?: number;
  /** The reason: a stop reason, a gate, or an error message. */
  readonly reason?: string;
  /** With the reason `held`: the guard that held the task until its time ran out. */
  readonly by?: HoldReason;
  /** Epoch ms. */
  readonly nextAttemptAt?: number;
  readonly policyId?: string;
  /** When the task was created; epoch ms. */
  readonly createdAt?: number;
  /** For an attempt that is about to start: how long after its due instant. */
  readonly lagMs?: number;
  /** For an attempt that is about to start: the guard that held it after it was due, if any. */
  readonly heldBy?: HoldReason;
  /** For an attempt that starts late or has ended: its waits after it was due. Default: none. */
  readonly waits?: readonly AttemptWait[];
  /** For an attempt that has ended. */
  readonly attempt?: AttemptSummary;
}

export interface AttemptSummary {
  /** The kind of core's `Outcome`. */
  readonly outcome: string;
  readonly responseStatus: number | null;
  readonly errorClass: string | null;
  readonly durationMs: number;
  readonly nextDelayMs: number | null;
  readonly delaySource: string | null;
  /** From the response to the commit of its settlement. */
  readonly settleMs: number;
}

export type EngineEventBody = Omit<EngineEvent, "id" | "at">;

/** An event body under construction. Its emitter passes it on and does not use it again. */
export type WritableEventBody = {
  -readonly [field in keyof EngineEventBody]: EngineEventBody[field];
};

/** The labels for an event; undefined if there are none. */
export function eventLabels(labels: Headers): Headers | undefined {
  // biome-ignore lint/suspicious/useGuardForIn: finds out whether there is a label without a list of them
  for (const _ in labels) return labels;
  return undefined;
}
