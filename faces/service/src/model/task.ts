/**
 * Task: what the service promises to carry out, and the log of its attempts, as they are stored
 * and read back. Plain data: null stands for what is not there, so that every store keeps it alike.
 */
import type { StopReason } from "@redrive/core";

/** Who a call is for when nothing is said: an embedding process is its own only tenant. */
export const DEFAULT_TENANT = "default";

export type TaskStatus = "PENDING" | "IN_FLIGHT" | "SUCCEEDED" | "EXHAUSTED" | "CANCELLED";

/** The states a task never leaves. */
export type EndedStatus = Exclude<TaskStatus, "PENDING" | "IN_FLIGHT">;

/**
 * Which of a destination's lanes a task waits in: first tries and retries apart, so that an empty
 * retry budget never blocks first tries; and `alone` for a task whose claims have died twice.
 */
export type Lane = "first" | "retry" | "alone";

export const LANES: readonly Lane[] = ["first", "retry", "alone"];

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
  /** UUIDv7, so that tasks sort by age. */
  readonly taskId: string;
  readonly tenantId: string;
  /** As the caller gave it; null: the `taskId` serves toward the target. */
  readonly idempotencyKey: string | null;
  readonly destination: string;
  readonly targetUrl: string;
  readonly method: string;
  readonly headers: Headers;
  /** Inline bytes; null when there are none or they are at `bodyRef`. */
  readonly body: Uint8Array | null;
  readonly bodyRef: string | null;
  readonly policyId: string;
  readonly policyVersion: number;
  /** False: an ambiguous end is not repeated. */
  readonly idempotent: boolean;
  /** No attempt may end after this instant. */
  readonly deadlineAt: number | null;
  readonly createdAt: number;
  /** The first attempt is not made earlier, and the total budget runs from here. */
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
  /** Attempts started so far, the one under way included. */
  readonly attemptNumber: number;
  readonly nextAttemptAt: number;
  /** One more with every claim and every settle: a write that carries an older one is refused. */
  readonly claimEpoch: number;
  /** The boot of the node that runs the attempt, and since when; null unless IN_FLIGHT. */
  readonly claimedBy: string | null;
  readonly claimedAt: number | null;
  /** The policy's own latest wait: `previousDelayMs` of the next decision. */
  readonly lastDelayMs: number;
  /** Claims in a row that died without an outcome. */
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
  /** Capped and redacted. */
  readonly responseBody: Uint8Array | null;
  /** The wait that followed; null after the last attempt. */
  readonly nextDelayMs: number | null;
  /** Where that wait came from: `policy`, `retry-after`, or the gate that holds. */
  readonly delaySource: string | null;
}

/** Spans within an attempt; null where a phase did not happen or was not seen. */
export interface AttemptPhases {
  readonly dnsMs: number | null;
  readonly connectMs: number | null;
  readonly tlsMs: number | null;
  readonly firstByteMs: number | null;
}

export function isEnded(status: TaskStatus): status is EndedStatus {
  return status !== "PENDING" && status !== "IN_FLIGHT";
}

/** The lane a task waits in before its next attempt. */
export function laneOf(attemptsMade: number, abandonedCount: number): Lane {
  if (abandonedCount >= 2) return "alone";
  return attemptsMade === 0 ? "first" : "retry";
}
