/**
 * SQLite query: the queries of the SQLite store. A single task is read on the writing connection,
 * so that a caller sees what it has just written; lists go to the reader.
 */
import type { StoredDestinationState, TaskPage, TaskQuery } from "../../model/task-query.ts";
import { ANY_LIMIT, type Sql } from "./file/sql.ts";
import type { ReadQueue } from "./read-queue.ts";
import type { Reader } from "./reader.ts";
import {
  ATTEMPT_COLUMNS,
  attemptOf,
  type Cell,
  DESTINATION_COLUMNS,
  DESTINATION_ID,
  destinationOf,
  IN_FLIGHT,
  PENDING,
  statusName,
  TASK_COLUMNS,
  TASK_TABLES,
  taskOf,
} from "./rows.ts";
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

// Destination query: reads destinations with their counts in pages, on a reader's thread. A file may
// hold any number of destinations, and a page is bounded.

type DestinationQuery = Pick<
  TaskQuery,
  "count" | "countTenant" | "destinations" | "destination" | "countDestinations"
>;

const COUNT = `SELECT c.status, sum(c.count) FROM counts c
  JOIN destinations d ON d.destination_id = c.destination_id
  WHERE d.tenant_id = ? AND c.count > 0 GROUP BY c.status`;

const COUNT_OPEN = `SELECT sum(c.count) FROM counts c
  JOIN destinations d ON d.destination_id = c.destination_id
  WHERE d.tenant_id = ? AND c.status IN (${PENDING}, ${IN_FLIGHT})`;

const COUNT_DESTINATIONS = `SELECT
    ifnull(sum(breaker_state <> 'CLOSED'), 0), ifnull(sum(breaker_state = 'CLOSED'), 0),
    count(paused_at)
  FROM destinations WHERE tenant_id = ? AND version > 0`;

/** A row per destination and count, in the order of names. A destination without counts has one. */
const selectStates = (condition: string) => `
  WITH page AS MATERIALIZED (
    SELECT * FROM destinations WHERE tenant_id = ? AND ${condition} ORDER BY name LIMIT ?)
  SELECT ${DESTINATION_COLUMNS}, c.status, c.count,
    CASE c.status WHEN 0 THEN (
      SELECT min(t.next_attempt_at) FROM tasks t
      WHERE t.destination_id = d.destination_id AND t.lane IN (0, 1, 2) AND t.status = 0) END
  FROM page d LEFT JOIN counts c ON c.destination_id = d.destination_id AND c.count > 0
  ORDER BY d.name`;

const SELECT_PAGE = selectStates("name > ?");
const SELECT_ONE = selectStates("name = ?");

function destinationQuery(reader: Reader): DestinationQuery {
  return {
    async count(tenantId) {
      const rows = await reader.all(COUNT, [tenantId]);
      return Object.fromEntries(rows.map(([status, count]) => [statusName(Number(status)), count]));
    },
    async countTenant(tenantId) {
      const [row] = await reader.all(COUNT_OPEN, [tenantId]);
      return Number(row?.[0] ?? 0);
    },
    async destinations(tenantId, { limit, cursor = "" }) {
      const states = statesOf(await reader.all(SELECT_PAGE, [tenantId, cursor, limit]));
      const last = states.length < limit ? null : (states.at(-1)?.row.name ?? null);
      return { destinations: states.filter(isUsed), cursor: last };
    },
    async destination(tenantId, name) {
      const [state] = statesOf(await reader.all(SELECT_ONE, [tenantId, name, 1]));
      return state !== undefined && isUsed(state) ? state : null;
    },
    async countDestinations(tenantId) {
      const [row = []] = await reader.all(COUNT_DESTINATIONS, [tenantId]);
      const [open, closed, paused] = row as readonly number[];
      return { open: open ?? 0, closed: closed ?? 0, paused: paused ?? 0 };
    },
  };
}

/** The rows of a destination follow each other. */
function statesOf(rows: readonly Cell[][]): readonly StoredDestinationState[] {
  const states = new Map<number, StoredDestinationState>();
  for (const cells of rows) {
    const id = cells[DESTINATION_ID] as number;
    const [status, count, dueAt] = cells.slice(DESTINATION_ID + 1) as readonly (number | null)[];
    const { row, tasks, nextDueAt } = states.get(id) ?? blankState(cells);
    const counted = typeof status === "number" ? { [statusName(status)]: count ?? 0 } : {};
    states.set(id, { row, tasks: { ...tasks, ...counted }, nextDueAt: nextDueAt ?? dueAt ?? null });
  }
  return [...states.values()];
}

function blankState(cells: readonly Cell[]): StoredDestinationState {
  return { row: destinationOf(cells), tasks: {}, nextDueAt: null };
}

/** Until it is removed, an unused destination has a row without a version. */
function isUsed({ row, tasks }: StoredDestinationState): boolean {
  return row.version > 0 || Object.keys(tasks).length > 0;
}
