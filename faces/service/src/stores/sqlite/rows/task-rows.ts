/**
 * Task rows: the columns of `tasks` and `payloads`, and the tasks that they hold.
 */
import type { StopReason } from "@redrive/core";
import type { StartedTask } from "../../../model/batch.ts";
import type { NewTask, RetryTask } from "../../../model/task.ts";
import {
  type Cell,
  columnList,
  headersOf,
  headersText,
  laneName,
  placeholders,
  positionsOf,
  statusName,
} from "./codec.ts";

/** The columns of `payloads`: the part of a task that never changes. */
const PAYLOAD = {
  createdAt: "created_at",
  scheduledAt: "scheduled_at",
  deadlineAt: "deadline_at",
  idempotencyKey: "idempotency_key",
  targetUrl: "target_url",
  method: "method",
  headers: "headers",
  policyId: "policy_id",
  policyVersion: "policy_version",
  idempotent: "idempotent",
  labels: "labels",
  callbackUrl: "callback_url",
  redrivenFrom: "redriven_from",
  bodyRef: "body_ref",
  body: "body",
} as const;

/** A row of `payloads`, with its key. */
const PAYLOAD_ROW = { ref: "ref", ...PAYLOAD } as const;
const PAYLOAD_CELLS = Object.keys(PAYLOAD_ROW).length;

export const INSERT_PAYLOAD = `INSERT INTO payloads (${columnList(PAYLOAD_ROW)})
  VALUES (${placeholders(PAYLOAD_ROW)})`;

const payloadPositions = positionsOf(PAYLOAD_ROW);

/** The cells of a new row of `payloads`. */
export function payloadCells(ref: number, task: NewTask): Cell[] {
  const at = payloadPositions;
  const cells = new Array<Cell>(PAYLOAD_CELLS);
  cells[at.ref] = ref;
  cells[at.createdAt] = task.createdAt;
  cells[at.scheduledAt] = task.scheduledAt;
  cells[at.deadlineAt] = task.deadlineAt;
  cells[at.idempotencyKey] = task.idempotencyKey;
  cells[at.targetUrl] = task.targetUrl;
  cells[at.method] = task.method;
  cells[at.headers] = headersText(task.headers);
  cells[at.policyId] = task.policyId;
  cells[at.policyVersion] = task.policyVersion;
  cells[at.idempotent] = task.idempotent ? 1 : 0;
  cells[at.labels] = headersText(task.labels);
  cells[at.callbackUrl] = task.callbackUrl;
  cells[at.redrivenFrom] = task.redrivenFrom;
  cells[at.bodyRef] = task.bodyRef;
  cells[at.body] = task.body;
  return cells;
}

/**
 * Most tasks are idempotent POSTs with none of the rare fields. Binding a parameter costs a tenth of a
 * microsecond, so they have a statement of their own with half as many.
 */
export const INSERT_PLAIN_PAYLOAD = `INSERT INTO payloads (ref, created_at, scheduled_at,
  idempotency_key, target_url, method, headers, policy_id, policy_version, idempotent, labels, body)
  VALUES (?, ?, ?, ?, ?, 'POST', ?, ?, ?, 1, '{}', ?)`;

/** May the task be inserted with `INSERT_PLAIN_PAYLOAD`? */
export function isPlain(task: NewTask): boolean {
  if (task.method !== "POST" || !task.idempotent || task.deadlineAt !== null) return false;
  if (task.callbackUrl !== null || task.redrivenFrom !== null || task.bodyRef !== null)
    return false;
  return headersText(task.labels) === "{}";
}

/** The same columns in a join, where `payloads` is `p`. */
const JOINED_PAYLOAD = Object.fromEntries(
  Object.entries(PAYLOAD).map(([field, column]) => [field, `p.${column}`]),
) as Record<keyof typeof PAYLOAD, string>;

const STARTED = {
  ref: "t.ref",
  taskId: "t.task_id",
  attemptNumber: "t.attempt_number",
  claimEpoch: "t.claim_epoch",
  claimedAt: "t.claimed_at",
  nextAttemptAt: "t.next_attempt_at",
  lastDelayMs: "t.last_delay_ms",
  abandonedCount: "t.abandoned_count",
  cancelRequestedAt: "t.cancel_requested_at",
  ...JOINED_PAYLOAD,
  lastStatus: "t.last_status",
} as const;

export const STARTED_COLUMNS = columnList(STARTED);

/** The number of cells that `startedOf` reads; a query may add columns after them. */
export const STARTED_CELLS = Object.keys(STARTED).length;

const startedPositions = positionsOf(STARTED);

/**
 * The claim that a row of `STARTED_COLUMNS` holds, or will hold once the claim at `claimedAt` is
 * written. One literal: an object that is spread and then extended gets a hidden class per object
 * (docs/decisions/0012).
 */
export function startedOf(
  cells: readonly Cell[],
  { tenantId, destination }: Pick<NewTask, "tenantId" | "destination">,
  claimedAt: number | null,
): StartedTask {
  const step = claimedAt === null ? 0 : 1;
  const at = startedPositions;
  return {
    taskId: cells[at.taskId] as string,
    tenantId,
    idempotencyKey: cells[at.idempotencyKey] as string | null,
    destination,
    targetUrl: cells[at.targetUrl] as string,
    method: cells[at.method] as string,
    headers: headersOf(cells[at.headers] as string),
    body: cells[at.body] as Uint8Array | null,
    bodyRef: cells[at.bodyRef] as string | null,
    policyId: cells[at.policyId] as string,
    policyVersion: cells[at.policyVersion] as number,
    idempotent: cells[at.idempotent] === 1,
    deadlineAt: cells[at.deadlineAt] as number | null,
    createdAt: cells[at.createdAt] as number,
    scheduledAt: cells[at.scheduledAt] as number,
    labels: headersOf(cells[at.labels] as string),
    callbackUrl: cells[at.callbackUrl] as string | null,
    redrivenFrom: cells[at.redrivenFrom] as string | null,
    ref: cells[at.ref] as number,
    attemptNumber: (cells[at.attemptNumber] as number) + step,
    claimEpoch: (cells[at.claimEpoch] as number) + step,
    claimedAt: claimedAt ?? (cells[at.claimedAt] as number),
    nextAttemptAt: cells[at.nextAttemptAt] as number,
    lastDelayMs: cells[at.lastDelayMs] as number,
    abandonedCount: cells[at.abandonedCount] as number,
    cancelRequestedAt: cells[at.cancelRequestedAt] as number | null,
    lastStatus: cells[at.lastStatus] as number | null,
  };
}

const TASK = {
  tenantId: "t.tenant_id",
  taskId: "t.task_id",
  destination: "d.name",
  status: "t.status",
  reason: "t.reason",
  lane: "t.lane",
  attemptNumber: "t.attempt_number",
  nextAttemptAt: "t.next_attempt_at",
  claimEpoch: "t.claim_epoch",
  claimedBy: "n.node_id",
  claimedAt: "t.claimed_at",
  lastDelayMs: "t.last_delay_ms",
  abandonedCount: "t.abandoned_count",
  cancelRequestedAt: "t.cancel_requested_at",
  lastStatus: "t.last_status",
  lastError: "t.last_error",
  redrivenTo: "t.redriven_to",
  finishedAt: "t.finished_at",
  ...JOINED_PAYLOAD,
} as const;

export const TASK_COLUMNS = columnList(TASK);

/** For lists, which return no bodies. */
export const TASK_COLUMNS_NO_BODY = columnList({ ...TASK, body: "NULL" });

export const TASK_TABLES = `tasks t JOIN payloads p ON p.ref = t.ref
  JOIN destinations d ON d.destination_id = t.destination_id
  LEFT JOIN nodes n ON n.node_number = t.claimed_by`;

const taskPositions = positionsOf(TASK);

/** A row of `TASK_COLUMNS` from `TASK_TABLES`. One literal, like `startedOf`. */
export function taskOf(cells: readonly Cell[]): RetryTask {
  const at = taskPositions;
  return {
    tenantId: cells[at.tenantId] as string,
    taskId: cells[at.taskId] as string,
    destination: cells[at.destination] as string,
    createdAt: cells[at.createdAt] as number,
    scheduledAt: cells[at.scheduledAt] as number,
    deadlineAt: cells[at.deadlineAt] as number | null,
    idempotencyKey: cells[at.idempotencyKey] as string | null,
    targetUrl: cells[at.targetUrl] as string,
    method: cells[at.method] as string,
    headers: headersOf(cells[at.headers] as string),
    policyId: cells[at.policyId] as string,
    policyVersion: cells[at.policyVersion] as number,
    idempotent: cells[at.idempotent] === 1,
    labels: headersOf(cells[at.labels] as string),
    callbackUrl: cells[at.callbackUrl] as string | null,
    redrivenFrom: cells[at.redrivenFrom] as string | null,
    bodyRef: cells[at.bodyRef] as string | null,
    body: cells[at.body] as Uint8Array | null,
    status: statusName(cells[at.status] as number),
    reason: cells[at.reason] as StopReason | null,
    lane: laneName(cells[at.lane] as number),
    attemptNumber: cells[at.attemptNumber] as number,
    nextAttemptAt: cells[at.nextAttemptAt] as number,
    claimEpoch: cells[at.claimEpoch] as number,
    claimedBy: cells[at.claimedBy] as string | null,
    claimedAt: cells[at.claimedAt] as number | null,
    lastDelayMs: cells[at.lastDelayMs] as number,
    abandonedCount: cells[at.abandonedCount] as number,
    cancelRequestedAt: cells[at.cancelRequestedAt] as number | null,
    lastStatus: cells[at.lastStatus] as number | null,
    lastError: cells[at.lastError] as string | null,
    redrivenTo: cells[at.redrivenTo] as string | null,
    finishedAt: cells[at.finishedAt] as number | null,
  };
}
