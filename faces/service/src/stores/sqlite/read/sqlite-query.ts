/**
 * SQLite query: the queries of the SQLite store. A single task is read on the writing connection,
 * so that a caller sees what it has just written; lists go to the reader.
 */
import type { Page, TaskFilter, TaskPage, TaskQuery } from "../../../model/task-query.ts";
import type { Sql } from "../file/sql.ts";
import { ATTEMPT_COLUMNS, attemptOf } from "../rows/attempt-rows.ts";
import { type Cell, statusNumber } from "../rows/codec.ts";
import { TASK_COLUMNS, TASK_COLUMNS_NO_BODY, TASK_TABLES, taskOf } from "../rows/task-rows.ts";
import { destinationQuery } from "./destination-query.ts";
import type { Reader } from "./reader.ts";

/** `pages`: the reader of bounded pages, which never waits for a list. */
export function sqliteQuery(sql: Sql, reader: Reader, pages: Reader): TaskQuery {
  const getTask = sql.prepare(`SELECT ${TASK_COLUMNS} FROM ${TASK_TABLES}
    WHERE t.tenant_id = ? AND t.task_id = ?`);

  async function page(
    conditions: Condition[],
    order: "ASC" | "DESC",
    columns: string,
    limit: number,
  ) {
    const where = conditions.map(({ sql }) => sql).join(" AND ");
    const text = `SELECT ${columns} FROM ${TASK_TABLES} WHERE ${where}
      ORDER BY t.tenant_id ${order}, t.task_id ${order} LIMIT ?`;
    const params = [...conditions.flatMap(({ params }) => params), limit + 1];
    return pageOf(await reader.all(text, params), limit);
  }

  return {
    async get(tenantId, taskId) {
      const cells = sql.read(() => getTask.get(tenantId, taskId)) as Cell[] | undefined;
      return cells === undefined ? null : taskOf(cells);
    },
    list(tenantId, filter, { limit, cursor }) {
      const conditions = [is("t.tenant_id = ?", tenantId), ...conditionsOf(filter)];
      if (cursor !== undefined) conditions.push(is("t.task_id < ?", cursor));
      return page(conditions, "DESC", TASK_COLUMNS_NO_BODY, limit);
    },
    export(tenantId, { limit, cursor = "" }) {
      const conditions = [is("t.tenant_id = ?", tenantId), is("t.task_id > ?", cursor)];
      return page(conditions, "ASC", TASK_COLUMNS, limit);
    },
    ...destinationQuery(pages),
    async attempts(tenantId, taskId, { limit, cursor }: Page) {
      const rows = await reader.all(
        `SELECT ${ATTEMPT_COLUMNS} FROM attempts
         WHERE ref = (SELECT ref FROM tasks WHERE tenant_id = ? AND task_id = ?)
           AND attempt_number > ? ORDER BY attempt_number LIMIT ?`,
        [tenantId, taskId, Number(cursor ?? 0), limit + 1],
      );
      const attempts = rows.slice(0, limit).map(attemptOf);
      const last = attempts.at(-1);
      return { attempts, cursor: last && rows.length > limit ? String(last.attemptNumber) : null };
    },
  };
}

function pageOf(rows: readonly Cell[][], limit: number): TaskPage {
  const tasks = rows.slice(0, limit).map(taskOf);
  const last = tasks.at(-1);
  return { tasks, cursor: last && rows.length > limit ? last.taskId : null };
}

interface Condition {
  readonly sql: string;
  readonly params: readonly Cell[];
}

function is(sql: string, ...params: readonly Cell[]): Condition {
  return { sql, params };
}

/**
 * The status is inserted as a number, not as a parameter: SQLite uses partial indexes only then.
 */
function conditionsOf(filter: TaskFilter): Condition[] {
  const { status, label, idempotencyKey } = filter;
  const conditions: Condition[] = [];
  if (status !== undefined) conditions.push(is(`t.status = ${statusNumber(status)}`));
  const plain: readonly (readonly [string, Cell | undefined])[] = [
    ["p.policy_id = ?", filter.policyId],
    ["d.name = ?", filter.destination],
    ["t.reason = ?", filter.reason],
    ["t.last_status = ?", filter.lastStatus],
    ["p.created_at >= ?", filter.createdFrom],
    ["p.created_at < ?", filter.createdTo],
    ["t.finished_at >= ?", filter.finishedFrom],
    ["t.finished_at < ?", filter.finishedTo],
    ["p.idempotency_key = ?", idempotencyKey],
  ];
  for (const [sql, value] of plain) if (value !== undefined) conditions.push(is(sql, value));
  if (label !== undefined) {
    const found = "EXISTS (SELECT 1 FROM json_each(p.labels) WHERE key = ? AND value = ?)";
    conditions.push(is(found, label.name, label.value));
  }
  return conditions;
}
