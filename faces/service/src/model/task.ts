/**
 * Task: a request that the service promises to deliver, and the log of its attempts, as stored and
 * read back. Plain data: absent values are null, so that every store keeps them alike.
 */
import type { DelaySource, HoldReason, StopReason } from "@redrive/core";

/** The tenant of a call that names none. An embedding process has only this tenant. */
export const DEFAULT_TENANT = "default";

export type TaskStatus = "PENDING" | "IN_FLIGHT" | "SUCCEEDED" | "EXHAUSTED" | "CANCELLED";

/** The states that a task never leaves. */
export type EndedStatus = Exclude<TaskStatus, "PENDING" | "IN_FLIGHT">;

/**
 * The lane of a destination in which a task waits. First attempts and retries are separate, so that
 * an empty retry budget never blocks first attempts. `suspect` is for a task whose claims were
 * abandoned twice: a node runs one of them at a time.
 */
export type Lane = "first" | "retry" | "suspect";

export const LANES: readonly Lane[] = ["first", "retry", "suspect"];

export const TASK_STATUSES: readonly TaskStatus[] = [
  "PENDING",
  "IN_FLIGHT",
  "SUCCEEDED",
  "EXHAUSTED",
  "CANCELLED",
];

export type Headers = Readonly<Record<string, string>>;

/** The part of a task that never changes. */
export interface NewTask {
  /** UUIDv7, so that tasks sort by age. Its instant is `createdAt` or slightly later. */
  readonly taskId: string;
  readonly tenantId: string;
  /** As the caller sent it; null: the target receives the `taskId`. */
  readonly idempotencyKey: string | null;
  readonly destination: string;
  readonly targetUrl: string;
  readonly method: string;
  readonly headers: Headers;
  /** Inline bytes; null if there are none or they are at `bodyRef`. */
  readonly body: Uint8Array | null;
  readonly bodyRef: string | null;
  readonly policyId: string;
  readonly policyVersion: number;
  /** False: an attempt with an unknown outcome is not repeated. */
  readonly idempotent: boolean;
  /** No attempt may end after this instant. */
  readonly deadlineAt: number | null;
  readonly createdAt: number;
  /** The first attempt is not made earlier, and the total time budget starts here. */
  readonly scheduledAt: number;
  readonly labels: Headers;
  readonly callbackUrl: string | null;
  readonly redrivenFrom: string | null;
}

/** The part of a task that attempts change. */
export interface TaskState {
  readonly status: TaskStatus;
  readonly reason: StopReason | null;
  readonly lane: Lane;
  /** Attempts started so far, including the one in progress. */
  readonly attemptNumber: number;
  readonly nextAttemptAt: number;
  /** Incremented by every claim and settle; a write with an older value is rejected. */
  readonly claimEpoch: number;
  /** The boot of the node that runs the attempt, and since when; null unless IN_FLIGHT. */
  readonly claimedBy: string | null;
  readonly claimedAt: number | null;
  /** The policy's latest delay: `previousDelayMs` of the next decision. */
  readonly lastDelayMs: number;
  /** Consecutive claims that were abandoned without an outcome. */
  readonly abandonedCount: number;
  readonly cancelRequestedAt: number | null;
  readonly lastStatus: number | null;
  readonly lastError: string | null;
  readonly redrivenTo: string | null;
  readonly finishedAt: number | null;
}

export type RetryTask = NewTask & TaskState;

/** One attempt, written when it is settled. */
export interface AttemptLog {
  readonly attemptNumber: number;
  readonly startedAt: number;
  readonly durationMs: number;
  readonly phases: AttemptPhases | null;
  /** The kind of core's `Outcome`. */
  readonly outcome: string;
  readonly responseStatus: number | null;
  readonly errorClass: string | null;
  readonly errorMessage: string | null;
  /** Allowlisted and redacted. */
  readonly responseHeaders: Headers | null;
  /** Truncated and redacted. */
  readonly responseBody: Uint8Array | null;
  /** The delay that followed; null after the last attempt. */
  readonly nextDelayMs: number | null;
  /** The source of that delay: `policy`, `retry-after`, or the guard that held the task. */
  readonly delaySource: string | null;
  /**
   * As stored: the waits after the attempt was due. As read through `Redrive.attempts`: also the wait
   * for the due instant, which the previous attempt has as `nextDelayMs`. Oldest first.
   */
  readonly waits: readonly AttemptWait[];
}

/** `late`: no guard held the attempt, but no node started it: the service was down, slow or full. */
export type WaitCause = DelaySource | HoldReason | "late";

/** A time in which the attempt waited for one cause. */
export interface AttemptWait {
  readonly cause: WaitCause;
  readonly sinceAt: number;
  readonly durationMs: number;
}

/** An attempt that started on time has no waits. One object, so that it costs nothing. */
export const NO_WAITS: readonly AttemptWait[] = [];

/** A shorter delay after the due instant is not recorded as a wait. */
export const MIN_WAIT_MS = 100;

/** The stored form of waits, in stores without lists. Null: the attempt started on time, or an older version wrote it. */
export function waitsText(waits: readonly AttemptWait[]): string | null {
  if (waits.length === 0) return null;
  return JSON.stringify(
    waits.map(({ cause, sinceAt, durationMs }) => [cause, sinceAt, durationMs]),
  );
}

export function readWaits(text: string | null | undefined): readonly AttemptWait[] {
  if (text === null || text === undefined) return NO_WAITS;
  const rows = JSON.parse(text) as readonly (readonly [WaitCause, number, number])[];
  return rows.map(([cause, sinceAt, durationMs]) => ({ cause, sinceAt, durationMs }));
}

/** Durations within an attempt; null for a phase that did not happen or was not measured. */
export interface AttemptPhases {
  readonly dnsMs: number | null;
  readonly connectMs: number | null;
  readonly tlsMs: number | null;
  readonly firstByteMs: number | null;
}

export function isEnded(status: TaskStatus): status is EndedStatus {
  return status !== "PENDING" && status !== "IN_FLIGHT";
}

/** The lane in which a task waits for its next attempt. */
export function laneOf(attemptsMade: number, abandonedCount: number): Lane {
  if (abandonedCount >= 2) return "suspect";
  return attemptsMade === 0 ? "first" : "retry";
}

/** The instants that a task id can hold. */
const MAX_INSTANT = 2 ** 48 - 1;

/** The start of every task id of that instant; it sorts after all ids of earlier instants. */
export function taskIdPrefix(instant: number): string {
  const clamped = Math.min(Math.max(Math.floor(instant), 0), MAX_INSTANT);
  const time = clamped.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}`;
}
