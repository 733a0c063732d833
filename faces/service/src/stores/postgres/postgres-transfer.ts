/**
 * PostgreSQL transfer: reads, finds and writes the rows of a store that is moved.
 */
import { systemClock } from "@redrive/core";
import { guardedTransfer, within } from "../../model/guarded-store.ts";
import { partitionOf } from "../../model/partition.ts";
import { type RowPage, STORE_CALL_MS } from "../../model/store.ts";
import { StoreRefusedError } from "../../model/store-errors.ts";
import {
  addedRows,
  compareRows,
  pageOf,
  partsOf,
  positionOf,
  type ReadPage,
  type ReadPages,
  type Stored,
  type StoreTransfer,
  startOf,
  TAKEN,
  type TransferAttempt,
  type TransferKey,
  type TransferKind,
  type TransferPage,
  type TransferRows,
  type TransferTask,
  type WriteResult,
} from "../../model/transfer.ts";
import {
  type Cell,
  type Rows,
  type Run,
  type Sql,
  storedJson,
  storeError,
} from "./connection/sql.ts";
import {
  attemptOf,
  attemptsOf,
  DESTINATION_COLUMNS,
  destinationOf,
  laneNumber,
  logOf,
  PARTITIONS,
  payloadOf,
  statusNumber,
  TASK_TABLES,
  taskColumns,
  taskOf,
} from "./schema/rows.ts";

// Row reader: reads the rows of a PostgreSQL store as they are, in pages. A cursor is the position of
// the last row that was examined.

const POLICY_COLUMNS = "tenant_id, policy_id, version, document, created_at, removed_at";
const DOCUMENT_COLUMNS = "kind, tenant_id, id, version, text";
const KEY_COLUMNS = "tenant_id, idempotency_key, task_id, fingerprint, expires_at";

/** Tasks whose names are in `page`, each with the row of its key. */
const TASKS_OF_PAGE = `SELECT ${taskColumns("t.body")}, k.fingerprint, k.expires_at
  FROM page JOIN (${TASK_TABLES}) ON t.tenant_id = page.tenant_id AND t.task_id = page.task_id
  LEFT JOIN redrive.idempotency_keys k ON k.tenant_id = t.tenant_id
    AND k.idempotency_key = t.idempotency_key AND k.task_id = t.task_id
  ORDER BY t.tenant_id, t.task_id`;

/** The attempts of a task `t`. */
const ATTEMPTS_OF_TASK = `(${attemptsOf("t.ref", "true")}) a`;

const POLICIES = `SELECT ${POLICY_COLUMNS} FROM redrive.policies
  WHERE (tenant_id, policy_id, version) > ($1, $2, $3::int)
  ORDER BY tenant_id, policy_id, version LIMIT $4`;

const DESTINATIONS = `SELECT ${DESTINATION_COLUMNS} FROM redrive.destinations d
  WHERE (d.tenant_id, d.name) > ($1, $2) AND d.version > 0 ORDER BY d.tenant_id, d.name LIMIT $3`;

const DOCUMENTS = `SELECT ${DOCUMENT_COLUMNS} FROM redrive.documents
  WHERE (kind, tenant_id, id) > ($1, $2, $3) ORDER BY kind, tenant_id, id LIMIT $4`;

const TASKS = `WITH page AS MATERIALIZED (
    SELECT tenant_id, task_id FROM redrive.tasks WHERE (tenant_id, task_id) > ($1, $2)
    ORDER BY tenant_id, task_id LIMIT $3)
  ${TASKS_OF_PAGE}`;

const TASK_NAMES = `SELECT tenant_id, task_id FROM redrive.tasks
  WHERE (tenant_id, task_id) >= ($1, $2) ORDER BY tenant_id, task_id LIMIT $3`;

/** Of the tasks from one name to another; of the first task, those after a number. */
const ATTEMPTS = `SELECT t.tenant_id, t.task_id, a.attempt_number, a.log, a.response_body
  FROM redrive.tasks t CROSS JOIN LATERAL ${ATTEMPTS_OF_TASK}
  WHERE (t.tenant_id, t.task_id) >= ($1, $2) AND (t.tenant_id, t.task_id) <= ($3, $4)
    AND (t.tenant_id <> $1 OR t.task_id <> $2 OR a.attempt_number > $5::bigint)
  ORDER BY t.tenant_id, t.task_id, a.attempt_number LIMIT $6`;

/** Keys, and whether the task of each one was removed. */
const KEYS = `WITH page AS MATERIALIZED (
    SELECT ${KEY_COLUMNS} FROM redrive.idempotency_keys
    WHERE (tenant_id, idempotency_key) > ($1, $2) ORDER BY tenant_id, idempotency_key LIMIT $3)
  SELECT page.*, NOT EXISTS (SELECT FROM redrive.tasks t
    WHERE t.tenant_id = page.tenant_id AND t.task_id = page.task_id)
  FROM page ORDER BY tenant_id, idempotency_key`;

function rowReader(run: Run): StoreTransfer["read"] {
  const paged =
    <Kind extends TransferKind>(
      kind: Kind,
      sql: string,
      rowOf: (cells: readonly Cell[]) => TransferRows[Kind],
    ): ReadPage<Kind> =>
    async (after, limit) =>
      pageOf(kind, (await run(sql, [...after, limit])).map(rowOf), limit);
  const pages: ReadPages = {
    policy: paged("policy", POLICIES, policyOf),
    destination: paged("destination", DESTINATIONS, destinationOf),
    document: paged("document", DOCUMENTS, documentOf),
    task: paged("task", TASKS, transferTaskOf),
    attempt: (after, limit) => attemptPage(run, after, limit),
    key: async (after, limit) => keyPage(await run(KEYS, [...after, limit]), limit),
  };
  return (kind, { limit, cursor }: RowPage) => pages[kind](startOf(kind, cursor), limit);
}

/** Examines a bounded number of further tasks, because most of them may have no attempt. */
async function attemptPage(
  run: Run,
  after: readonly Cell[],
  limit: number,
): Promise<TransferPage<"attempt">> {
  const [tenantId = "", taskId = "", number = 0] = after;
  const names = await run(TASK_NAMES, [tenantId, taskId, limit + 1]);
  const last = names.at(-1);
  if (last === undefined) return { rows: [], cursor: null };
  const found = await run(ATTEMPTS, [tenantId, taskId, ...last, number, limit]);
  const rows = found.map(transferAttemptOf);
  if (rows.length === limit) return pageOf("attempt", rows, limit);
  const isLast = names.length <= limit;
  const position = [...last, Number.MAX_SAFE_INTEGER];
  return { rows, cursor: isLast ? null : JSON.stringify(position) };
}

function keyPage(cells: Rows, limit: number): TransferPage<"key"> {
  const rows = cells.filter(([, , , , , isOrphan]) => isOrphan === true).map(keyOf);
  const last = cells.length < limit ? undefined : cells.at(-1);
  return { rows, cursor: last === undefined ? null : JSON.stringify(last.slice(0, 2)) };
}

function policyOf(cells: readonly Cell[]): TransferRows["policy"] {
  const [tenantId, policyId, version, document, createdAt, removedAt] = cells;
  const row = { tenantId, policyId, version, document, createdAt, removedAt };
  return row as TransferRows["policy"];
}

function documentOf(cells: readonly Cell[]): TransferRows["document"] {
  const [kind, tenantId, id, version, text] = cells;
  return { kind, tenantId, id, version, text } as TransferRows["document"];
}

/** A row of `TASKS_OF_PAGE`. */
function transferTaskOf(cells: readonly Cell[]): TransferTask {
  const [fingerprint = null, expiresAt = null] = cells.slice(-2);
  const key =
    fingerprint === null
      ? null
      : { fingerprint: fingerprint as string, expiresAt: expiresAt as number | null };
  return { ...taskOf(cells), key };
}

/** The tenant, the task and the number, then the log and the body of an attempt. */
function transferAttemptOf(cells: readonly Cell[]): TransferAttempt {
  const [tenantId, taskId, , ...rest] = cells;
  return { tenantId: tenantId as string, taskId: taskId as string, ...attemptOf(rest) };
}

function keyOf(cells: readonly Cell[]): TransferKey {
  const [tenantId, idempotencyKey, taskId, fingerprint, expiresAt] = cells;
  return { tenantId, idempotencyKey, taskId, fingerprint, expiresAt } as TransferKey;
}

// Row finder: reads the rows that a PostgreSQL store has at the positions of others.

type FindRows<Kind extends TransferKind> = (
  run: Run,
  rows: readonly TransferRows[Kind][],
) => Promise<readonly Stored<TransferRows[Kind]>[]>;

/** The wanted positions: one list of cells for each of the columns. */
const wanted = (...types: readonly string[]) =>
  `unnest(${types.map((type, at) => `$${at + 1}::${type}[]`).join(", ")}) w`;

const FIND_POLICIES = `SELECT ${POLICY_COLUMNS} FROM redrive.policies
  WHERE (tenant_id, policy_id, version) IN (SELECT * FROM ${wanted("text", "text", "int")})`;

const FIND_DESTINATIONS = `SELECT ${DESTINATION_COLUMNS} FROM redrive.destinations d
  WHERE d.version > 0 AND (d.tenant_id, d.name) IN (SELECT * FROM ${wanted("text", "text")})`;

const FIND_DOCUMENTS = `SELECT ${DOCUMENT_COLUMNS} FROM redrive.documents
  WHERE (kind, tenant_id, id) IN (SELECT * FROM ${wanted("text", "text", "text")})`;

const FIND_TASKS = `WITH page AS MATERIALIZED (SELECT tenant_id, task_id FROM redrive.tasks
    WHERE (tenant_id, task_id) IN (SELECT * FROM ${wanted("text", "text")}))
  ${TASKS_OF_PAGE}`;

const FIND_ATTEMPTS = `SELECT t.tenant_id, t.task_id, a.attempt_number, a.log, a.response_body
  FROM ${wanted("text", "text", "int")} (tenant_id, task_id, attempt_number)
  JOIN redrive.tasks t ON t.tenant_id = w.tenant_id AND t.task_id = w.task_id
  CROSS JOIN LATERAL ${ATTEMPTS_OF_TASK} WHERE a.attempt_number = w.attempt_number`;

const FIND_KEYS = `SELECT ${KEY_COLUMNS} FROM redrive.idempotency_keys
  WHERE (tenant_id, idempotency_key) IN (SELECT * FROM ${wanted("text", "text")})`;

const FIND_ROWS: { readonly [Kind in TransferKind]: FindRows<Kind> } = {
  policy: finder("policy", FIND_POLICIES, policyOf),
  destination: finder("destination", FIND_DESTINATIONS, destinationOf),
  document: finder("document", FIND_DOCUMENTS, documentOf),
  async task(run, rows) {
    const found = await finder("task", FIND_TASKS, transferTaskOf)(run, rows);
    return markTaken(run, rows, found);
  },
  attempt: finder("attempt", FIND_ATTEMPTS, transferAttemptOf),
  key: finder("key", FIND_KEYS, keyOf),
};

function finder<Kind extends TransferKind>(
  kind: Kind,
  sql: string,
  rowOf: (cells: readonly Cell[]) => TransferRows[Kind],
): FindRows<Kind> {
  const textOf = (row: TransferRows[Kind]) => JSON.stringify(positionOf(kind, row));
  return async (run, rows) => {
    const positions = rows.map((row) => positionOf(kind, row));
    const columns = positions[0]?.map((_, at) => positions.map((one) => one[at] ?? "")) ?? [];
    if (columns.length === 0) return [];
    const found = (await run(sql, columns)).map(rowOf);
    const byPosition = new Map(found.map((row) => [textOf(row), row]));
    return rows.map((row) => byPosition.get(textOf(row)) ?? null);
  };
}

/** A task that is not stored, but whose key is. */
async function markTaken(
  run: Run,
  rows: readonly TransferTask[],
  found: readonly Stored<TransferTask>[],
): Promise<readonly Stored<TransferTask>[]> {
  const named = rows.filter(({ key }, at) => key !== null && found[at] === null);
  const nameOf = (row: { readonly tenantId: string; readonly idempotencyKey: string | null }) =>
    JSON.stringify([row.tenantId, row.idempotencyKey]);
  if (named.length === 0) return found;
  const tenants = named.map(({ tenantId }) => tenantId);
  const keys = named.map(({ idempotencyKey }) => idempotencyKey ?? "");
  const taken = new Set((await run(FIND_KEYS, [tenants, keys])).map(keyOf).map(nameOf));
  return rows.map((row, at) => {
    const isTaken = row.key !== null && found[at] === null && taken.has(nameOf(row));
    return isTaken ? TAKEN : (found[at] ?? null);
  });
}

// Byte parts: puts the bodies of a batch into one piece, so that they are sent as they are.

interface BytePart {
  readonly start: number;
  /** Null: there is no body, which is not the same as an empty one. */
  readonly length: number | null;
}

class ByteParts {
  readonly #parts: Uint8Array[] = [];
  #length = 0;

  add(part: Uint8Array | null): BytePart {
    const start = this.#length;
    if (part === null) return { start, length: null };
    this.#parts.push(part);
    this.#length += part.length;
    return { start, length: part.length };
  }

  joined(): Uint8Array {
    return Buffer.concat(this.#parts, this.#length);
  }
}

// Row writer: adds rows to a PostgreSQL store as they are. The rows of a kind are one JSON text, and the
// bytes of all bodies are sent in one piece.

type AddRows<Kind extends TransferKind> = (
  run: Run,
  rows: readonly TransferRows[Kind][],
) => Promise<void>;

/** The columns and types of rows in the first parameter. */
const given = (columns: string) => `jsonb_to_recordset($1::jsonb) AS r (${columns})`;

/** The body of a row, of the bytes in the second parameter. Null without a length. */
const BODY = "substring($2::bytea FROM r.body_at + 1 FOR r.body_length)";

const ADD_POLICIES = `INSERT INTO redrive.policies
    (tenant_id, policy_id, version, document, created_at, removed_at)
  SELECT * FROM ${given(`"tenantId" text, "policyId" text, version int, document text,
    "createdAt" bigint, "removedAt" bigint`)}`;

/** A destination that has tasks may have a row of version 0. */
const ADD_DESTINATIONS = `INSERT INTO redrive.destinations AS d (tenant_id, name, version, document,
    paused_at, gate_until, breaker_state, open_until, open_count)
  SELECT * FROM ${given(`"tenantId" text, name text, version int, document text, "pausedAt" bigint,
    "gateUntil" bigint, "breakerState" text, "openUntil" bigint, "openCount" int`)}
  ON CONFLICT (tenant_id, name) DO UPDATE SET version = excluded.version,
    document = excluded.document, paused_at = excluded.paused_at, gate_until = excluded.gate_until,
    breaker_state = excluded.breaker_state, open_until = excluded.open_until,
    open_count = excluded.open_count WHERE d.version = 0`;

const ADD_DOCUMENTS = `INSERT INTO redrive.documents (kind, tenant_id, id, version, text)
  SELECT * FROM ${given(`kind text, "tenantId" text, id text, version int, text text`)}`;

const ADD_NAMES = `INSERT INTO redrive.destinations (tenant_id, name)
  SELECT DISTINCT r.tenant_id, r.destination FROM ${given("tenant_id text, destination text")}
  ON CONFLICT DO NOTHING`;

/** The state of a task that waits or is claimed, of a row `f`. */
const STATE_COLUMNS = `ref, next_attempt_at, last_delay_ms, destination_id, attempt_number,
  claim_epoch, abandoned_count, last_status, partition, lane, tenant_id, task_id, idempotency_key,
  last_error`;

/** Null for a preset. */
const NAMED_POLICY = "CASE WHEN f.policy_version > 0 THEN f.policy_id END";

const ADD_TASKS = `WITH fresh AS MATERIALIZED (
    SELECT nextval('redrive.task_refs') AS ref, d.destination_id, r.*, ${BODY} AS body
    FROM ${given(`tenant_id text, task_id text, destination text, status int, lane int,
      attempt_number int, next_attempt_at bigint, claim_epoch int, claimed_by text,
      claimed_at bigint, last_delay_ms bigint, abandoned_count int, cancel_requested_at bigint,
      last_status int, last_error text, reason text, redriven_to text, created_at bigint,
      finished_at bigint, policy_id text, policy_version int, idempotency_key text,
      fingerprint text, expires_at bigint, partition int, payload text, labels jsonb, body_at int,
      body_length int`)}
    JOIN redrive.destinations d ON d.tenant_id = r.tenant_id AND d.name = r.destination
  ), stored AS (
    INSERT INTO redrive.tasks (ref, created_at, destination_id, policy_version, tenant_id, task_id,
      policy_id, idempotency_key, redriven_to, payload, body)
    SELECT f.ref, f.created_at, f.destination_id, f.policy_version, f.tenant_id, f.task_id,
      f.policy_id, f.idempotency_key, f.redriven_to, f.payload, f.body
    FROM fresh f
  ), waiting AS (
    INSERT INTO redrive.waiting_tasks (${STATE_COLUMNS}, policy_id)
    SELECT ${STATE_COLUMNS}, ${NAMED_POLICY} FROM fresh f WHERE f.status = 0
  ), claimed AS (
    INSERT INTO redrive.claimed_tasks
      (${STATE_COLUMNS}, policy_id, claimed_at, cancel_requested_at, claimed_by)
    SELECT ${STATE_COLUMNS}, ${NAMED_POLICY}, f.claimed_at, f.cancel_requested_at, f.claimed_by
    FROM fresh f WHERE f.status = 1
  ), claimants AS (
    INSERT INTO redrive.claimants SELECT DISTINCT f.claimed_by FROM fresh f WHERE f.status = 1
    ON CONFLICT DO NOTHING
  ), ended AS (
    INSERT INTO redrive.ended_tasks (ref, finished_at, next_attempt_at, last_delay_ms,
      cancel_requested_at, destination_id, attempt_number, claim_epoch, abandoned_count, last_status,
      status, lane, tenant_id, task_id, reason, last_error)
    SELECT f.ref, f.finished_at, f.next_attempt_at, f.last_delay_ms, f.cancel_requested_at,
      f.destination_id, f.attempt_number, f.claim_epoch, f.abandoned_count, f.last_status, f.status,
      f.lane, f.tenant_id, f.task_id, f.reason, f.last_error
    FROM fresh f WHERE f.status > 1
  ), labeled AS (
    INSERT INTO redrive.task_labels (tenant_id, name, value, task_id, ref)
    SELECT f.tenant_id, l->>0, l->>1, f.task_id, f.ref
    FROM fresh f CROSS JOIN LATERAL jsonb_array_elements(f.labels) l
  ), keyed AS (
    INSERT INTO redrive.idempotency_keys
      (tenant_id, idempotency_key, task_id, fingerprint, expires_at)
    SELECT f.tenant_id, f.idempotency_key, f.task_id, f.fingerprint, f.expires_at
    FROM fresh f WHERE f.fingerprint IS NOT NULL
  ), counted AS (
    INSERT INTO redrive.counts AS c (tenant_id, destination_id, status, node_id, count)
    SELECT f.tenant_id, f.destination_id, f.status, '', count(*) FROM fresh f GROUP BY 1, 2, 3
    ON CONFLICT (tenant_id, destination_id, status, node_id)
    DO UPDATE SET count = c.count + excluded.count
  )
  SELECT count(*) FROM fresh`;

/** A day that is never added, so these attempts are no copies of others. */
const NO_DAY = -1;

const MISSING_TASK = `SELECT r.task_id FROM ${given("tenant_id text, task_id text")}
  WHERE NOT EXISTS (SELECT FROM redrive.tasks t
    WHERE t.tenant_id = r.tenant_id AND t.task_id = r.task_id) LIMIT 1`;

/** Like attempts whose day was removed: they stay as long as their task. */
const ADD_ATTEMPTS = `INSERT INTO redrive.kept_attempts
    (ref, attempt_number, day, log, response_body)
  SELECT t.ref, r.attempt_number, ${NO_DAY}, r.log, ${BODY}
  FROM ${given(`tenant_id text, task_id text, attempt_number int, log text, body_at int,
    body_length int`)}
  JOIN redrive.tasks t ON t.tenant_id = r.tenant_id AND t.task_id = r.task_id`;

const ADD_KEYS = `INSERT INTO redrive.idempotency_keys
    (tenant_id, idempotency_key, task_id, fingerprint, expires_at)
  SELECT * FROM ${given(`"tenantId" text, "idempotencyKey" text, "taskId" text, fingerprint text,
    "expiresAt" bigint`)}`;

/** For rows whose columns have the names of their fields. */
function adder<Kind extends TransferKind>(sql: string): AddRows<Kind> {
  return async (run, rows) => void (await run(sql, [storedJson(rows)]));
}

const ADD_ROWS: { readonly [Kind in TransferKind]: AddRows<Kind> } = {
  policy: adder(ADD_POLICIES),
  destination: adder(ADD_DESTINATIONS),
  document: adder(ADD_DOCUMENTS),
  async task(run, rows) {
    const bytes = new ByteParts();
    const json = storedJson(rows.map((row) => taskCells(row, bytes)));
    await run(ADD_NAMES, [json]);
    await run(ADD_TASKS, [json, bytes.joined()]);
  },
  async attempt(run, rows) {
    const bytes = new ByteParts();
    const cells = rows.map(({ tenantId, taskId, ...log }) => {
      const { start, length } = bytes.add(log.responseBody);
      const name = { tenant_id: tenantId, task_id: taskId, attempt_number: log.attemptNumber };
      return { ...name, log: logOf(log), body_at: start, body_length: length };
    });
    const json = storedJson(cells);
    const [missing] = await run(MISSING_TASK, [json]);
    if (missing !== undefined) {
      throw new StoreRefusedError(`the task ${missing[0]} of an attempt is missing`);
    }
    await run(ADD_ATTEMPTS, [json, bytes.joined()]);
  },
  key: adder(ADD_KEYS),
};

function taskCells(row: TransferTask, bytes: ByteParts): object {
  const { key, ...task } = row;
  const { start, length } = bytes.add(task.body);
  return {
    tenant_id: task.tenantId,
    task_id: task.taskId,
    destination: task.destination,
    status: statusNumber(task.status),
    lane: laneNumber(task.lane),
    attempt_number: task.attemptNumber,
    next_attempt_at: task.nextAttemptAt,
    claim_epoch: task.claimEpoch,
    claimed_by: task.claimedBy,
    claimed_at: task.claimedAt,
    last_delay_ms: task.lastDelayMs,
    abandoned_count: task.abandonedCount,
    cancel_requested_at: task.cancelRequestedAt,
    last_status: task.lastStatus,
    last_error: task.lastError,
    reason: task.reason,
    redriven_to: task.redrivenTo,
    created_at: task.createdAt,
    finished_at: task.finishedAt,
    policy_id: task.policyId,
    policy_version: task.policyVersion,
    idempotency_key: task.idempotencyKey,
    fingerprint: key?.fingerprint ?? null,
    expires_at: key?.expiresAt ?? null,
    partition: partitionOf(task.taskId, PARTITIONS),
    payload: payloadOf(partsOf(row).task),
    labels: Object.entries(task.labels),
    body_at: start,
    body_length: length,
  };
}

// PostgreSQL transfer: moves the content of a PostgreSQL store. Each call that writes is one transaction.
// Two imports at the same time wait for each other.

const LIVE = "SELECT node_id FROM redrive.nodes WHERE lease_until > redrive_functions.clock_ms()";

const BEGIN = `SET LOCAL lock_timeout = ${STORE_CALL_MS}; SET LOCAL statement_timeout = ${STORE_CALL_MS};
  SET LOCAL jit = off`;

const LOCK =
  "SELECT redrive_functions.make_durable(), pg_advisory_xact_lock(hashtextextended($1, 5))";

export function postgresTransfer(sql: Sql): StoreTransfer {
  const transfer: StoreTransfer = {
    async liveNodes() {
      return (await sql.run(LIVE)).map(([nodeId]) => nodeId as string);
    },
    read: rowReader(sql.run),
    compare: (kind, rows) => compare(sql.run, kind, rows),
    write: (kind, rows) => write(sql, kind, rows),
  };
  return guardedTransfer(transfer, (name, _isRead, call) =>
    within(systemClock, STORE_CALL_MS, name, call()),
  );
}

async function compare<Kind extends TransferKind>(
  run: Run,
  kind: Kind,
  rows: readonly TransferRows[Kind][],
): Promise<readonly WriteResult[]> {
  const find: FindRows<Kind> = FIND_ROWS[kind];
  return compareRows(kind, rows, await find(run, rows));
}

async function write<Kind extends TransferKind>(
  sql: Sql,
  kind: Kind,
  rows: readonly TransferRows[Kind][],
): Promise<readonly WriteResult[]> {
  const add: AddRows<Kind> = ADD_ROWS[kind];
  try {
    return await sql.transaction(async (run, script) => {
      await script(BEGIN);
      await run(LOCK, [sql.schema]);
      const results = await compare(run, kind, rows);
      const added = addedRows(rows, results);
      if (added.length > 0) await add(run, added);
      return results;
    });
  } catch (error) {
    throw storeError(error);
  }
}
