/**
 * Due table: when the lanes of destinations are due. A few are read at once; more are read on a
 * reader's thread, because a file may hold any number of destinations.
 */
import type { LaneDue } from "../../model/lane-due.ts";
import type { Store } from "../../model/store.ts";
import { FEW_ROWS, type Sql } from "./file/sql.ts";
import type { Reader } from "./reader.ts";
import { type Cell, laneName } from "./rows.ts";

/**
 * One index lookup per lane of a destination that has waiting tasks: the cost does not grow with
 * waiting tasks. The counts are ordered by destination, so a page is a range of them. The last
 * destination of a range comes without a lane, because the next page continues after it.
 */
const SELECT = `
  WITH page AS MATERIALIZED (
    SELECT destination_id FROM counts
    WHERE destination_id > ?1 AND status = 0 AND count > 0 ORDER BY destination_id LIMIT ?2)
  SELECT d.tenant_id, d.name, lanes.column1, (
    SELECT next_attempt_at FROM tasks t
    WHERE t.destination_id = d.destination_id AND t.lane = lanes.column1 AND t.status = 0
    ORDER BY t.next_attempt_at LIMIT 1) AS due_at
  FROM page JOIN destinations d USING (destination_id), (VALUES (0), (1), (2)) AS lanes
  WHERE due_at < ?3
  UNION ALL SELECT NULL, NULL, count(*), max(destination_id) FROM page`;

/** The position of the number of examined destinations in the last row. */
const EXAMINED = 2;

export function dueTable(sql: Sql, reader: Reader): Pick<Store, "dueLanes"> {
  const select = sql.prepare(SELECT);

  /** Undefined if there are more. */
  function readFew(after: number, before: number): readonly Cell[][] | undefined {
    const rows = sql.read(() =>
      select.all(after, FEW_ROWS, before),
    ) as unknown as readonly Cell[][];
    return (rows.at(-1)?.[EXAMINED] as number) < FEW_ROWS ? rows : undefined;
  }

  return {
    async dueLanes({ before, limit, cursor }) {
      const after = Number(cursor ?? 0);
      const few = limit >= FEW_ROWS ? readFew(after, before) : undefined;
      const rows = few ?? (await reader.all(SELECT, [after, limit, before]));
      const [, , examined, lastId] = rows.at(-1) ?? [];
      const lanes = rows.slice(0, -1).map(
        ([tenantId, name, lane, dueAt]): LaneDue => ({
          tenantId: tenantId as string,
          destination: name as string,
          lane: laneName(lane as number),
          partition: 0,
          dueAt: dueAt as number,
        }),
      );
      return { lanes, cursor: (examined as number) < limit ? null : String(lastId) };
    },
  };
}
