/**
 * Batch: the items of one store transaction, and the result of each item. The engine fills a batch
 * in its commit loop; a store carries it out as a whole.
 */
import type { StopReason } from "@redrive/core";
import type { DestinationRow } from "./destination-row.ts";
import type { UnversionedDocument } from "./document-table.ts";
import type { LaneDue } from "./lane-due.ts";
import type { AttemptLog, EndedStatus, Lane, NewTask, TaskState, TaskStatus } from "./task.ts";

/** The work of one transaction. At most 256 items, claims included, keep a transaction short. */
export interface Batch {
  readonly now: number;
  /**
   * After this instant of its clock, a shared store refuses the batch: its node does not wait for it any
   * more, and has made up its mind about what it holds. Null: never.
   */
  readonly expiresAt: number | null;
  /** The node that claims. */
  readonly nodeId: string;
  readonly destinations: readonly DestinationWrite[];
  readonly creates: readonly Create[];
  readonly settles: readonly Settle[];
  readonly cancels: readonly CancelRequest[];
  /** Tasks to run now instead of when they are due. */
  readonly retryNows: readonly TaskRef[];
  readonly claims: readonly ClaimRequest[];
  /**
   * Lanes of partitions that other nodes lease, in which this batch makes a task wait that is due soon.
   * Once the batch is done, the store tells those nodes, if it can.
   */
  readonly wakeUps: readonly LaneDue[];
  /** Each replaces or removes the stored document, whatever its version. They have no result. */
  readonly documents: readonly UnversionedDocument[];
}

/** A batch without items, to be filled. */
export const EMPTY_BATCH: Omit<Batch, "now" | "nodeId"> = {
  expiresAt: null,
  destinations: [],
  creates: [],
  settles: [],
  cancels: [],
  retryNows: [],
  claims: [],
  wakeUps: [],
  documents: [],
};

/** One result per item, at the item's index. */
export interface CommitResult {
  /** Null: written. Otherwise the stored row, whose version did not match. */
  readonly destinations: readonly (DestinationRow | null)[];
  readonly creates: readonly CreateResult[];
  readonly settles: readonly SettleResult[];
  readonly cancels: readonly CancelResult[];
  readonly retryNows: readonly RetryNowResult[];
  readonly claims: readonly ClaimResult[];
}

export interface TaskRef {
  readonly tenantId: string;
  readonly taskId: string;
}

/**
 * Writes `row` if the stored version is `row.version - 1`. In an exclusive store, a destination without a
 * row has version 0. In a shared store it has the highest version of all rows that were removed there, so
 * that the versions of a destination never start again. A write that is refused because no row is stored
 * returns a blank row with that version.
 */
export interface DestinationWrite {
  readonly row: DestinationRow;
}

export interface Create {
  readonly task: NewTask;
  /**
   * Fingerprint of the payload, for the key table. Null: no row in that table, because no key was
   * given or because the task is a redrive, which uses the key of its source.
   */
  readonly fingerprint: string | null;
  /**
   * Not null: insert the task already claimed, under the conditions of `ClaimRequest`. The claim is
   * the STARTED record of attempt 1.
   */
  readonly claimVersion: number | null;
}

export type CreateResult =
  /**
   * `started` is null unless the task was inserted claimed. If a claim was requested and refused,
   * `row` is the stored row that refused it.
   */
  | {
      readonly kind: "created";
      readonly started: StartedTask | null;
      readonly row: DestinationRow | null;
    }
  /** The key exists with the same fingerprint, and belongs to this task. */
  | { readonly kind: "replayed"; readonly taskId: string }
  /** The key exists with another fingerprint. */
  | { readonly kind: "conflict"; readonly taskId: string }
  /** The source of the redrive has already been redriven. */
  | { readonly kind: "redriven"; readonly taskId: string }
  /** The policy version does not exist, or was removed. Version 0 always exists: it is a preset. */
  | { readonly kind: "unknown-policy" };

/** The store's own short name for a task. Only the store that made it can read it. */
export type StoreRef = number | string;

/** A claim: the STARTED record. It has everything that an attempt and a decision need. */
export interface StartedTask extends NewTask {
  /** A settle passes it back. */
  readonly ref: StoreRef;
  readonly attemptNumber: number;
  readonly claimEpoch: number;
  readonly claimedBy: string;
  readonly claimedAt: number;
  readonly nextAttemptAt: number;
  readonly lastDelayMs: number;
  readonly abandonedCount: number;
  readonly cancelRequestedAt: number | null;
  /** The response status of the previous attempt; null: no response, or no previous attempt. */
  readonly lastStatus: number | null;
}

/** The claim of a task that was inserted already claimed. */
export function freshClaim(
  task: NewTask,
  ref: StoreRef,
  claimedBy: string,
  claimedAt: number,
): StartedTask {
  return startedTask(task, ref, {
    attemptNumber: 1,
    claimEpoch: 1,
    claimedBy,
    claimedAt,
    nextAttemptAt: task.scheduledAt,
    lastDelayMs: 0,
    abandonedCount: 0,
    cancelRequestedAt: null,
    lastStatus: null,
  });
}

/** The state of a task that has a claim. */
type ClaimedState = Pick<TaskState, Exclude<keyof StartedTask, keyof NewTask | "ref">>;

/** The claim of a task. Field by field: with a spread, every claim would get its own hidden class. */
export function startedTask(task: NewTask, ref: StoreRef, state: ClaimedState): StartedTask {
  return {
    taskId: task.taskId,
    tenantId: task.tenantId,
    idempotencyKey: task.idempotencyKey,
    destination: task.destination,
    targetUrl: task.targetUrl,
    method: task.method,
    headers: task.headers,
    body: task.body,
    bodyRef: task.bodyRef,
    policyId: task.policyId,
    policyVersion: task.policyVersion,
    idempotent: task.idempotent,
    deadlineAt: task.deadlineAt,
    createdAt: task.createdAt,
    scheduledAt: task.scheduledAt,
    labels: task.labels,
    callbackUrl: task.callbackUrl,
    redrivenFrom: task.redrivenFrom,
    ref,
    attemptNumber: state.attemptNumber,
    claimEpoch: state.claimEpoch,
    claimedBy: state.claimedBy ?? "",
    claimedAt: state.claimedAt ?? 0,
    nextAttemptAt: state.nextAttemptAt,
    lastDelayMs: state.lastDelayMs,
    abandonedCount: state.abandonedCount,
    cancelRequestedAt: state.cancelRequestedAt,
    lastStatus: state.lastStatus,
  };
}

/**
 * Claims waiting tasks that are due and starts their next attempt; within a partition, the earliest
 * first. Never claims a task that is IN_FLIGHT. Claims nothing unless the destination's row has
 * `version`, and nothing if the batch's own write of that row was refused. So a node claims only under
 * the pause, gate and circuit that it knows, and only one of two nodes that want to probe succeeds.
 */
export interface ClaimRequest {
  readonly tenantId: string;
  readonly destination: string;
  readonly lane: Lane;
  /** Where the node expects due tasks, the earliest first. At least one. */
  readonly partitions: readonly number[];
  /** Of all partitions together. */
  readonly limit: number;
  /**
   * Tasks that are due within this many milliseconds are claimed too, up to `aheadLimit`.
   * Negative: only tasks that have been due for at least this long are claimed.
   */
  readonly aheadMs: number;
  readonly aheadLimit: number;
  /** Any version is the right one for a destination that has no row. */
  readonly version: number;
}

export interface ClaimResult {
  readonly tasks: readonly StartedTask[];
  /**
   * When the next remaining task is due, at the index of each requested partition; null: no task of
   * the lane waits there.
   */
  readonly nextDueAts: readonly (number | null)[];
  /** Not null: nothing was claimed, because the stored row is this one. */
  readonly row: DestinationRow | null;
}

/**
 * Ends a claim. Refused without a change unless the row at `ref` is this task, IN_FLIGHT at this
 * `claimEpoch`: a store may give the `ref` of a removed task to another one. If a cancel was requested
 * during the attempt, every status except SUCCEEDED becomes CANCELLED.
 */
export interface Settle extends TaskRef {
  readonly ref: StoreRef;
  readonly claimEpoch: number;
  /** The node of the claim. After a failover that lost it, another one may have the same epoch. */
  readonly claimedBy: string;
  readonly status: Exclude<TaskStatus, "IN_FLIGHT">;
  readonly reason: StopReason | null;
  readonly lane: Lane;
  /** For PENDING. */
  readonly nextAttemptAt: number;
  readonly lastDelayMs: number;
  readonly abandonedCount: number;
  /** Null: no request was sent, so the attempt number is returned. */
  readonly attempt: AttemptLog | null;
  /** Without an attempt: the new last error of the task. Default: the last error stays. */
  readonly lastError?: string;
  readonly onEnd?: OnEnd;
}

/** Tasks to create when another task ends, by its final status, in the same commit. */
export type OnEnd = Readonly<Partial<Record<EndedStatus, readonly NewTask[]>>>;

export interface CancelRequest extends TaskRef {
  /** Created if this cancel ends the task. */
  readonly onEnd?: OnEnd;
}

export type SettleResult = "fenced" | Exclude<TaskStatus, "IN_FLIGHT">;

export type CancelResult =
  | { readonly kind: "cancelled" }
  /** An attempt is running. Its success wins; any other outcome ends the task as CANCELLED. */
  | { readonly kind: "requested"; readonly cancelRequestedAt: number }
  /** The task had already ended with another status. */
  | { readonly kind: "ended"; readonly status: TaskStatus }
  | { readonly kind: "unknown" };

export type RetryNowResult =
  | { readonly kind: "rescheduled"; readonly destination: string; readonly lane: Lane }
  | { readonly kind: "not-pending"; readonly status: TaskStatus }
  | { readonly kind: "unknown" };
