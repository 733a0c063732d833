/** Queries: mutants of the queries and lists of both stores. */
import { inService } from "../mutant.mjs";

/** @type {readonly import("../mutant.mjs").Mutant[]} */
export const queries = [
  ...inService("stores/sqlite/sqlite-query.ts", [
    {
      name: "attempts ignore the tenant",
      search: "(SELECT ref FROM tasks WHERE tenant_id = ? AND task_id = ?)",
      replace: "(SELECT ref FROM tasks WHERE ? <> '' AND task_id = ?)",
    },
    {
      name: "get ignores the tenant",
      search: "WHERE t.tenant_id = ? AND t.task_id = ?`);",
      replace: "WHERE ? <> '' AND t.task_id = ?`);",
    },
    {
      name: "export ignores the tenant",
      search: "WHERE t.tenant_id = ? AND t.task_id > ?",
      replace: "WHERE ? <> '' AND t.task_id > ?",
    },
    {
      name: "an exported page repeats the task of its cursor",
      search: "AND t.task_id > ? ORDER",
      replace: "AND t.task_id >= ? ORDER",
    },
    {
      name: "the newest open task counts as the oldest",
      search: "ORDER BY t.task_id LIMIT 1",
      replace: "ORDER BY t.task_id DESC LIMIT 1",
    },
  ]),
  ...inService("stores/sqlite/sqlite-query.ts", [
    {
      name: "count ignores the tenant",
      search: "WHERE d.tenant_id = ? AND c.count > 0",
      replace: "WHERE ? <> '' AND c.count > 0",
    },
    {
      name: "zero counts are listed",
      search: "AND c.count > 0 GROUP BY",
      replace: "GROUP BY",
    },
    {
      name: "zero counts of a destination are listed",
      search: "= d.destination_id AND c.count > 0\n",
      replace: "= d.destination_id\n",
    },
  ]),
  ...inService("stores/sqlite/task-list.ts", [
    {
      name: "a page that used up its rows ends the list",
      search: "return { items, cursor: cursor ?? null };",
      replace: "return { items, cursor: null };",
    },
    {
      name: "a slice that ends with the source continues",
      search: "if (examined < wanted.rows) return",
      replace: "if (examined < 0) return",
    },
    {
      name: "a slice examines more rows than the page may",
      search: "rows: Math.min(rows, left)",
      replace: "rows",
    },
    {
      name: "a page repeats the task of its cursor",
      search: 'is("task_id < ?", cursor)',
      replace: 'is("task_id <= ?", cursor)',
    },
    {
      name: "the largest source is read",
      search: "Math.min(...(counts as number[]))",
      replace: "Math.max(...(counts as number[]))",
      equivalent: "every source gives the same list; only the number of pages differs",
    },
  ]),
  ...inService("stores/sqlite/task-list.ts", [
    {
      name: "list ignores the tenant",
      search: '[[{ table: "tasks", conditions: [ofTenant] }]]',
      replace: `[[{ table: "tasks", conditions: [is("? <> ''", tenantId)] }]]`,
    },
    {
      name: "a key finds its current task only",
      search: '[{ table: "tasks", conditions }, ...ofTerm(tenantId, "", key)]',
      replace: '[{ table: "tasks", conditions }]',
    },
    {
      name: "a key does not find its current task",
      search: '[{ table: "tasks", conditions }, ...ofTerm(tenantId, "", key)]',
      replace: '[...ofTerm(tenantId, "", key)]',
    },
    {
      name: "a range of creation starts later",
      search: 'createdFrom !== undefined) limits.push(is("task_id >= ?", taskIdPrefix(createdFrom',
      replace:
        'createdFrom !== undefined) limits.push(is("task_id >= ?", taskIdPrefix(createdFrom + 90_000',
    },
    {
      name: "a range includes its end",
      search: '"p.created_at < ?", filter.createdTo',
      replace: '"p.created_at <= ?", filter.createdTo',
    },
    {
      name: "a range of ends includes its end",
      search: '"t.finished_at < ?", filter.finishedTo',
      replace: '"t.finished_at <= ?", filter.finishedTo',
    },
    {
      name: "a range of ends excludes its start",
      search: '"t.finished_at >= ?", filter.finishedFrom',
      replace: '"t.finished_at > ?", filter.finishedFrom',
    },
    {
      name: "a label matches by its name alone",
      search: "WHERE key = ? AND value = ?)",
      replace: "WHERE key = ? AND ? <> '')",
    },
  ]),
  ...inService("stores/sqlite/read-queue.ts", [
    {
      name: "a tenant keeps its turn",
      search: "    this.#waiting.set(current.tenantId, current.jobs);\n",
      replace:
        "    const others = [...this.#waiting];\n    this.#waiting.clear();\n    this.#waiting.set(current.tenantId, current.jobs);\n    for (const [id, jobs] of others) this.#waiting.set(id, jobs);\n",
    },
    {
      name: "an aborted read runs",
      search: "job.signal?.aborted !== true",
      replace: "job.signal?.aborted !== undefined || job.signal === undefined",
    },
    {
      name: "pages are never refused",
      search: "if (count >= MAX_PAGES)",
      replace: "if (count > 9 * MAX_PAGES)",
    },
  ]),
  ...inService("stores/memory/memory-query.ts", [
    {
      name: "list ignores the tenant",
      search: ".filter(({ task }) => task.tenantId === tenantId)",
      replace: '.filter(({ task }) => task.tenantId !== "")',
    },
    {
      name: "export ignores the tenant",
      search: "row.task.tenantId === tenantId && row.task.taskId > cursor",
      replace: "row.task.taskId > cursor",
    },
    {
      name: "a range includes its end",
      search: "at < (to ??",
      replace: "at <= (to ??",
    },
    {
      name: "a task that has not ended is within a range of ends",
      search: "at !== null && at >= (from ?? 0) && at <",
      replace: "(at ?? 0) >= (from ?? 0) && (at ?? 0) <",
    },
    {
      name: "an exported page repeats the task of its cursor",
      search: "row.task.taskId > cursor)",
      replace: "row.task.taskId >= cursor)",
    },
    {
      name: "a page that used up its rows ends the list",
      search: "remaining.length <= maxRows",
      replace: "remaining.length <= 9 * maxRows",
    },
  ]),
];
