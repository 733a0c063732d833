/**
 * Rows: the tables of PostgreSQL as values: codes, partitions, destinations, attempts and tasks.
 */
import type { BreakerState, StopReason } from "@redrive/core";
import type { StartedTask } from "../../../model/batch.ts";
import type { DestinationRow } from "../../../model/destination-row.ts";
import {
  type AttemptLog,
  LANES,
  type Lane,
  type NewTask,
  NO_WAITS,
  type RetryTask,
  TASK_STATUSES,
  type TaskStatus,
} from "../../../model/task.ts";
import type { Cell } from "../connection/sql.ts";

// Codes: the numbers that the tables hold for statuses and lanes.

export function statusNumber(status: TaskStatus): number {
  return TASK_STATUSES.indexOf(status);
}

export function statusName(number: number): TaskStatus {
  const name = TASK_STATUSES[number];
  if (name === undefined) throw new Error(`unknown status ${number}`);
  return name;
}

export function laneNumber(lane: Lane): number {
  return LANES.indexOf(lane);
}

export function laneName(number: number): Lane {
  const name = LANES[number];
  if (name === undefined) throw new Error(`unknown lane ${number}`);
  return name;
}

// Partitions: their number. It never changes: the rows of waiting tasks contain their partition.

/** A divisor of 256, and more than a fleet has nodes: a node needs at least one. */
export const PARTITIONS = 64;

// Destination rows: the row of a destination as the functions of the server write and read it.

export const DESTINATION_COLUMNS = `d.tenant_id, d.name, d.version, d.document, d.paused_at,
  d.gate_until, d.breaker_state, d.open_until, d.open_count`;

/** The number of cells that `destinationOf` reads. */
export const DESTINATION_CELLS = 9;

export type DestinationCells = readonly Cell[];

export function destinationOf(cells: DestinationCells): DestinationRow {
  return {
    tenantId: cells[0] as string,
    name: cells[1] as string,
    version: cells[2] as number,
    document: cells[3] as string | null,
    pausedAt: cells[4] as number | null,
    gateUntil: cells[5] as number,
    breakerState: cells[6] as BreakerState,
    openUntil: cells[7] as number,
    openCount: cells[8] as number,
  };
}

export function destinationCells(row: DestinationRow): DestinationCells {
  return [
    row.tenantId,
    row.name,
    row.version,
    row.document,
    row.pausedAt,
    row.gateUntil,
    row.breakerState,
    row.openUntil,
    row.openCount,
  ];
}

// Attempt rows: the log of an attempt as JSON, which the server does not read, and the body of its
// response.

/**
 * The attempts of a task, given expressions of its ref and of a condition on the number. The last one is
 * stored with the end of the task. Kept attempts are copies as long as the partition of their day exists.
 */
export const attemptsOf = (ref: string, condition: string) => `
  SELECT attempt_number, log, response_body FROM redrive.attempts x
  WHERE ref = ${ref} AND ${condition}
  UNION ALL
  SELECT attempt_number, log, response_body FROM redrive.kept_attempts x
  WHERE ref = ${ref} AND ${condition}
    AND NOT EXISTS (SELECT FROM redrive.attempt_days d WHERE d.day = x.day)
  UNION ALL
  SELECT attempt_number, log, response_body FROM redrive.ended_tasks x
  WHERE ref = ${ref} AND log IS NOT NULL AND ${condition}`;

/** A list: it is half as long as an object with the names of its fields. */
export function logOf(log: AttemptLog): string {
  return JSON.stringify([
    log.attemptNumber,
    log.startedAt,
    log.durationMs,
    log.phases,
    log.outcome,
    log.responseStatus,
    log.errorClass,
    log.errorMessage,
    log.responseHeaders,
    log.nextDelayMs,
    log.delaySource,
    log.waits.length === 0 ? null : log.waits,
  ]);
}

type LogCells = readonly [
  attemptNumber: number,
  startedAt: number,
  durationMs: number,
  phases: AttemptLog["phases"],
  outcome: string,
  responseStatus: number | null,
  errorClass: string | null,
  errorMessage: string | null,
  responseHeaders: AttemptLog["responseHeaders"],
  nextDelayMs: number | null,
  delaySource: string | null,
  waits: AttemptLog["waits"] | null,
];

export function attemptOf([log, body]: readonly Cell[]): AttemptLog {
  const responseBody = (body ?? null) as AttemptLog["responseBody"];
  const stored = JSON.parse(log as string) as LogCells | OlderLog;
  if (isOlder(stored)) return { ...stored, responseBody, waits: stored.waits ?? NO_WAITS };
  return {
    attemptNumber: stored[0],
    startedAt: stored[1],
    durationMs: stored[2],
    phases: stored[3],
    outcome: stored[4],
    responseStatus: stored[5],
    errorClass: stored[6],
    errorMessage: stored[7],
    responseHeaders: stored[8],
    responseBody,
    nextDelayMs: stored[9],
    delaySource: stored[10],
    waits: stored[11] ?? NO_WAITS,
  };
}

/** Before schema 3, a log was an object; still earlier, it had no waits. */
type OlderLog = Omit<AttemptLog, "responseBody" | "waits"> & Partial<Pick<AttemptLog, "waits">>;

function isOlder(log: LogCells | OlderLog): log is OlderLog {
  return !Array.isArray(log);
}

// Task rows: the columns of a task in the tables, and the tasks that they hold. A payload is the part
// of a task that never changes, without the body: a list in JSON whose first bracket is missing, so that
// the server puts the state of a claim before it. The server does not read it.

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
export function startedOf(json: string, body: Body, claimedBy: string): StartedTask {
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
    claimedBy,
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
