/**
 * Codec: rows of SQLite to tasks and back. Rows come as arrays, in the order of the column lists
 * here, because naming columns costs more than reading them.
 */
import type { StopReason } from "@redrive/core";
import type { StartedTask } from "../../model/batch.ts";
import type { DestinationRow } from "../../model/destination-row.ts";
import {
  type AttemptLog,
  type Headers,
  LANES,
  type Lane,
  type NewTask,
  type RetryTask,
  TASK_STATUSES,
  type TaskStatus,
} from "../../model/task.ts";

/** What SQLite holds and hands out. */
export type Cell = null | number | string | Uint8Array;

export const PENDING = 0;
export const IN_FLIGHT = 1;
export const SUCCEEDED = 2;
export const EXHAUSTED = 3;
export const CANCELLED = 4;

export function statusNumber(status: TaskStatus): number {
  return TASK_STATUSES.indexOf(status);
}

export function statusName(number: number): TaskStatus {
  return TASK_STATUSES[number] as TaskStatus;
}

export function laneNumber(lane: Lane): number {
  return LANES.indexOf(lane);
}

export function laneName(number: number): Lane {
  return LANES[number] as Lane;
}

const NO_HEADERS: Headers = Object.freeze({});

export function headersText(headers: Headers): string {
  return headers === NO_HEADERS ? "{}" : JSON.stringify(headers);
}

function headersOf(text: string): Headers {
  return text === "{}" ? NO_HEADERS : (JSON.parse(text) as Headers);
}

/** The columns of `payloads` that `payloadOf` reads, `body` last so that it can be left out. */
export const PAYLOAD_COLUMNS = `p.created_at, p.scheduled_at, p.deadline_at, p.idempotency_key,
  p.target_url, p.method, p.headers, p.policy_id, p.policy_version, p.idempotent, p.labels,
  p.callback_url, p.redriven_from, p.body_ref, p.body`;

/** For lists, which carry no bodies. */
export const PAYLOAD_COLUMNS_NO_BODY = PAYLOAD_COLUMNS.replace(/p\.body$/, "NULL");

const PAYLOAD_WIDTH = 15;

/** The cells of a new row of `payloads`. */
export function payloadCells(ref: number, task: NewTask): Cell[] {
  return [
    ref,
    task.createdAt,
    task.scheduledAt,
    task.deadlineAt,
    task.idempotencyKey,
    task.targetUrl,
    task.method,
    headersText(task.headers),
    task.policyId,
    task.policyVersion,
    task.idempotent ? 1 : 0,
    headersText(task.labels),
    task.callbackUrl,
    task.redrivenFrom,
    task.bodyRef,
    task.body,
  ];
}

export const STARTED_COLUMNS = `t.ref, t.task_id, t.attempt_number, t.claim_epoch, t.claimed_at,
  t.next_attempt_at, t.last_delay_ms, t.abandoned_count, t.cancel_requested_at, ${PAYLOAD_COLUMNS},
  t.last_status`;

const STARTED_WIDTH = 9;

/** How many cells `startedOf` reads; what else was asked for follows. */
export const STARTED_CELLS = STARTED_WIDTH + PAYLOAD_WIDTH + 1;

/**
 * What a row of `STARTED_COLUMNS` says, or will say once the claim at `claimedAt` is written. One
 * literal: what is spread and then added to has a hidden class of its own (docs/decisions/0012).
 */
export function startedOf(
  cells: readonly Cell[],
  { tenantId, destination }: Pick<NewTask, "tenantId" | "destination">,
  claimedAt: number | null,
): StartedTask {
  const step = claimedAt === null ? 0 : 1;
  return {
    taskId: cells[1] as string,
    tenantId,
    idempotencyKey: cells[12] as string | null,
    destination,
    targetUrl: cells[13] as string,
    method: cells[14] as string,
    headers: headersOf(cells[15] as string),
    body: cells[23] as Uint8Array | null,
    bodyRef: cells[22] as string | null,
    policyId: cells[16] as string,
    policyVersion: cells[17] as number,
    idempotent: cells[18] === 1,
    deadlineAt: cells[11] as number | null,
    createdAt: cells[9] as number,
    scheduledAt: cells[10] as number,
    labels: headersOf(cells[19] as string),
    callbackUrl: cells[20] as string | null,
    redrivenFrom: cells[21] as string | null,
    ref: cells[0] as number,
    attemptNumber: (cells[2] as number) + step,
    claimEpoch: (cells[3] as number) + step,
    claimedAt: claimedAt ?? (cells[4] as number),
    nextAttemptAt: cells[5] as number,
    lastDelayMs: cells[6] as number,
    abandonedCount: cells[7] as number,
    cancelRequestedAt: cells[8] as number | null,
    lastStatus: cells[24] as number | null,
  };
}

export const TASK_COLUMNS = `t.tenant_id, t.task_id, d.name, t.status, t.reason, t.lane,
  t.attempt_number, t.next_attempt_at, t.claim_epoch, n.node_id, t.claimed_at, t.last_delay_ms,
  t.abandoned_count, t.cancel_requested_at, t.last_status, t.last_error, t.redriven_to,
  t.finished_at`;

export const TASK_TABLES = `tasks t JOIN payloads p ON p.ref = t.ref
  JOIN destinations d ON d.destination_id = t.destination_id
  LEFT JOIN nodes n ON n.node_number = t.claimed_by`;

/** A row of `TASK_COLUMNS, PAYLOAD_COLUMNS` from `TASK_TABLES`. One literal, as `startedOf`. */
export function taskOf(cells: readonly Cell[]): RetryTask {
  return {
    tenantId: cells[0] as string,
    taskId: cells[1] as string,
    destination: cells[2] as string,
    createdAt: cells[18] as number,
    scheduledAt: cells[19] as number,
    deadlineAt: cells[20] as number | null,
    idempotencyKey: cells[21] as string | null,
    targetUrl: cells[22] as string,
    method: cells[23] as string,
    headers: headersOf(cells[24] as string),
    policyId: cells[25] as string,
    policyVersion: cells[26] as number,
    idempotent: cells[27] === 1,
    labels: headersOf(cells[28] as string),
    callbackUrl: cells[29] as string | null,
    redrivenFrom: cells[30] as string | null,
    bodyRef: cells[31] as string | null,
    body: cells[32] as Uint8Array | null,
    status: statusName(cells[3] as number),
    reason: cells[4] as StopReason | null,
    lane: laneName(cells[5] as number),
    attemptNumber: cells[6] as number,
    nextAttemptAt: cells[7] as number,
    claimEpoch: cells[8] as number,
    claimedBy: cells[9] as string | null,
    claimedAt: cells[10] as number | null,
    lastDelayMs: cells[11] as number,
    abandonedCount: cells[12] as number,
    cancelRequestedAt: cells[13] as number | null,
    lastStatus: cells[14] as number | null,
    lastError: cells[15] as string | null,
    redrivenTo: cells[16] as string | null,
    finishedAt: cells[17] as number | null,
  };
}

export const ATTEMPT_COLUMNS = `attempt_number, started_at, duration_ms, dns_ms, connect_ms, tls_ms,
  first_byte_ms, outcome, response_status, error_class, error_message, next_delay_ms, delay_source,
  response_headers, response_body`;

export function attemptCells(ref: number, log: AttemptLog): Cell[] {
  const { phases } = log;
  return [
    ref,
    log.attemptNumber,
    log.startedAt,
    log.durationMs,
    phases?.dnsMs ?? null,
    phases?.connectMs ?? null,
    phases?.tlsMs ?? null,
    phases?.firstByteMs ?? null,
    log.outcome,
    log.responseStatus,
    log.errorClass,
    log.errorMessage,
    log.nextDelayMs,
    log.delaySource,
    log.responseHeaders === null ? null : JSON.stringify(log.responseHeaders),
    log.responseBody,
  ];
}

export function attemptOf(cells: readonly Cell[]): AttemptLog {
  const [dnsMs, connectMs, tlsMs, firstByteMs] = cells.slice(3, 7) as readonly (number | null)[];
  const phases = [dnsMs, connectMs, tlsMs, firstByteMs].every((ms) => ms === null)
    ? null
    : { dnsMs, connectMs, tlsMs, firstByteMs };
  const headers = cells[13] as string | null;
  return {
    attemptNumber: cells[0] as number,
    startedAt: cells[1] as number,
    durationMs: cells[2] as number,
    phases: phases as AttemptLog["phases"],
    outcome: cells[7] as string,
    responseStatus: cells[8] as number | null,
    errorClass: cells[9] as string | null,
    errorMessage: cells[10] as string | null,
    nextDelayMs: cells[11] as number | null,
    delaySource: cells[12] as string | null,
    responseHeaders: headers === null ? null : (JSON.parse(headers) as Headers),
    responseBody: cells[14] as Uint8Array | null,
  };
}

export const DESTINATION_COLUMNS = `tenant_id, name, version, document, paused_at, gate_until,
  breaker_state, open_until, open_count`;

export function destinationOf(cells: readonly Cell[]): DestinationRow {
  return {
    tenantId: cells[0] as string,
    name: cells[1] as string,
    version: cells[2] as number,
    document: cells[3] as string | null,
    pausedAt: cells[4] as number | null,
    gateUntil: cells[5] as number,
    breakerState: cells[6] as DestinationRow["breakerState"],
    openUntil: cells[7] as number,
    openCount: cells[8] as number,
  };
}

export function destinationCells(row: DestinationRow): Cell[] {
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
