/**
 * Destination query: reads destinations with their counts in pages, on a reader's thread. A file may
 * hold any number of destinations, and a page is bounded.
 */
import type { StoredDestinationState, TaskQuery } from "../../../model/task-query.ts";
import { type Cell, IN_FLIGHT, PENDING, statusName } from "../rows/codec.ts";
import { DESTINATION_COLUMNS, DESTINATION_ID, destinationOf } from "../rows/destination-rows.ts";
import type { Reader } from "./reader.ts";

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

export function destinationQuery(reader: Reader): DestinationQuery {
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
