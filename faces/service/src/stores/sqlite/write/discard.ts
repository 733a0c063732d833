/** Discard: removes dead letters with their payloads and attempts, and updates the counts. */
import type { Store } from "../../../model/store.ts";
import type { Sql } from "../file/sql.ts";
import type { DestinationTable } from "../tables/destination-table.ts";

const DELETES = ["attempts", "payloads", "tasks"].map(
  (table) => `DELETE FROM ${table} WHERE ref = ?`,
);

export function discarder(sql: Sql, destinations: DestinationTable): Store["discard"] {
  const select = sql.prepare(`SELECT ref, destination_id FROM tasks
    WHERE status = 3 AND tenant_id = ? AND task_id = ?`);
  const deletes = DELETES.map((text) => sql.prepare(text));

  function remove(tenantId: string, taskId: string): number {
    const found = select.get(tenantId, taskId) as unknown as readonly number[] | undefined;
    if (found === undefined) return 0;
    const [ref = 0, id = 0] = found;
    for (const statement of deletes) statement.run(ref);
    destinations.tally(destinations.byId(id), "EXHAUSTED", null);
    return 1;
  }

  return async (tenantId, taskIds) =>
    sql.transaction(
      () => {
        const removed = taskIds.reduce((sum, taskId) => sum + remove(tenantId, taskId), 0);
        destinations.flush();
        return removed;
      },
      () => destinations.undo(),
    );
}
