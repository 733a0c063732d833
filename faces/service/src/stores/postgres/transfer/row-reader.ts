/**
 * Row reader: reads the rows of a PostgreSQL store as they are, in pages. A cursor is the position of the
 * last row that was examined.
 */
import type { RowPage } from "../../../model/store.ts";
import { pageOf, type ReadPage, type ReadPages, startOf } from "../../../model/transfer/pages.ts";
import type {
  StoreTransfer,
  TransferAttempt,
  TransferKey,
  TransferKind,
  TransferPage,
  TransferRows,
  TransferTask,
} from "../../../model/transfer/transfer.ts";
import type { Cell } from "../connection/cells.ts";
import type { Rows, Run } from "../connection/sql.ts";
import { attemptOf, attemptsOf } from "../rows/attempt-rows.ts";
import { DESTINATION_COLUMNS, destinationOf } from "../rows/destination-rows.ts";
import { TASK_TABLES, taskColumns, taskOf } from "../rows/task-rows.ts";

export const POLICY_COLUMNS = "tenant_id, policy_id, version, document, created_at, removed_at";
export const DOCUMENT_COLUMNS = "kind, tenant_id, id, version, text";
export const KEY_COLUMNS = "tenant_id, idempotency_key, task_id, fingerprint, expires_at";

/** Tasks whose names are in `page`, each with the row of its key. */
export const TASKS_OF_PAGE = `SELECT ${taskColumns("t.body")}, k.fingerprint, k.expires_at
  FROM page JOIN (${TASK_TABLES}) ON t.tenant_id = page.tenant_id AND t.task_id = page.task_id
  LEFT JOIN redrive.idempotency_keys k ON k.tenant_id = t.tenant_id
    AND k.idempotency_key = t.idempotency_key AND k.task_id = t.task_id
  ORDER BY t.tenant_id, t.task_id`;

/** The attempts of a task `t`. */
export const ATTEMPTS_OF_TASK = `(${attemptsOf("t.ref", "true")}) a`;

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

export function rowReader(run: Run): StoreTransfer["read"] {
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

export function policyOf(cells: readonly Cell[]): TransferRows["policy"] {
  const [tenantId, policyId, version, document, createdAt, removedAt] = cells;
  const row = { tenantId, policyId, version, document, createdAt, removedAt };
  return row as TransferRows["policy"];
}

export function documentOf(cells: readonly Cell[]): TransferRows["document"] {
  const [kind, tenantId, id, version, text] = cells;
  return { kind, tenantId, id, version, text } as TransferRows["document"];
}

/** A row of `TASKS_OF_PAGE`. */
export function transferTaskOf(cells: readonly Cell[]): TransferTask {
  const [fingerprint = null, expiresAt = null] = cells.slice(-2);
  const key =
    fingerprint === null
      ? null
      : { fingerprint: fingerprint as string, expiresAt: expiresAt as number | null };
  return { ...taskOf(cells), key };
}

/** The tenant, the task and the number, then the log and the body of an attempt. */
export function transferAttemptOf(cells: readonly Cell[]): TransferAttempt {
  const [tenantId, taskId, , ...rest] = cells;
  return { tenantId: tenantId as string, taskId: taskId as string, ...attemptOf(rest) };
}

export function keyOf(cells: readonly Cell[]): TransferKey {
  const [tenantId, idempotencyKey, taskId, fingerprint, expiresAt] = cells;
  return { tenantId, idempotencyKey, taskId, fingerprint, expiresAt } as TransferKey;
}
