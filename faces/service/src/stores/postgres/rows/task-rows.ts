/**
 * Task rows: the columns of a task in `tasks`, `open_tasks` and `payloads`, and the tasks that they
 * hold. A payload is the part of a task that never changes, as JSON without the body; the server
 * does not read it.
 */
import type { StopReason } from "@redrive/core";
import type { StartedTask } from "../../../model/batch.ts";
import type { NewTask, RetryTask } from "../../../model/task.ts";
import type { Cell } from "../connection/cells.ts";
import { laneName, statusName } from "./codes.ts";

export function payloadOf(task: NewTask): string {
  return JSON.stringify({ ...task, body: undefined });
}

function newTaskOf(payload: Cell | undefined, body: Cell | undefined): NewTask {
  return { ...(JSON.parse(payload as string) as NewTask), body: (body ?? null) as NewTask["body"] };
}

/** The state of a claim, in the order of the server's function. */
export type ClaimCells = readonly (number | null)[];

/** A claim, with the columns of a row of `open_tasks`. */
export const CLAIM_COLUMNS = `o.ref, o.attempt_number, o.claim_epoch, o.claimed_at,
  o.next_attempt_at, o.last_delay_ms, o.abandoned_count, o.cancel_requested_at, o.last_status`;
export const CLAIM_CELLS = 9;

/** Field by field: with a spread, every claim would get its own hidden class. */
export function startedOf(cells: ClaimCells, payload: Cell, body: Cell): StartedTask {
  const task = newTaskOf(payload, body);
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
    ref: cells[0] as number,
    attemptNumber: cells[1] as number,
    claimEpoch: cells[2] as number,
    claimedAt: cells[3] as number,
    nextAttemptAt: cells[4] as number,
    lastDelayMs: cells[5] as number,
    abandonedCount: cells[6] as number,
    cancelRequestedAt: cells[7] ?? null,
    lastStatus: cells[8] ?? null,
  };
}

/** While a task is open, its state is in `open_tasks`; afterward, in `tasks`. */
const state = (column: string) => `CASE WHEN t.status = 0 THEN o.${column} ELSE t.${column} END`;

/** The body is the last column; a list returns NULL instead. */
export const taskColumns = (body: string) => `${state("status")}, t.reason, ${state("lane")},
  ${state("attempt_number")}, ${state("next_attempt_at")}, ${state("claim_epoch")}, o.claimed_by,
  o.claimed_at, ${state("last_delay_ms")}, ${state("abandoned_count")},
  ${state("cancel_requested_at")}, ${state("last_status")}, ${state("last_error")},
  t.redriven_to, t.finished_at, p.payload, ${body}`;

export const TASK_TABLES = `redrive.tasks t LEFT JOIN redrive.open_tasks o ON o.ref = t.ref
  JOIN redrive.payloads p ON p.ref = t.ref`;

export function taskOf(cells: readonly Cell[]): RetryTask {
  return {
    ...newTaskOf(cells[15], cells[16]),
    status: statusName(cells[0] as number),
    reason: cells[1] as StopReason | null,
    lane: laneName(cells[2] as number),
    attemptNumber: cells[3] as number,
    nextAttemptAt: cells[4] as number,
    claimEpoch: cells[5] as number,
    claimedBy: cells[6] as string | null,
    claimedAt: cells[7] as number | null,
    lastDelayMs: cells[8] as number,
    abandonedCount: cells[9] as number,
    cancelRequestedAt: cells[10] as number | null,
    lastStatus: cells[11] as number | null,
    lastError: cells[12] as string | null,
    redrivenTo: cells[13] as string | null,
    finishedAt: cells[14] as number | null,
  };
}
