/**
 * Transfer: the contract of moving a store: its rows as checked lines, pages of them, and their comparison.
 */
import { isObject, quote, RedriveError, type StopReason } from "@redrive/core";
import type { DestinationRow } from "./destination-row.ts";
import type { StoredDocument } from "./document-table.ts";
import type { PolicyRow, RowPage, Store } from "./store.ts";
import {
  type AttemptLog,
  type AttemptPhases,
  type AttemptWait,
  isEnded,
  LANES,
  type NewTask,
  type RetryTask,
  TASK_STATUSES,
  type TaskState,
  type WaitCause,
} from "./task.ts";

// Fields: the values of rows as JSON, and back. A table of fields lists the fields of a row once: it
// gives the order in which they are written, and it checks what is read.

export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [name: string]: Json };

export interface Field<Value> {
  encode(value: Value): Json;
  /** Throws `INVALID_IMPORT` with the path of the field. */
  decode(json: unknown, path: string): Value;
}

export type Fields<Row> = { readonly [Name in keyof Row]-?: Field<Row[Name]> };

/** A value that is the same in JSON. */
function plain<Value extends Json>(
  wanted: string,
  is: (json: unknown) => json is Value,
): Field<Value> {
  return {
    encode: (value) => value,
    decode(json, path) {
      if (is(json)) return json;
      throw invalid(`${path} must be ${wanted}, got ${quote(json)}`);
    },
  };
}

function invalid(message: string): RedriveError {
  return new RedriveError("INVALID_IMPORT", message);
}

const isText = (json: unknown): json is string => typeof json === "string";

export const text: Field<string> = plain("text", isText);

/** Stores join names with line breaks. */
export const name: Field<string> = plain(
  "text without line breaks",
  (json): json is string => isText(json) && !json.includes("\n"),
);

/** A JSON number would lose digits beyond this. */
export const whole: Field<number> = plain(
  "a whole number from 0",
  (json): json is number => Number.isSafeInteger(json) && (json as number) >= 0,
);

export const positive: Field<number> = plain(
  "a whole number from 1",
  (json): json is number => Number.isSafeInteger(json) && (json as number) >= 1,
);

export const decimal: Field<number> = plain("a number", (json): json is number =>
  Number.isFinite(json),
);

export const boolean: Field<boolean> = plain(
  "true or false",
  (json): json is boolean => typeof json === "boolean",
);

export const texts: Field<Readonly<Record<string, string>>> = plain(
  "an object of texts",
  (json): json is Record<string, string> => isObject(json) && Object.values(json).every(isText),
);

export function choice<Value extends string>(...values: readonly Value[]): Field<Value> {
  return plain(`one of ${values.join(", ")}`, (json): json is Value =>
    (values as readonly unknown[]).includes(json),
  );
}

/** In Base64. */
export const bytes: Field<Uint8Array> = {
  encode: (value) => Buffer.from(value.buffer, value.byteOffset, value.length).toString("base64"),
  decode(json, path) {
    const found = Buffer.from(text.decode(json, path), "base64");
    // Node skips characters that are not Base64.
    if (found.toString("base64") === json) return new Uint8Array(found);
    throw invalid(`${path} must be Base64, got ${quote(json)}`);
  },
};

export function orNull<Value>(field: Field<Value>): Field<Value | null> {
  return {
    encode: (value) => (value === null ? null : field.encode(value)),
    decode: (json, path) => (json === null ? null : field.decode(json, path)),
  };
}

export function list<Value>(field: Field<Value>): Field<readonly Value[]> {
  return {
    encode: (values) => values.map((value) => field.encode(value)),
    decode(json, path) {
      if (!Array.isArray(json)) throw invalid(`${path} must be a list, got ${quote(json)}`);
      return json.map((one, at) => field.decode(one, `${path}[${at}]`));
    },
  };
}

export function object<Row extends object>(fields: Fields<Row>): Field<Row> {
  const names = Object.keys(fields) as (keyof Row & string)[];
  return {
    encode: (row) =>
      Object.fromEntries(names.map((one) => [one, fields[one].encode(row[one])])) as Json,
    decode(json, path) {
      if (!isObject(json)) throw invalid(`${path || "a row"} must be an object`);
      const unknown = Object.keys(json).find((one) => !Object.hasOwn(fields, one));
      const at = (one: string) => (path === "" ? one : `${path}.${one}`);
      if (unknown !== undefined) throw invalid(`${at(unknown)} is an unknown field`);
      const entries = names.map((one) => [one, fields[one].decode(json[one], at(one))]);
      return Object.fromEntries(entries) as Row;
    },
  };
}

// Rows: the rows that are moved between stores, as JSON and back. Two rows are equal if their JSON is,
// whatever store they come from.

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

// Pages: what stores with SQL share to read their rows in pages. A cursor is the position of the last row
// of a page.

type Position = readonly (string | number)[];

/** The first position of each kind. Attempts begin with a task, which they include. */
const FIRST: Readonly<Record<TransferKind, Position>> = {
  policy: ["", "", 0],
  destination: ["", ""],
  document: ["", "", ""],
  task: ["", ""],
  attempt: ["", "", 0],
  key: ["", ""],
};

/** Reads the rows after a position. */
export type ReadPage<Kind extends TransferKind> = (
  after: Position,
  limit: number,
) => Promise<TransferPage<Kind>>;

export type ReadPages = { readonly [Kind in TransferKind]: ReadPage<Kind> };

/** The position at which a page begins. */
export function startOf(kind: TransferKind, cursor: string | undefined): Position {
  return cursor === undefined ? FIRST[kind] : (JSON.parse(cursor) as Position);
}

/** A full page has a cursor, because more rows may follow. */
export function pageOf<Kind extends TransferKind>(
  kind: Kind,
  rows: readonly TransferRows[Kind][],
  limit: number,
): TransferPage<Kind> {
  const last = rows.length < limit ? undefined : rows.at(-1);
  return { rows, cursor: last === undefined ? null : JSON.stringify(positionOf(kind, last)) };
}

// Compare: compares rows that are moved with those that a store has. Two rows are equal if their JSON is,
// so the comparison and the exported file never disagree.

/** What identifies a row among those of its kind. */
export function positionOf<Kind extends TransferKind>(
  kind: Kind,
  row: TransferRows[Kind],
): readonly (string | number)[] {
  return POSITIONS[kind](row as never);
}

const POSITIONS: {
  readonly [Kind in TransferKind]: (row: TransferRows[Kind]) => readonly (string | number)[];
} = {
  policy: ({ tenantId, policyId, version }) => [tenantId, policyId, version],
  destination: (row) => [row.tenantId, row.name],
  document: (row) => [row.kind, row.tenantId, row.id],
  task: ({ tenantId, taskId }) => [tenantId, taskId],
  attempt: ({ tenantId, taskId, attemptNumber }) => [tenantId, taskId, attemptNumber],
  key: ({ tenantId, idempotencyKey }) => [tenantId, idempotencyKey],
};

/** The key of a stored row belongs to something else, so a new row cannot take its place. */
export const TAKEN = "taken";

export type Stored<Row> = Row | typeof TAKEN | null;

/** Compares rows with those that are stored at their positions; null: none is. */
export function compareRows<Kind extends TransferKind>(
  kind: Kind,
  rows: readonly TransferRows[Kind][],
  stored: readonly Stored<TransferRows[Kind]>[],
): readonly WriteResult[] {
  const textOf = (row: TransferRows[Kind]) => JSON.stringify(encodeRow(kind, row));
  const added = new Map<string, string>();
  return rows.map((row, at) => {
    const position = JSON.stringify(positionOf(kind, row));
    const found = stored[at] ?? null;
    if (found === TAKEN) return "different";
    // A row may be given twice.
    const known = found === null ? added.get(position) : textOf(found);
    if (known !== undefined) return known === textOf(row) ? "same" : "different";
    added.set(position, textOf(row));
    return "added";
  });
}

/** The rows that are to be added. */
export function addedRows<Row>(
  rows: readonly Row[],
  results: readonly WriteResult[],
): readonly Row[] {
  return rows.filter((_, at) => results[at] === "added");
}

// Transfer: the part of a store that moves its content to another store, of the same kind or of
// another one. It reads and writes rows as they are: ids, epochs, versions and instants are kept.

/** In the order in which they are moved: an attempt after its task. */
export const TRANSFER_KINDS = [
  "policy",
  "destination",
  "document",
  "task",
  "attempt",
  "key",
] as const;

export type TransferKind = (typeof TRANSFER_KINDS)[number];

export interface TransferRows {
  readonly policy: PolicyRow;
  /** Only rows that were written. Their tasks bring the others along. */
  readonly destination: DestinationRow;
  readonly document: StoredDocument;
  readonly task: TransferTask;
  readonly attempt: TransferAttempt;
  /** Only keys whose task was removed. The others come with their task. */
  readonly key: TransferKey;
}

export interface TransferTask extends RetryTask {
  /** The row of the key table that belongs to the task; null: there is none. */
  readonly key: KeyRow | null;
}

export interface KeyRow {
  readonly fingerprint: string;
  /** Null until the task has ended. */
  readonly expiresAt: number | null;
}

export interface TransferAttempt extends AttemptLog {
  readonly tenantId: string;
  readonly taskId: string;
}

export interface TransferKey extends KeyRow {
  readonly tenantId: string;
  readonly idempotencyKey: string;
  readonly taskId: string;
}

/** `same`: the store has an equal row. `different`: it has another one, which stays. */
export type WriteResult = "added" | "same" | "different";

export interface TransferPage<Kind extends TransferKind> {
  readonly rows: readonly TransferRows[Kind][];
  /** Null on the last page, and only there. */
  readonly cursor: string | null;
}

/** No node runs on the store meanwhile. */
export interface StoreTransfer {
  /** The nodes that have a lease, by the store's clock. None in an exclusive store. */
  liveNodes(): Promise<readonly string[]>;

  /**
   * The rows of a kind, of all tenants, in pages of at most `limit`. If nothing is written meanwhile,
   * each row is read once, and two reads give the same order.
   */
  read<Kind extends TransferKind>(kind: Kind, page: RowPage): Promise<TransferPage<Kind>>;

  /**
   * Adds the rows that the store lacks, with everything that follows from them, such as counts and due
   * times. At most 256 rows. Returns a result per row. Writing the same rows again changes nothing.
   * Durable once it resolves; after a rejection, some rows may be added. Rejects with
   * `StoreRefusedError` for an attempt whose task does not exist.
   */
  write<Kind extends TransferKind>(
    kind: Kind,
    rows: readonly TransferRows[Kind][],
  ): Promise<readonly WriteResult[]>;

  /** The results that `write` would have. The task of an attempt need not exist. */
  compare<Kind extends TransferKind>(
    kind: Kind,
    rows: readonly TransferRows[Kind][],
  ): Promise<readonly WriteResult[]>;
}

/** A store whose content can be moved. */
export interface MovableStore extends Store {
  readonly transfer: StoreTransfer;
}

/** Undefined: the content of the store cannot be moved. */
export function transferOf(store: Store): StoreTransfer | undefined {
  return (store as Partial<MovableStore>).transfer;
}
