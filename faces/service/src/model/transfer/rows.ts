/**
 * Rows: the rows that are moved between stores, as JSON and back. Two rows are equal if their JSON is,
 * whatever store they come from.
 */
import { RedriveError, type StopReason } from "@redrive/core";
import type { DestinationRow } from "../destination-row.ts";
import type { PolicyRow } from "../store.ts";
import {
  type AttemptPhases,
  type AttemptWait,
  isEnded,
  LANES,
  type NewTask,
  TASK_STATUSES,
  type TaskState,
  type WaitCause,
} from "../task.ts";
import {
  boolean,
  bytes,
  choice,
  decimal,
  type Field,
  type Json,
  list,
  name,
  object,
  orNull,
  positive,
  text,
  texts,
  whole,
} from "./fields.ts";
import type {
  KeyRow,
  TransferAttempt,
  TransferKey,
  TransferKind,
  TransferRows,
  TransferTask,
} from "./transfer.ts";

const policy = object<PolicyRow>({
  tenantId: name,
  policyId: name,
  version: positive,
  document: text,
  createdAt: whole,
  removedAt: orNull(whole),
});

const destination = object<DestinationRow>({
  tenantId: name,
  name,
  version: positive,
  document: orNull(text),
  pausedAt: orNull(whole),
  gateUntil: whole,
  breakerState: choice("CLOSED", "OPEN", "HALF_OPEN"),
  openUntil: whole,
  openCount: whole,
});

const document = object<TransferRows["document"]>({
  kind: name,
  tenantId: name,
  id: name,
  version: positive,
  text,
});

const keyFields = { fingerprint: text, expiresAt: orNull(whole) };

const task = object<TransferTask>({
  taskId: name,
  tenantId: name,
  destination: name,
  status: choice(...TASK_STATUSES),
  reason: orNull(text as Field<StopReason>),
  idempotencyKey: orNull(name),
  key: orNull(object<KeyRow>(keyFields)),
  method: text,
  targetUrl: text,
  headers: texts,
  body: orNull(bytes),
  bodyRef: orNull(text),
  policyId: name,
  policyVersion: whole,
  idempotent: boolean,
  createdAt: whole,
  scheduledAt: whole,
  deadlineAt: orNull(whole),
  labels: texts,
  callbackUrl: orNull(text),
  redrivenFrom: orNull(name),
  redrivenTo: orNull(name),
  lane: choice(...LANES),
  attemptNumber: whole,
  nextAttemptAt: whole,
  claimEpoch: whole,
  claimedBy: orNull(name),
  claimedAt: orNull(whole),
  lastDelayMs: whole,
  abandonedCount: whole,
  cancelRequestedAt: orNull(whole),
  lastStatus: orNull(whole),
  lastError: orNull(text),
  finishedAt: orNull(whole),
});

const phase = orNull(decimal);
const phaseFields = object<AttemptPhases>({
  dnsMs: phase,
  connectMs: phase,
  tlsMs: phase,
  firstByteMs: phase,
});

/** Some stores cannot tell phases that were not measured from none. */
const phases: Field<AttemptPhases | null> = {
  encode: (value) =>
    value === null || Object.values(value).every((ms) => ms === null)
      ? null
      : phaseFields.encode(value),
  decode: orNull(phaseFields).decode,
};

const wait = object<AttemptWait>({
  cause: text as Field<WaitCause>,
  sinceAt: whole,
  durationMs: whole,
});

const attempt = object<TransferAttempt>({
  tenantId: name,
  taskId: name,
  attemptNumber: positive,
  startedAt: whole,
  durationMs: whole,
  phases,
  outcome: text,
  responseStatus: orNull(whole),
  errorClass: orNull(text),
  errorMessage: orNull(text),
  responseHeaders: orNull(texts),
  responseBody: orNull(bytes),
  nextDelayMs: orNull(whole),
  delaySource: orNull(text),
  waits: list(wait),
});

const key = object<TransferKey>({
  tenantId: name,
  idempotencyKey: name,
  taskId: name,
  ...keyFields,
});

const ROWS: { readonly [Kind in TransferKind]: Field<TransferRows[Kind]> } = {
  policy,
  destination,
  document,
  task,
  attempt,
  key,
};

export function encodeRow<Kind extends TransferKind>(kind: Kind, row: TransferRows[Kind]): Json {
  return ROWS[kind].encode(row);
}

/** Throws `INVALID_IMPORT` with the wrong field. */
export function decodeRow<Kind extends TransferKind>(
  kind: Kind,
  json: unknown,
): TransferRows[Kind] {
  const row = ROWS[kind].decode(json, "");
  if (kind === "task") checkTask(row as TransferTask);
  return row;
}

/** What every store assumes of a task. */
function checkTask(found: TransferTask): void {
  const { status, claimedBy, claimedAt, finishedAt, key: row, idempotencyKey } = found;
  const isClaimed = status === "IN_FLIGHT";
  const refuse = (why: string) => {
    throw new RedriveError("INVALID_IMPORT", `task ${found.taskId} is ${status}, but ${why}`);
  };
  if ((claimedBy !== null) !== isClaimed) refuse(`claimedBy is ${claimedBy}`);
  if ((claimedAt !== null) !== isClaimed) refuse(`claimedAt is ${claimedAt}`);
  if ((finishedAt !== null) !== isEnded(status)) refuse(`finishedAt is ${finishedAt}`);
  if (row !== null && idempotencyKey === null) refuse("it has a key without a name");
}

export interface TaskParts {
  readonly task: NewTask;
  readonly state: TaskState;
}

/** The part of a task that never changes, and the one that attempts change. */
export function partsOf({ key: _, ...row }: TransferTask): TaskParts {
  const { status, reason, lane, attemptNumber, nextAttemptAt, claimEpoch, ...rest } = row;
  const { claimedBy, claimedAt, lastDelayMs, abandonedCount, cancelRequestedAt, ...more } = rest;
  const { lastStatus, lastError, redrivenTo, finishedAt, ...task } = more;
  const state = {
    status,
    reason,
    lane,
    attemptNumber,
    nextAttemptAt,
    claimEpoch,
    claimedBy,
    claimedAt,
    lastDelayMs,
    abandonedCount,
    cancelRequestedAt,
    lastStatus,
    lastError,
    redrivenTo,
    finishedAt,
  };
  return { task, state };
}
