/**
 * Task codec: the three values that Redis stores of a task. The head never changes and is read by
 * clients only. The state is read and changed by scripts, too. The body is raw bytes.
 */
import type { StopReason } from "@redrive/core";
import { type StartedTask, startedTask } from "../../../model/batch.ts";
import {
  type Headers,
  LANES,
  type NewTask,
  type RetryTask,
  TASK_STATUSES,
  type TaskStatus,
} from "../../../model/task.ts";
import type { TaskFilter } from "../../../model/task-query.ts";
import { type Packable, pack, type Unpacked, unpackList } from "./message-pack.ts";

/** The positions of the state, from 0. Scripts count from 1 (see `scripts/task-script.ts`). */
const AT = {
  status: 0,
  lane: 1,
  attemptNumber: 2,
  nextAttemptAt: 3,
  claimEpoch: 4,
  claimedBy: 5,
  claimedAt: 6,
  lastDelayMs: 7,
  abandonedCount: 8,
  cancelRequestedAt: 9,
  lastStatus: 10,
  lastError: 11,
  reason: 12,
  redrivenTo: 13,
  finishedAt: 14,
  sequence: 15,
  destination: 16,
  policyId: 17,
  idempotencyKey: 18,
} as const;

export type StateCells = readonly Unpacked[];

/** False if the state alone shows that the task does not match. */
export function mayMatch(cells: StateCells, filter: TaskFilter): boolean {
  const { status, destination, policyId, idempotencyKey, reason, lastStatus } = filter;
  const differs = (wanted: Unpacked | undefined, at: number) =>
    wanted !== undefined && wanted !== cells[at];
  return !(
    (status !== undefined && statusNumber(status) !== cells[AT.status]) ||
    differs(destination, AT.destination) ||
    differs(policyId, AT.policyId) ||
    differs(idempotencyKey, AT.idempotencyKey) ||
    differs(reason, AT.reason) ||
    differs(lastStatus, AT.lastStatus)
  );
}

/** The node that holds the claim of a task in flight. */
export function claimantOf(cells: StateCells): string | null {
  return cells[AT.claimedBy] as string | null;
}

export function statusNumber(status: TaskStatus): number {
  return TASK_STATUSES.indexOf(status);
}

export function statusOf(number: Unpacked | undefined): TaskStatus {
  return TASK_STATUSES[number as number] as TaskStatus;
}

export function packHead(task: NewTask): Buffer {
  return pack([
    task.taskId,
    task.tenantId,
    task.idempotencyKey,
    task.destination,
    task.targetUrl,
    task.method,
    JSON.stringify(task.headers),
    task.bodyRef,
    task.policyId,
    task.policyVersion,
    task.idempotent ? 1 : 0,
    task.deadlineAt,
    task.createdAt,
    task.scheduledAt,
    JSON.stringify(task.labels),
    task.callbackUrl,
    task.redrivenFrom,
  ]);
}

/** The part of a task that never changes. */
export function newTaskOf(head: Buffer, body: Buffer | null): NewTask {
  const cells = unpackList(head);
  return {
    taskId: cells[0] as string,
    tenantId: cells[1] as string,
    idempotencyKey: cells[2] as string | null,
    destination: cells[3] as string,
    targetUrl: cells[4] as string,
    method: cells[5] as string,
    headers: JSON.parse(cells[6] as string) as Headers,
    // A copy: the reply of the server is a part of a larger buffer.
    body: body === null ? null : new Uint8Array(body),
    bodyRef: cells[7] as string | null,
    policyId: cells[8] as string,
    policyVersion: cells[9] as number,
    idempotent: cells[10] === 1,
    deadlineAt: cells[11] as number | null,
    createdAt: cells[12] as number,
    scheduledAt: cells[13] as number,
    labels: JSON.parse(cells[14] as string) as Headers,
    callbackUrl: cells[15] as string | null,
    redrivenFrom: cells[16] as string | null,
  };
}

/** The state of a task. Scripts set its sequence number. */
export function stateOf(task: RetryTask): readonly Packable[] {
  return [
    statusNumber(task.status),
    LANES.indexOf(task.lane),
    task.attemptNumber,
    task.nextAttemptAt,
    task.claimEpoch,
    task.claimedBy,
    task.claimedAt,
    task.lastDelayMs,
    task.abandonedCount,
    task.cancelRequestedAt,
    task.lastStatus,
    task.lastError,
    task.reason,
    task.redrivenTo,
    task.finishedAt,
    0,
    task.destination,
    task.policyId,
    task.idempotencyKey,
  ];
}

export function stateCells(state: Buffer): StateCells {
  return unpackList(state);
}

/** The claim that a stored task in flight is. */
export function startedOf(task: NewTask, cells: StateCells): StartedTask {
  return startedTask(task, cells[AT.sequence] as number, {
    attemptNumber: cells[AT.attemptNumber] as number,
    claimEpoch: cells[AT.claimEpoch] as number,
    claimedAt: cells[AT.claimedAt] as number,
    nextAttemptAt: cells[AT.nextAttemptAt] as number,
    lastDelayMs: cells[AT.lastDelayMs] as number,
    abandonedCount: cells[AT.abandonedCount] as number,
    cancelRequestedAt: cells[AT.cancelRequestedAt] as number | null,
    lastStatus: cells[AT.lastStatus] as number | null,
  });
}

export function taskOf(task: NewTask, cells: StateCells): RetryTask {
  return {
    ...task,
    status: statusOf(cells[AT.status]),
    reason: cells[AT.reason] as StopReason | null,
    lane: LANES[cells[AT.lane] as number] as RetryTask["lane"],
    attemptNumber: cells[AT.attemptNumber] as number,
    nextAttemptAt: cells[AT.nextAttemptAt] as number,
    claimEpoch: cells[AT.claimEpoch] as number,
    claimedBy: cells[AT.claimedBy] as string | null,
    claimedAt: cells[AT.claimedAt] as number | null,
    lastDelayMs: cells[AT.lastDelayMs] as number,
    abandonedCount: cells[AT.abandonedCount] as number,
    cancelRequestedAt: cells[AT.cancelRequestedAt] as number | null,
    lastStatus: cells[AT.lastStatus] as number | null,
    lastError: cells[AT.lastError] as string | null,
    redrivenTo: cells[AT.redrivenTo] as string | null,
    finishedAt: cells[AT.finishedAt] as number | null,
  };
}
