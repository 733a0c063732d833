/** Row finder: reads the rows that a PostgreSQL store has at the positions of others. */
import { positionOf, type Stored, TAKEN } from "../../../model/transfer/compare.ts";
import type { TransferKind, TransferRows, TransferTask } from "../../../model/transfer/transfer.ts";
import type { Cell } from "../connection/cells.ts";
import type { Run } from "../connection/sql.ts";
import { DESTINATION_COLUMNS, destinationOf } from "../rows/destination-rows.ts";
import {
  ATTEMPTS_OF_TASK,
  DOCUMENT_COLUMNS,
  documentOf,
  KEY_COLUMNS,
  keyOf,
  POLICY_COLUMNS,
  policyOf,
  TASKS_OF_PAGE,
  transferAttemptOf,
  transferTaskOf,
} from "./row-reader.ts";

export type FindRows<Kind extends TransferKind> = (
  run: Run,
  rows: readonly TransferRows[Kind][],
) => Promise<readonly Stored<TransferRows[Kind]>[]>;

/** The wanted positions: one list of cells for each of the columns. */
const wanted = (...types: readonly string[]) =>
  `unnest(${types.map((type, at) => `$${at + 1}::${type}[]`).join(", ")}) w`;

const POLICIES = `SELECT ${POLICY_COLUMNS} FROM redrive.policies
  WHERE (tenant_id, policy_id, version) IN (SELECT * FROM ${wanted("text", "text", "int")})`;

const DESTINATIONS = `SELECT ${DESTINATION_COLUMNS} FROM redrive.destinations d
  WHERE d.version > 0 AND (d.tenant_id, d.name) IN (SELECT * FROM ${wanted("text", "text")})`;

const DOCUMENTS = `SELECT ${DOCUMENT_COLUMNS} FROM redrive.documents
  WHERE (kind, tenant_id, id) IN (SELECT * FROM ${wanted("text", "text", "text")})`;

const TASKS = `WITH page AS MATERIALIZED (SELECT tenant_id, task_id FROM redrive.tasks
    WHERE (tenant_id, task_id) IN (SELECT * FROM ${wanted("text", "text")}))
  ${TASKS_OF_PAGE}`;

const ATTEMPTS = `SELECT t.tenant_id, t.task_id, a.attempt_number, a.log, a.response_body
  FROM ${wanted("text", "text", "int")} (tenant_id, task_id, attempt_number)
  JOIN redrive.tasks t ON t.tenant_id = w.tenant_id AND t.task_id = w.task_id
  CROSS JOIN LATERAL ${ATTEMPTS_OF_TASK} WHERE a.attempt_number = w.attempt_number`;

const KEYS = `SELECT ${KEY_COLUMNS} FROM redrive.idempotency_keys
  WHERE (tenant_id, idempotency_key) IN (SELECT * FROM ${wanted("text", "text")})`;

export const FIND_ROWS: { readonly [Kind in TransferKind]: FindRows<Kind> } = {
  policy: finder("policy", POLICIES, policyOf),
  destination: finder("destination", DESTINATIONS, destinationOf),
  document: finder("document", DOCUMENTS, documentOf),
  async task(run, rows) {
    const found = await finder("task", TASKS, transferTaskOf)(run, rows);
    return markTaken(run, rows, found);
  },
  attempt: finder("attempt", ATTEMPTS, transferAttemptOf),
  key: finder("key", KEYS, keyOf),
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
  const taken = new Set((await run(KEYS, [tenants, keys])).map(keyOf).map(nameOf));
  return rows.map((row, at) => {
    const isTaken = row.key !== null && found[at] === null && taken.has(nameOf(row));
    return isTaken ? TAKEN : (found[at] ?? null);
  });
}
