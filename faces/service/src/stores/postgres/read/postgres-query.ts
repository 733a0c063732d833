/**
 * PostgreSQL query: reads single tasks, and lists in a read-only transaction, in which the server
 * limits the time of each statement.
 */
import { ReadAbortedError } from "../../../model/store-errors.ts";
import type { Page, TaskQuery } from "../../../model/task-query.ts";
import type { Run, Sql } from "../connection/sql.ts";
import { attemptOf, attemptsOf } from "../rows/attempt-rows.ts";
import { TASK_TABLES, taskColumns, taskOf } from "../rows/task-rows.ts";
import { PageTurns } from "./page-turns.ts";
import { listIdPage, listPage } from "./task-list.ts";

const GET = `SELECT ${taskColumns("t.body")} FROM ${TASK_TABLES}
  WHERE t.tenant_id = $1 AND t.task_id = $2`;

const EXPORT = `SELECT ${taskColumns("t.body")} FROM ${TASK_TABLES}
  WHERE t.tenant_id = $1 AND t.task_id > $2 ORDER BY t.task_id LIMIT $3`;

const ATTEMPTS = `WITH task AS MATERIALIZED (
    SELECT ref FROM redrive.tasks WHERE tenant_id = $1 AND task_id = $2)
  SELECT log, response_body FROM (
    ${attemptsOf("(SELECT ref FROM task)", "attempt_number > $3")}
  ) found ORDER BY attempt_number LIMIT $4`;

const oldestOf = (table: string) => `(SELECT task_id FROM redrive.${table} WHERE tenant_id = $1
  ORDER BY task_id LIMIT 1)`;

const OLDEST_OPEN = `SELECT created_at FROM redrive.tasks WHERE tenant_id = $1
  AND task_id = least(${oldestOf("waiting_tasks")}, ${oldestOf("claimed_tasks")})`;

type TaskReads = Pick<TaskQuery, "get" | "list" | "listIds" | "export" | "attempts" | "oldestOpen">;

export function postgresQuery(sql: Sql): TaskReads {
  const { run } = sql;
  const page = pageReader(sql);
  return {
    async get(tenantId, taskId) {
      const [row] = await run(GET, [tenantId, taskId]);
      return row === undefined ? null : taskOf(row);
    },
    list: (tenantId, filter, wanted) =>
      page(tenantId, wanted, (inside) => listPage(inside, tenantId, filter, wanted)),
    listIds: (tenantId, filter, wanted) =>
      page(tenantId, wanted, (inside) => listIdPage(inside, tenantId, filter, wanted)),
    export: (tenantId, wanted) =>
      page(tenantId, wanted, async (inside) => {
        const { limit, cursor = "" } = wanted;
        const rows = await inside(EXPORT, [tenantId, cursor, limit + 1]);
        const tasks = rows.slice(0, limit).map(taskOf);
        return { tasks, cursor: rows.length > limit ? (tasks.at(-1)?.taskId ?? null) : null };
      }),
    attempts: (tenantId, taskId, wanted) =>
      page(tenantId, wanted, async (inside) => {
        const { limit, cursor } = wanted;
        const params = [tenantId, taskId, Number(cursor ?? 0), limit + 1];
        const rows = await inside(ATTEMPTS, params);
        const attempts = rows.slice(0, limit).map(attemptOf);
        const last = rows.length > limit ? attempts.at(-1) : undefined;
        return { attempts, cursor: last === undefined ? null : String(last.attemptNumber) };
      }),
    async oldestOpen(tenantId) {
      const [row] = await run(OLDEST_OPEN, [tenantId]);
      return (row?.[0] as number | undefined) ?? null;
    },
  };
}

type ReadPage = <T>(tenantId: string, page: Page, work: (run: Run) => Promise<T>) => Promise<T>;

/** Runs the statements of a page when it is the tenant's turn, until its caller has gone. */
function pageReader({ read }: Sql): ReadPage {
  const turns = new PageTurns();
  return (tenantId, { signal }, work) =>
    turns.run(tenantId, async () => {
      throwIfAborted(signal);
      return read((run) =>
        work((text, params) => {
          throwIfAborted(signal);
          return run(text, params);
        }),
      );
    });
}

function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new ReadAbortedError(signal);
}
