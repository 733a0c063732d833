/**
 * PostgreSQL query: reads single tasks, and lists in a read-only transaction, in which the server
 * limits the time of each statement.
 */

import type { Upkeep } from "../../model/store.ts";
import { ReadAbortedError } from "../../model/store-errors.ts";
import type {
  Page,
  StoredDestinationState,
  TaskCounts,
  TaskQuery,
} from "../../model/task-query.ts";
import type { Cell, Run, Sql } from "./connection/sql.ts";
import {
  attemptOf,
  attemptsOf,
  DESTINATION_CELLS,
  DESTINATION_COLUMNS,
  destinationOf,
  PARTITIONS,
  statusName,
  TASK_TABLES,
  taskColumns,
  taskOf,
} from "./schema/rows.ts";
import { listIdPage, listPage, PageTurns } from "./task-list.ts";

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

// Destination query: reads destinations with their counts in pages. A count is the sum of the slots of
// all nodes.

type DestinationQuery = Pick<
  TaskQuery,
  "count" | "countTenant" | "destinations" | "destination" | "countDestinations"
>;

const COUNT = `SELECT status, sum(count)::bigint FROM redrive.counts
  WHERE tenant_id = $1 GROUP BY status HAVING sum(count) > 0`;

const COUNT_OPEN = `SELECT coalesce(sum(count), 0)::bigint FROM redrive.counts
  WHERE tenant_id = $1 AND status IN (0, 1)`;

const COUNT_DESTINATIONS = `SELECT count(*) FILTER (WHERE breaker_state <> 'CLOSED'),
    count(*) FILTER (WHERE breaker_state = 'CLOSED'), count(paused_at)
  FROM redrive.destinations WHERE tenant_id = $1 AND version > 0`;

/**
 * The counts are one text, such as "0 12,3 1": a status and its count each. The first due instant is
 * looked up in each partition and lane: an index for it would make every claim slower.
 */
const selectStates = (condition: string) => `SELECT ${DESTINATION_COLUMNS},
    (SELECT string_agg(c.status || ' ' || c.total, ',') FROM (
      SELECT status, sum(count) AS total FROM redrive.counts
      WHERE tenant_id = d.tenant_id AND destination_id = d.destination_id
      GROUP BY status HAVING sum(count) > 0) c),
    (SELECT min(first.next_attempt_at)
      FROM generate_series(0, ${PARTITIONS - 1}) p CROSS JOIN generate_series(0, 2) l
      CROSS JOIN LATERAL (SELECT w.next_attempt_at FROM redrive.waiting_tasks w
        WHERE w.partition = p AND w.destination_id = d.destination_id AND w.lane = l
        ORDER BY w.next_attempt_at LIMIT 1) first)
  FROM redrive.destinations d WHERE d.tenant_id = $1 AND ${condition} ORDER BY d.name LIMIT $3`;

const SELECT_PAGE = selectStates("d.name > $2");
const SELECT_ONE = selectStates("d.name = $2");

export function destinationQuery({ run, read }: Sql): DestinationQuery {
  return {
    count: (tenantId) =>
      read(async (inside) => {
        const rows = await inside(COUNT, [tenantId]);
        return Object.fromEntries(rows.map(([status, n]) => [statusName(Number(status)), n]));
      }) as Promise<TaskCounts>,
    async countTenant(tenantId) {
      const [row] = await run(COUNT_OPEN, [tenantId]);
      return Number(row?.[0]);
    },
    destinations: (tenantId, { limit, cursor = "" }) =>
      read(async (inside) => {
        const states = (await inside(SELECT_PAGE, [tenantId, cursor, limit])).map(stateOf);
        const last = states.length < limit ? null : (states.at(-1)?.row.name ?? null);
        return { destinations: states.filter(isUsed), cursor: last };
      }),
    async destination(tenantId, name) {
      const [row] = await run(SELECT_ONE, [tenantId, name, 1]);
      const state = row && stateOf(row);
      return state !== undefined && isUsed(state) ? state : null;
    },
    async countDestinations(tenantId) {
      const [row = []] = await run(COUNT_DESTINATIONS, [tenantId]);
      const [open = 0, closed = 0, paused = 0] = row as readonly number[];
      return { open, closed, paused };
    },
  };
}

function stateOf(cells: readonly Cell[]): StoredDestinationState {
  const [counts, nextDueAt] = cells.slice(DESTINATION_CELLS);
  const pairs = counts === null ? [] : String(counts).split(",");
  const tasks = pairs.map((pair) => {
    const [status, count] = pair.split(" ").map(Number);
    return [statusName(status ?? -1), count] as const;
  });
  return {
    row: destinationOf(cells),
    tasks: Object.fromEntries(tasks) as TaskCounts,
    nextDueAt: nextDueAt as number | null,
  };
}

/** Until it is removed, an unused destination has a row without a version. */
function isUsed({ row, tasks }: StoredDestinationState): boolean {
  return row.version > 0 || Object.keys(tasks).length > 0;
}

// Upkeep: the dead rows of a schema, and the oldest transaction of the server, which keeps them.

/** The statistics of the server. Reading them takes no lock and reads no table of ours. */
const UPKEEP = `SELECT coalesce(sum(n_dead_tup), 0)::bigint, coalesce(sum(n_live_tup), 0)::bigint,
  coalesce((SELECT floor(extract(epoch FROM clock_timestamp() - min(xact_start)) * 1000)::bigint
    FROM pg_stat_activity WHERE pid <> pg_backend_pid()), 0)
  FROM pg_stat_user_tables WHERE schemaname = $1`;

export async function readUpkeep({ run, schema }: Pick<Sql, "run" | "schema">): Promise<Upkeep> {
  const [row = []] = await run(UPKEEP, [schema]);
  const [deadRows, liveRows, oldestTransactionMs] = row.map(Number);
  return {
    deadRows: deadRows ?? 0,
    liveRows: liveRows ?? 0,
    oldestTransactionMs: oldestTransactionMs ?? 0,
  };
}
