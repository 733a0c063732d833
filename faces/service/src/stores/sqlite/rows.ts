/**
 * Rows: the tables of SQLite as values: columns, destinations, attempts and tasks.
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
  readWaits,
  TASK_STATUSES,
  type TaskStatus,
  waitsText,
} from "../../model/task.ts";

// Codec: converts between cells of SQLite and values of tasks. A table of columns lists each field and
// its column once; the column list, the cells to write and the positions to read come from it. Rows
// come as arrays, because naming columns costs more than reading them.

/** A value that SQLite stores and returns. */
export type Cell = null | number | string | Uint8Array;

export const PENDING = 0;
export const IN_FLIGHT = 1;
export const SUCCEEDED = 2;
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
  // biome-ignore lint/suspicious/useGuardForIn: finds out whether there is a header without a list of them
  for (const _ in headers) return JSON.stringify(headers);
  return "{}";
}

function headersOf(text: string): Headers {
  return text === "{}" ? NO_HEADERS : (JSON.parse(text) as Headers);
}

/** Field to column, in the order of the cells. */
type Columns = Readonly<Record<string, string>>;

function columnList(columns: Columns): string {
  return Object.values(columns).join(", ");
}

/** One question mark per column. */
function placeholders(columns: Columns): string {
  return Object.keys(columns)
    .map(() => "?")
    .join(", ");
}

/** Field to index of its cell. Made by `JSON.parse`: V8 then reads it as fast as a literal. */
function positionsOf<Table extends Columns>(columns: Table): Readonly<Record<keyof Table, number>> {
  const entries = Object.keys(columns).map((field, index) => [field, index]);
  return JSON.parse(JSON.stringify(Object.fromEntries(entries)));
}

// Destination rows: the columns of `destinations`, and the rows that they hold.

/** The columns that identify a destination. They never change. */
const DESTINATION_NAME = { tenantId: "tenant_id", name: "name" } as const;

const DESTINATION_STATE = {
  version: "version",
  document: "document",
  pausedAt: "paused_at",
  gateUntil: "gate_until",
  breakerState: "breaker_state",
  openUntil: "open_until",
  openCount: "open_count",
} as const;

const DESTINATION = { ...DESTINATION_NAME, ...DESTINATION_STATE } as const;
const DESTINATION_FIELDS = Object.keys(DESTINATION) as readonly (keyof typeof DESTINATION)[];
const STATE_FIELDS = Object.keys(DESTINATION_STATE) as readonly (keyof typeof DESTINATION_STATE)[];

/** Of the table `d`: the cells of `destinationOf`, then the id. */
export const DESTINATION_COLUMNS: string = [...Object.values(DESTINATION), "destination_id"]
  .map((column) => `d.${column}`)
  .join(", ");

/** The position of `destination_id` in those columns. */
export const DESTINATION_ID: number = DESTINATION_FIELDS.length;

export const INSERT_DESTINATION: string = `INSERT INTO destinations (${columnList(DESTINATION)})
  VALUES (${placeholders(DESTINATION)})`;

/** Takes the cells of `destinationState`, then the id. */
export const UPDATE_DESTINATION: string = `UPDATE destinations
  SET ${STATE_FIELDS.map((field) => `${DESTINATION_STATE[field]} = ?`).join(", ")}
  WHERE destination_id = ?`;

const destinationPositions = positionsOf(DESTINATION);

export function destinationOf(cells: readonly Cell[]): DestinationRow {
  const at = destinationPositions;
  return {
    tenantId: cells[at.tenantId] as string,
    name: cells[at.name] as string,
    version: cells[at.version] as number,
    document: cells[at.document] as string | null,
    pausedAt: cells[at.pausedAt] as number | null,
    gateUntil: cells[at.gateUntil] as number,
    breakerState: cells[at.breakerState] as DestinationRow["breakerState"],
    openUntil: cells[at.openUntil] as number,
    openCount: cells[at.openCount] as number,
  };
}

/** The cells of a new row of `destinations`. */
export function destinationCells(row: DestinationRow): Cell[] {
  return DESTINATION_FIELDS.map((field) => row[field]);
}

/** The cells that an update changes. */
export function destinationState(row: DestinationRow): Cell[] {
  return STATE_FIELDS.map((field) => row[field]);
}

// Attempt rows: the columns of `attempts`, and the log entries that they hold.

const PHASES = {
  dnsMs: "dns_ms",
  connectMs: "connect_ms",
  tlsMs: "tls_ms",
  firstByteMs: "first_byte_ms",
} as const;

const ATTEMPT = {
  attemptNumber: "attempt_number",
  startedAt: "started_at",
  durationMs: "duration_ms",
  outcome: "outcome",
  responseStatus: "response_status",
  errorClass: "error_class",
  errorMessage: "error_message",
  nextDelayMs: "next_delay_ms",
  delaySource: "delay_source",
  responseHeaders: "response_headers",
  responseBody: "response_body",
  waits: "waits",
} as const;

const COLUMNS = { ...ATTEMPT, ...PHASES } as const;

export const ATTEMPT_COLUMNS = columnList(COLUMNS);

/** A row of `attempts`, with the key of its task. */
const ATTEMPT_ROW = { ...COLUMNS, ref: "ref" } as const;
const ATTEMPT_CELLS = Object.keys(ATTEMPT_ROW).length;

export const INSERT_ATTEMPT = `INSERT INTO attempts (${columnList(ATTEMPT_ROW)})
  VALUES (${placeholders(ATTEMPT_ROW)})`;

/** For a success on an open connection, which has none of the other columns. */
export const INSERT_PLAIN_SUCCESS = `INSERT INTO attempts (ref, attempt_number, started_at,
  duration_ms, outcome, response_status, response_headers, first_byte_ms)
  VALUES (?, ?, ?, ?, 'success', ?, ?, ?)`;

/** May the success be inserted with `INSERT_PLAIN_SUCCESS`? */
export function isPlainSuccess(log: AttemptLog): boolean {
  const { phases } = log;
  if (log.outcome !== "success" || log.errorClass !== null || log.errorMessage !== null)
    return false;
  if (log.responseBody !== null || log.waits.length > 0) return false;
  if (log.nextDelayMs !== null || log.delaySource !== null || phases === null) return false;
  return phases.dnsMs === null && phases.connectMs === null && phases.tlsMs === null;
}

export function responseHeadersText(headers: Headers | null): string | null {
  return headers === null ? null : JSON.stringify(headers);
}

const attemptPositions = positionsOf(ATTEMPT_ROW);

/** The cells of a new row of `attempts`. */
export function attemptCells(ref: number, log: AttemptLog): Cell[] {
  const at = attemptPositions;
  const { phases } = log;
  const cells = new Array<Cell>(ATTEMPT_CELLS);
  cells[at.ref] = ref;
  cells[at.attemptNumber] = log.attemptNumber;
  cells[at.startedAt] = log.startedAt;
  cells[at.durationMs] = log.durationMs;
  cells[at.outcome] = log.outcome;
  cells[at.responseStatus] = log.responseStatus;
  cells[at.errorClass] = log.errorClass;
  cells[at.errorMessage] = log.errorMessage;
  cells[at.nextDelayMs] = log.nextDelayMs;
  cells[at.delaySource] = log.delaySource;
  cells[at.responseHeaders] = responseHeadersText(log.responseHeaders);
  cells[at.responseBody] = log.responseBody;
  cells[at.waits] = waitsText(log.waits);
  cells[at.dnsMs] = phases?.dnsMs ?? null;
  cells[at.connectMs] = phases?.connectMs ?? null;
  cells[at.tlsMs] = phases?.tlsMs ?? null;
  cells[at.firstByteMs] = phases?.firstByteMs ?? null;
  return cells;
}

export function attemptOf(cells: readonly Cell[]): AttemptLog {
  const at = attemptPositions;
  const headers = cells[at.responseHeaders] as string | null;
  return {
    attemptNumber: cells[at.attemptNumber] as number,
    startedAt: cells[at.startedAt] as number,
    durationMs: cells[at.durationMs] as number,
    phases: phasesOf(cells),
    outcome: cells[at.outcome] as string,
    responseStatus: cells[at.responseStatus] as number | null,
    errorClass: cells[at.errorClass] as string | null,
    errorMessage: cells[at.errorMessage] as string | null,
    nextDelayMs: cells[at.nextDelayMs] as number | null,
    delaySource: cells[at.delaySource] as string | null,
    responseHeaders: headers === null ? null : (JSON.parse(headers) as Headers),
    responseBody: cells[at.responseBody] as Uint8Array | null,
    waits: readWaits(cells[at.waits] as string | null),
  };
}

function phasesOf(cells: readonly Cell[]): AttemptLog["phases"] {
  const at = attemptPositions;
  const fields = Object.keys(PHASES) as readonly (keyof typeof PHASES)[];
  if (fields.every((field) => cells[at[field]] === null)) return null;
  return {
    dnsMs: cells[at.dnsMs] as number | null,
    connectMs: cells[at.connectMs] as number | null,
    tlsMs: cells[at.tlsMs] as number | null,
    firstByteMs: cells[at.firstByteMs] as number | null,
  };
}

// Task rows: the columns of `tasks` and `payloads`, and the tasks that they hold.

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
  claimedBy: string,
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
    claimedBy,
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
