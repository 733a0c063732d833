/**
 * Row reader: reads the rows of a SQLite store as they are, in pages, on a reader's thread. A cursor is
 * the position of the last row that was examined.
 */
import { KEY_RETENTION_MS, type RowPage } from "../../../model/store.ts";
import { pageOf, type ReadPage, type ReadPages, startOf } from "../../../model/transfer/pages.ts";
import type {
  KeyRow,
  StoreTransfer,
  TransferAttempt,
  TransferKey,
  TransferKind,
  TransferPage,
  TransferRows,
  TransferTask,
} from "../../../model/transfer/transfer.ts";
import { ANY_LIMIT } from "../file/sql.ts";
import type { Reader, Rows } from "../read/reader.ts";
import { ATTEMPT_COLUMNS, attemptOf } from "../rows/attempt-rows.ts";
import type { Cell } from "../rows/codec.ts";
import { DESTINATION_COLUMNS, destinationOf } from "../rows/destination-rows.ts";
import { TASK_COLUMNS, TASK_TABLES, taskOf } from "../rows/task-rows.ts";

export const POLICY_COLUMNS = "tenant_id, policy_id, version, document, created_at, removed_at";
export const DOCUMENT_COLUMNS = "kind, tenant_id, id, version, text";

/** An attempt `a` with the name of its task `t`. */
export const NAMED_ATTEMPT = `t.tenant_id, t.task_id, ${ATTEMPT_COLUMNS.replaceAll(/\w+/gu, "a.$&")}`;

/** Tasks, each with the row of its key. */
export const SELECT_TASKS = `SELECT ${TASK_COLUMNS}, k.fingerprint, k.expires_at FROM ${TASK_TABLES}
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

export function rowReader(reader: Reader): StoreTransfer["read"] {
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

export function policyOf(cells: readonly Cell[]): TransferRows["policy"] {
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

export function documentOf(cells: readonly Cell[]): TransferRows["document"] {
  const [kind, tenantId, id, version, text] = cells;
  return { kind, tenantId, id, version, text } as TransferRows["document"];
}

/** A row of `SELECT_TASKS`. */
export function transferTaskOf(cells: readonly Cell[]): TransferTask {
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
export function transferAttemptOf(cells: readonly Cell[]): TransferAttempt {
  const [tenantId, taskId, ...rest] = cells;
  return { tenantId: tenantId as string, taskId: taskId as string, ...attemptOf(rest) };
}

export function keyOf(cells: readonly Cell[]): TransferKey {
  const [tenantId, idempotencyKey, taskId, fingerprint, expiresAt] = cells;
  return { tenantId, idempotencyKey, taskId, fingerprint, expiresAt } as TransferKey;
}
