/**
 * Destination query: reads destinations with their counts in pages. A count is the sum of the slots of
 * all nodes.
 */
import type { StoredDestinationState, TaskCounts, TaskQuery } from "../../../model/task-query.ts";
import type { Cell } from "../connection/cells.ts";
import type { Sql } from "../connection/sql.ts";
import { statusName } from "../rows/codes.ts";
import { DESTINATION_CELLS, DESTINATION_COLUMNS, destinationOf } from "../rows/destination-rows.ts";
import { PARTITIONS } from "../rows/partitions.ts";

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
