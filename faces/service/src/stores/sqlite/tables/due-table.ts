/**
 * Due table: when the lanes of destinations are due.
 */
import type { LaneDue, Store } from "../../../model/store.ts";
import type { Sql } from "../file/sql.ts";
import { laneName } from "../rows/codec.ts";
import type { DestinationTable } from "./destination-table.ts";

/** One index lookup per lane: the cost grows with destinations, not with waiting tasks. */
export function dueTable(sql: Sql, destinations: DestinationTable): Pick<Store, "nextDue"> {
  const select = sql.prepare(`
    SELECT d.destination_id, lanes.column1, (
      SELECT next_attempt_at FROM tasks t
      WHERE t.destination_id = d.destination_id AND t.lane = lanes.column1 AND t.status = 0
      ORDER BY t.next_attempt_at LIMIT 1) AS due_at
    FROM destinations d, (VALUES (0), (1), (2)) AS lanes WHERE due_at IS NOT NULL`);
  return {
    async nextDue() {
      const rows = sql.read(() => select.all()) as unknown as readonly number[][];
      return rows.map(([id, lane, dueAt]): LaneDue => {
        const { tenantId, name } = destinations.byId(id as number).row;
        return {
          tenantId,
          destination: name,
          lane: laneName(lane as number),
          dueAt: dueAt as number,
        };
      });
    },
  };
}
