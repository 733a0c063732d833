/**
 * Row writer: adds rows to a SQLite store as they are. The counts, the index of keys and the latest
 * instant follow from them.
 */
import { StoreRefusedError } from "../../../model/store-errors.ts";
import { type Stored, TAKEN } from "../../../model/transfer/compare.ts";
import type { TransferKind, TransferRows, TransferTask } from "../../../model/transfer/transfer.ts";
import type { Sql, Statement } from "../file/sql.ts";
import { attemptCells, INSERT_ATTEMPT } from "../rows/attempt-rows.ts";
import { type Cell, laneNumber, statusNumber } from "../rows/codec.ts";
import { INSERT_PAYLOAD, payloadCells } from "../rows/task-rows.ts";
import type { DestinationTable } from "../tables/destination-table.ts";
import {
  DOCUMENT_COLUMNS,
  documentOf,
  keyOf,
  NAMED_ATTEMPT,
  POLICY_COLUMNS,
  policyOf,
  SELECT_TASKS,
  transferAttemptOf,
  transferTaskOf,
} from "./row-reader.ts";

/** How to find and add the rows of a kind. Call it inside a transaction. */
export type RowWriter = {
  readonly [Kind in TransferKind]: {
    find(row: TransferRows[Kind]): Stored<TransferRows[Kind]>;
    add(row: TransferRows[Kind]): void;
  };
};

const get = (statement: Statement, ...params: readonly Cell[]) =>
  statement.get(...params) as unknown as readonly Cell[] | undefined;

export function rowWriter(sql: Sql, destinations: DestinationTable): RowWriter {
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
