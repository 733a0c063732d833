/** SQLite transfer: moves the content of a SQLite store. Each call that writes is one transaction. */

import { KEY_RETENTION_MS, type RowPage } from "../../model/store.ts";
import { StoreRefusedError } from "../../model/store-errors.ts";
import {
  addedRows,
  compareRows,
  type KeyRow,
  pageOf,
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
} from "../../model/transfer.ts";
import type { DestinationTable } from "./destination-table.ts";
import type { BatchSize } from "./file/checkpointer.ts";
import { ANY_LIMIT, type Sql, type Statement } from "./file/sql.ts";
import type { Reader, Rows } from "./reader.ts";
import {
  ATTEMPT_COLUMNS,
  attemptCells,
  attemptOf,
  type Cell,
  DESTINATION_COLUMNS,
  destinationOf,
  INSERT_ATTEMPT,
  INSERT_PAYLOAD,
  laneNumber,
  payloadCells,
  statusNumber,
  TASK_COLUMNS,
  TASK_TABLES,
  taskOf,
} from "./rows.ts";

/** `written` is called with the size of what each transaction added. */
export function sqliteTransfer(
  sql: Sql,
  reader: Reader,
  destinations: DestinationTable,
  written: (size: BatchSize) => void,
): StoreTransfer {
  // Most processes never move a store, so its statements are prepared when they are needed.
  let prepared: RowWriter | undefined;
  const writer = () => {
    prepared ??= rowWriter(sql, destinations);
    return prepared;
  };
  const compare = <Kind extends TransferKind>(kind: Kind, rows: readonly TransferRows[Kind][]) =>
    compareRows(
      kind,
      rows,
      rows.map((row) => writer()[kind].find(row)),
    );
  return {
    // The lock of the file keeps other processes out.
    liveNodes: async () => [],
    read: rowReader(reader),
    compare: async (kind, rows) => sql.read(() => compare(kind, rows)),
    async write(kind, rows) {
      const results = sql.transaction(
        () => {
          const found = compare(kind, rows);
          for (const row of addedRows(rows, found)) writer()[kind].add(row);
          destinations.flush();
          return found;
        },
        () => destinations.undo(),
      );
      const added = addedRows(rows, results);
      written({ items: added.length, bytes: added.reduce((sum, row) => sum + bodyOf(row), 0) });
      return results;
    },
  };
}

function bodyOf(row: TransferRows[TransferKind]): number {
  return "body" in row ? (row.body?.length ?? 0) : 0;
}

// Row reader: reads the rows of a SQLite store as they are, in pages, on a reader's thread. A cursor is
// the position of the last row that was examined.

const POLICY_COLUMNS = "tenant_id, policy_id, version, document, created_at, removed_at";
const DOCUMENT_COLUMNS = "kind, tenant_id, id, version, text";

/** An attempt `a` with the name of its task `t`. */
const NAMED_ATTEMPT = `t.tenant_id, t.task_id, ${ATTEMPT_COLUMNS.replaceAll(/\w+/gu, "a.$&")}`;

/** Tasks, each with the row of its key. */
const SELECT_TASKS = `SELECT ${TASK_COLUMNS}, k.fingerprint, k.expires_at FROM ${TASK_TABLES}
  LEFT JOIN idempotency_keys k ON k.tenant_id = t.tenant_id
    AND k.idempotency_key = p.idempotency_key AND k.task_id = t.task_id`;

const POLICIES = `SELECT ${POLICY_COLUMNS} FROM policies
  WHERE (tenant_id, policy_id, version) > (?, ?, ?)
  ORDER BY tenant_id, policy_id, version LIMIT ${ANY_LIMIT}`;

const DESTINATIONS = `SELECT ${DESTINATION_COLUMNS} FROM destinations d
  WHERE (d.tenant_id, d.name) > (?, ?) AND d.version > 0
  ORDER BY d.tenant_id, d.name LIMIT ${ANY_LIMIT}`;

const DOCUMENTS = `SELECT ${DOCUMENT_COLUMNS} FROM documents
  WHERE (kind, tenant_id, id) > (?, ?, ?) ORDER BY kind, tenant_id, id LIMIT ${ANY_LIMIT}`;

const TASKS = `${SELECT_TASKS} WHERE (t.tenant_id, t.task_id) > (?, ?)
  ORDER BY t.tenant_id, t.task_id LIMIT ${ANY_LIMIT}`;

const TASK_NAMES = `SELECT tenant_id, task_id FROM tasks WHERE (tenant_id, task_id) >= (?, ?)
  ORDER BY tenant_id, task_id LIMIT ${ANY_LIMIT}`;

/** Of the tasks between two positions; of the first task, those after a number. */
const ATTEMPTS = `SELECT ${NAMED_ATTEMPT}
  FROM tasks t CROSS JOIN attempts a ON a.ref = t.ref
  WHERE (t.tenant_id, t.task_id) >= (?1, ?2) AND (t.tenant_id, t.task_id) <= (?4, ?5)
    AND ((t.tenant_id, t.task_id) > (?1, ?2) OR a.attempt_number > ?3)
  ORDER BY t.tenant_id, t.task_id, a.attempt_number LIMIT (?6 + 0)`;

/** Keys, and whether the task of each one was removed. */
const KEYS = `SELECT k.tenant_id, k.idempotency_key, k.task_id, k.fingerprint, k.expires_at,
    NOT EXISTS (SELECT 1 FROM tasks t WHERE t.tenant_id = k.tenant_id AND t.task_id = k.task_id)
  FROM idempotency_keys k WHERE (k.tenant_id, k.idempotency_key) > (?, ?)
  ORDER BY k.tenant_id, k.idempotency_key LIMIT ${ANY_LIMIT}`;

function rowReader(reader: Reader): StoreTransfer["read"] {
  const paged =
    <Kind extends TransferKind>(
      kind: Kind,
      sql: string,
      rowOf: (cells: readonly Cell[]) => TransferRows[Kind],
    ): ReadPage<Kind> =>
    async (after, limit) =>
      pageOf(kind, (await reader.all(sql, [...after, limit])).map(rowOf), limit);
  const pages: ReadPages = {
    policy: paged("policy", POLICIES, policyOf),
    destination: paged("destination", DESTINATIONS, destinationOf),
    document: paged("document", DOCUMENTS, documentOf),
    task: paged("task", TASKS, transferTaskOf),
    attempt: (after, limit) => attemptPage(reader, after, limit),
    key: async (after, limit) => keyPage(await reader.all(KEYS, [...after, limit]), limit),
  };
  return (kind, { limit, cursor }: RowPage) => pages[kind](startOf(kind, cursor), limit);
}

/** Examines a bounded number of further tasks, because most of them may have no attempt. */
async function attemptPage(
  reader: Reader,
  after: readonly Cell[],
  limit: number,
): Promise<TransferPage<"attempt">> {
  const [tenantId = "", taskId = ""] = after;
  const names = await reader.all(TASK_NAMES, [tenantId, taskId, limit + 1]);
  const last = names.at(-1);
  if (last === undefined) return { rows: [], cursor: null };
  const rows = (await reader.all(ATTEMPTS, [...after, ...last, limit])).map(transferAttemptOf);
  if (rows.length === limit) return pageOf("attempt", rows, limit);
  const isLast = names.length <= limit;
  return {
    rows,
    cursor: isLast ? null : JSON.stringify([...last, Number.MAX_SAFE_INTEGER]),
  };
}

function keyPage(cells: Rows, limit: number): TransferPage<"key"> {
  const rows = cells.filter(([, , , , , isOrphan]) => isOrphan === 1).map(keyOf);
  const last = cells.length < limit ? undefined : cells.at(-1);
  return { rows, cursor: last === undefined ? null : JSON.stringify(last.slice(0, 2)) };
}

function policyOf(cells: readonly Cell[]): TransferRows["policy"] {
  const [tenantId, policyId, version, document, createdAt, removedAt] = cells;
  return {
    tenantId,
    policyId,
    version,
    document,
    createdAt,
    removedAt,
  } as TransferRows["policy"];
}

function documentOf(cells: readonly Cell[]): TransferRows["document"] {
  const [kind, tenantId, id, version, text] = cells;
  return { kind, tenantId, id, version, text } as TransferRows["document"];
}

/** A row of `SELECT_TASKS`. */
function transferTaskOf(cells: readonly Cell[]): TransferTask {
  const task = taskOf(cells);
  const [fingerprint = null, expiresAt = null] = cells.slice(-2) as (string | number | null)[];
  if (fingerprint === null) return { ...task, key: null };
  const key: KeyRow = {
    fingerprint: fingerprint as string,
    // While the task exists, its end says when the key expires.
    expiresAt:
      (expiresAt as number | null) ??
      (task.finishedAt === null ? null : task.finishedAt + KEY_RETENTION_MS),
  };
  return { ...task, key };
}

/** A row of `NAMED_ATTEMPT`. */
function transferAttemptOf(cells: readonly Cell[]): TransferAttempt {
  const [tenantId, taskId, ...rest] = cells;
  return { tenantId: tenantId as string, taskId: taskId as string, ...attemptOf(rest) };
}

function keyOf(cells: readonly Cell[]): TransferKey {
  const [tenantId, idempotencyKey, taskId, fingerprint, expiresAt] = cells;
  return { tenantId, idempotencyKey, taskId, fingerprint, expiresAt } as TransferKey;
}

// Row writer: adds rows to a SQLite store as they are. The counts, the index of keys and the latest
// instant follow from them.

/** How to find and add the rows of a kind. Call it inside a transaction. */
type RowWriter = {
  readonly [Kind in TransferKind]: {
    find(row: TransferRows[Kind]): Stored<TransferRows[Kind]>;
    add(row: TransferRows[Kind]): void;
  };
};

const get = (statement: Statement, ...params: readonly Cell[]) =>
  statement.get(...params) as unknown as readonly Cell[] | undefined;

function rowWriter(sql: Sql, destinations: DestinationTable): RowWriter {
  return {
    policy: policyWriter(sql),
    destination: {
      find: ({ tenantId, name }) => destinations.row(tenantId, name),
      add: (row) => destinations.restore(row),
    },
    document: documentWriter(sql),
    task: taskWriter(sql, destinations),
    attempt: attemptWriter(sql),
    key: keyWriter(sql),
  };
}

function policyWriter(sql: Sql): RowWriter["policy"] {
  const select = sql.prepare(`SELECT ${POLICY_COLUMNS} FROM policies
    WHERE tenant_id = ? AND policy_id = ? AND version = ?`);
  const insert = sql.prepare(`INSERT INTO policies (${POLICY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)`);
  return {
    find({ tenantId, policyId, version }) {
      const cells = get(select, tenantId, policyId, version);
      return cells === undefined ? null : policyOf(cells);
    },
    add({ tenantId, policyId, version, document, createdAt, removedAt }) {
      insert.run(tenantId, policyId, version, document, createdAt, removedAt);
    },
  };
}

function documentWriter(sql: Sql): RowWriter["document"] {
  const select = sql.prepare(`SELECT ${DOCUMENT_COLUMNS} FROM documents
    WHERE kind = ? AND tenant_id = ? AND id = ?`);
  const insert = sql.prepare(`INSERT INTO documents (${DOCUMENT_COLUMNS}) VALUES (?, ?, ?, ?, ?)`);
  return {
    find({ kind, tenantId, id }) {
      const cells = get(select, kind, tenantId, id);
      return cells === undefined ? null : documentOf(cells);
    },
    add({ kind, tenantId, id, version, text }) {
      insert.run(kind, tenantId, id, version, text);
    },
  };
}

const INSERT_TASK = `INSERT INTO tasks (ref, tenant_id, task_id, destination_id, status, lane,
  next_attempt_at, attempt_number, claim_epoch, claimed_by, claimed_at, last_delay_ms,
  abandoned_count, cancel_requested_at, reason, last_status, last_error, redriven_to, finished_at)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

/** Engine time never starts before the latest instant. */
const PASSED = `INSERT INTO meta VALUES ('now', ?)
  ON CONFLICT DO UPDATE SET value = max(value, excluded.value)`;

const INSERT_KEY = "INSERT INTO idempotency_keys VALUES (?, ?, ?, ?, ?)";

function taskWriter(sql: Sql, destinations: DestinationTable): RowWriter["task"] {
  const select = sql.prepare(`${SELECT_TASKS} WHERE t.tenant_id = ? AND t.task_id = ?`);
  const selectKey = sql.prepare(
    "SELECT 1 FROM idempotency_keys WHERE tenant_id = ? AND idempotency_key = ?",
  );
  const insertKey = sql.prepare(INSERT_KEY);
  const insertTask = sql.prepare(INSERT_TASK);
  const insertPayload = sql.prepare(INSERT_PAYLOAD);
  const passed = sql.prepare(PASSED);
  return {
    find({ tenantId, taskId, key, idempotencyKey }) {
      const cells = get(select, tenantId, taskId);
      if (cells !== undefined) return transferTaskOf(cells);
      const isTaken = key !== null && get(selectKey, tenantId, idempotencyKey) !== undefined;
      return isTaken ? TAKEN : null;
    },
    add(task) {
      const { tenantId, taskId, idempotencyKey, key, claimedBy } = task;
      const stored = destinations.getOrInsert(tenantId, task.destination);
      // Before the payload, whose trigger looks for it.
      if (key !== null) {
        insertKey.run(tenantId, idempotencyKey, taskId, key.fingerprint, key.expiresAt);
      }
      const node = claimedBy === null ? null : destinations.nodeNumber(claimedBy);
      const ref = destinations.newRef();
      insertTask.run(ref, ...taskCells(task, stored.id, node));
      insertPayload.run(...payloadCells(ref, task));
      destinations.tally(stored, null, task.status);
      passed.run(Math.max(task.createdAt, task.claimedAt ?? 0, task.finishedAt ?? 0));
    },
  };
}

/** In the order of `INSERT_TASK`, without the row number. */
function taskCells(task: TransferTask, destinationId: number, node: number | null): Cell[] {
  return [
    task.tenantId,
    task.taskId,
    destinationId,
    statusNumber(task.status),
    laneNumber(task.lane),
    task.nextAttemptAt,
    task.attemptNumber,
    task.claimEpoch,
    node,
    task.claimedAt,
    task.lastDelayMs,
    task.abandonedCount,
    task.cancelRequestedAt,
    task.reason,
    task.lastStatus,
    task.lastError,
    task.redrivenTo,
    task.finishedAt,
  ];
}

function attemptWriter(sql: Sql): RowWriter["attempt"] {
  const select = sql.prepare(`SELECT ${NAMED_ATTEMPT}
    FROM tasks t JOIN attempts a ON a.ref = t.ref
    WHERE t.tenant_id = ? AND t.task_id = ? AND a.attempt_number = ?`);
  const selectRef = sql.prepare("SELECT ref FROM tasks WHERE tenant_id = ? AND task_id = ?");
  const insert = sql.prepare(INSERT_ATTEMPT);
  const passed = sql.prepare(PASSED);
  return {
    find({ tenantId, taskId, attemptNumber }) {
      const cells = get(select, tenantId, taskId, attemptNumber);
      return cells === undefined ? null : transferAttemptOf(cells);
    },
    add(attempt) {
      const [ref] = get(selectRef, attempt.tenantId, attempt.taskId) ?? [];
      if (ref === undefined) {
        throw new StoreRefusedError(`the task ${attempt.taskId} of an attempt is missing`);
      }
      insert.run(...attemptCells(ref as number, attempt));
      passed.run(attempt.startedAt + attempt.durationMs);
    },
  };
}

function keyWriter(sql: Sql): RowWriter["key"] {
  const select = sql.prepare(
    "SELECT * FROM idempotency_keys WHERE tenant_id = ? AND idempotency_key = ?",
  );
  const insert = sql.prepare(INSERT_KEY);
  return {
    find({ tenantId, idempotencyKey }) {
      const cells = get(select, tenantId, idempotencyKey);
      return cells === undefined ? null : keyOf(cells);
    },
    add({ tenantId, idempotencyKey, taskId, fingerprint, expiresAt }) {
      insert.run(tenantId, idempotencyKey, taskId, fingerprint, expiresAt);
    },
  };
}
