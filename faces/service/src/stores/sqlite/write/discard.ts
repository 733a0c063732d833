/** Discard: removes dead letters with their payloads and attempts, and updates the counts. */
import type { Store } from "../../../model/store.ts";
import type { Sql } from "../file/sql.ts";
import type { DestinationTable } from "../tables/destination-table.ts";
import { keyExpiry } from "./key-expiry.ts";

const DELETES = ["attempts", "payloads", "tasks"].map(
  (table) => `DELETE FROM ${table} WHERE ref = ?`,
);

type DeadCells = readonly [number, number, number, string | null];

export function discarder(sql: Sql, destinations: DestinationTable): Store["discard"] {
  const select = sql.prepare(`SELECT t.ref, t.destination_id, t.finished_at, p.idempotency_key
    FROM tasks t JOIN payloads p ON p.ref = t.ref
    WHERE t.status = 3 AND t.tenant_id = ? AND t.task_id = ?`);
  const keys = keyExpiry(sql);
  const deletes = DELETES.map((text) => sql.prepare(text));

  function remove(tenantId: string, taskId: string): number {
    const found = select.get(tenantId, taskId) as unknown as DeadCells | undefined;
    if (found === undefined) return 0;
    const [ref, id, finishedAt, key] = found;
    for (const statement of deletes) statement.run(ref);
    keys.taskRemoved({ tenantId, taskId, key, finishedAt });
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
