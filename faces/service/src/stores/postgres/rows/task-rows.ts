/**
 * Task rows: the columns of a task in the tables, and the tasks that they hold. A payload is the part
 * of a task that never changes, without the body: a list in JSON whose first bracket is missing, so that
 * the server puts the state of a claim before it. The server does not read it.
 */
import type { StopReason } from "@redrive/core";
import type { StartedTask } from "../../../model/batch.ts";
import type { NewTask, RetryTask } from "../../../model/task.ts";
import type { Cell } from "../connection/cells.ts";
import { laneName, statusName } from "./codes.ts";

type Body = NewTask["body"];

export function payloadOf(task: NewTask): string {
  const cells = [
    task.taskId,
    task.tenantId,
    task.idempotencyKey,
    task.destination,
    task.targetUrl,
    task.method,
    task.headers,
    task.bodyRef,
    task.policyId,
    task.policyVersion,
    task.idempotent,
    task.deadlineAt,
    task.createdAt,
    task.scheduledAt,
    task.labels,
    task.callbackUrl,
    task.redrivenFrom,
  ];
  return JSON.stringify(cells).slice(1);
}

type PayloadCells = readonly [
  taskId: string,
  tenantId: string,
  idempotencyKey: string | null,
  destination: string,
  targetUrl: string,
  method: string,
  headers: NewTask["headers"],
  bodyRef: string | null,
  policyId: string,
  policyVersion: number,
  idempotent: boolean,
  deadlineAt: number | null,
  createdAt: number,
  scheduledAt: number,
  labels: NewTask["labels"],
  callbackUrl: string | null,
  redrivenFrom: string | null,
];

/** The state of a claim, in the order of its cells before those of the payload. */
const CLAIM_COLUMNS = [
  ...(["attempt_number", "claim_epoch", "claimed_at", "next_attempt_at", "last_delay_ms"] as const),
  ...(["abandoned_count", "cancel_requested_at", "last_status"] as const),
] as const;

type ClaimCells = readonly [
  attemptNumber: number,
  claimEpoch: number,
  claimedAt: number,
  nextAttemptAt: number,
  lastDelayMs: number,
  abandonedCount: number,
  cancelRequestedAt: number | null,
  lastStatus: number | null,
  ...PayloadCells,
];

/** An expression for a claim in one JSON text. `values`: expressions that replace columns of `table`. */
export function claimJson(
  table: string,
  values: Partial<Record<(typeof CLAIM_COLUMNS)[number], string>> = {},
): string {
  const cells = CLAIM_COLUMNS.map((column) => {
    const value = values[column] ?? `${table}.${column}`;
    const isNullable = column === "cancel_requested_at" || column === "last_status";
    return isNullable ? `coalesce((${value})::text, 'null')` : value;
  });
  return `concat_ws(',', '[' || ${cells.join(", ")}, t.payload)`;
}

/** Field by field: with a spread, every claim would get its own hidden class. */
export function startedOf(json: string, body: Body): StartedTask {
  const cells = JSON.parse(json) as ClaimCells;
  return {
    taskId: cells[8],
    tenantId: cells[9],
    idempotencyKey: cells[10],
    destination: cells[11],
    targetUrl: cells[12],
    method: cells[13],
    headers: cells[14],
    body,
    bodyRef: cells[15],
    policyId: cells[16],
    policyVersion: cells[17],
    idempotent: cells[18],
    deadlineAt: cells[19],
    createdAt: cells[20],
    scheduledAt: cells[21],
    labels: cells[22],
    callbackUrl: cells[23],
    redrivenFrom: cells[24],
    // Its id is enough to find it.
    ref: cells[8],
    attemptNumber: cells[0],
    claimEpoch: cells[1],
    claimedAt: cells[2],
    nextAttemptAt: cells[3],
    lastDelayMs: cells[4],
    abandonedCount: cells[5],
    cancelRequestedAt: cells[6],
    lastStatus: cells[7],
  };
}

/** The state of a task is in one of three tables. */
export const TASK_TABLES = `redrive.tasks t
  LEFT JOIN redrive.waiting_tasks w ON w.tenant_id = t.tenant_id AND w.task_id = t.task_id
  LEFT JOIN redrive.claimed_tasks c ON c.tenant_id = t.tenant_id AND c.task_id = t.task_id
  LEFT JOIN redrive.ended_tasks e ON e.ref = t.ref`;

const state = (column: string) => `coalesce(w.${column}, c.${column}, e.${column})`;

/** The body is the last column; a list returns NULL instead. */
export const taskColumns = (body: string) => `CASE WHEN w.ref IS NOT NULL THEN 0
    WHEN c.ref IS NOT NULL THEN 1 ELSE e.status END, e.reason, ${state("lane")},
  ${state("attempt_number")}, ${state("next_attempt_at")}, ${state("claim_epoch")}, c.claimed_by,
  c.claimed_at, ${state("last_delay_ms")}, ${state("abandoned_count")},
  coalesce(c.cancel_requested_at, e.cancel_requested_at), ${state("last_status")},
  ${state("last_error")}, t.redriven_to, e.finished_at, t.payload, ${body}`;

export function taskOf(cells: readonly Cell[]): RetryTask {
  const payload = JSON.parse(`[${cells[15] as string}`) as PayloadCells;
  return {
    taskId: payload[0],
    tenantId: payload[1],
    idempotencyKey: payload[2],
    destination: payload[3],
    targetUrl: payload[4],
    method: payload[5],
    headers: payload[6],
    body: (cells[16] ?? null) as Body,
    bodyRef: payload[7],
    policyId: payload[8],
    policyVersion: payload[9],
    idempotent: payload[10],
    deadlineAt: payload[11],
    createdAt: payload[12],
    scheduledAt: payload[13],
    labels: payload[14],
    callbackUrl: payload[15],
    redrivenFrom: payload[16],
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
