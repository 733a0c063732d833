/**
 * SQLite query: the queries of the SQLite store. A single task is read on the writing connection,
 * so that a caller sees what it has just written; lists go to the reader.
 */
import type { TaskPage, TaskQuery } from "../../../model/task-query.ts";
import { ANY_LIMIT, type Sql } from "../file/sql.ts";
import { ATTEMPT_COLUMNS, attemptOf } from "../rows/attempt-rows.ts";
import type { Cell } from "../rows/codec.ts";
import { TASK_COLUMNS, TASK_TABLES, taskOf } from "../rows/task-rows.ts";
import { destinationQuery } from "./destination-query.ts";
import type { ReadQueue } from "./read-queue.ts";
import type { Reader } from "./reader.ts";
import { listIdPage, listPage } from "./task-list.ts";

const EXPORT = `SELECT ${TASK_COLUMNS} FROM ${TASK_TABLES}
  WHERE t.tenant_id = ? AND t.task_id > ? ORDER BY t.tenant_id, t.task_id LIMIT ${ANY_LIMIT}`;

const ATTEMPTS = `SELECT ${ATTEMPT_COLUMNS} FROM attempts
  WHERE ref = (SELECT ref FROM tasks WHERE tenant_id = ? AND task_id = ?)
    AND attempt_number > ? ORDER BY attempt_number LIMIT ${ANY_LIMIT}`;

const OLDEST_OPEN = `SELECT p.created_at FROM tasks t INDEXED BY tasks_open
  JOIN payloads p ON p.ref = t.ref
  WHERE t.finished_at IS NULL AND t.tenant_id = ? ORDER BY t.task_id LIMIT 1`;

/** `pages`: the reader of bounded pages, which never waits for a list. */
export function sqliteQuery(sql: Sql, queue: ReadQueue, pages: Reader): TaskQuery {
  const getTask = sql.prepare(`SELECT ${TASK_COLUMNS} FROM ${TASK_TABLES}
    WHERE t.tenant_id = ? AND t.task_id = ?`);

  return {
    async get(tenantId, taskId) {
      const cells = sql.read(() => getTask.get(tenantId, taskId)) as Cell[] | undefined;
      return cells === undefined ? null : taskOf(cells);
    },
    list: (tenantId, filter, page) =>
      queue.page(tenantId, page.signal, (read) => listPage(read, tenantId, filter, page)),
    listIds: (tenantId, filter, page) =>
      queue.page(tenantId, page.signal, (read) => listIdPage(read, tenantId, filter, page)),
    export: (tenantId, { limit, cursor = "", signal }) =>
      queue.page(tenantId, signal, async (read) =>
        exportedPage(await read(EXPORT, [tenantId, cursor, limit + 1]), limit),
      ),
    ...destinationQuery(pages),
    attempts: (tenantId, taskId, { limit, cursor, signal }) =>
      queue.page(tenantId, signal, async (read) => {
        const rows = await read(ATTEMPTS, [tenantId, taskId, Number(cursor ?? 0), limit + 1]);
        const attempts = rows.slice(0, limit).map(attemptOf);
        const last = attempts.at(-1);
        const next = last && rows.length > limit ? String(last.attemptNumber) : null;
        return { attempts, cursor: next };
      }),
    async oldestOpen(tenantId) {
      const [row] = await queue.read(tenantId, OLDEST_OPEN, [tenantId]);
      return (row?.[0] as number | undefined) ?? null;
    },
  };
}

function exportedPage(rows: readonly Cell[][], limit: number): TaskPage {
  const tasks = rows.slice(0, limit).map(taskOf);
  const last = tasks.at(-1);
  return { tasks, cursor: last && rows.length > limit ? last.taskId : null };
}
