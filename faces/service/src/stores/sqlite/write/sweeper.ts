/**
 * Sweeper: removes tasks and keys whose retention is over.
 */
import type { Retention, Store } from "../../../model/store.ts";
import { ANY_LIMIT, type Sql } from "../file/sql.ts";
import { statusName } from "../rows/codec.ts";
import type { DestinationTable } from "../tables/destination-table.ts";

/** In small slices, so that it does not block other work. */
export function sweeper(sql: Sql, destinations: DestinationTable): Store["sweep"] {
  const old = sql.prepare(`SELECT ref, destination_id FROM tasks
    WHERE status = ? AND finished_at < ? ORDER BY finished_at LIMIT ${ANY_LIMIT}`);
  const removals = [
    "DELETE FROM attempts WHERE ref = ?",
    "DELETE FROM payloads WHERE ref = ?",
    "DELETE FROM tasks WHERE ref = ?",
  ].map((text) => sql.prepare(text));
  const removeKeys = sql.prepare(`DELETE FROM idempotency_keys WHERE (tenant_id, idempotency_key) IN
    (SELECT tenant_id, idempotency_key FROM idempotency_keys WHERE expires_at <= ? LIMIT ${ANY_LIMIT})`);

  function removeEnded(status: number, before: number, limit: number): number {
    const found = old.all(status, before, limit) as unknown as readonly number[][];
    for (const [ref = 0, id = 0] of found) {
      for (const statement of removals) statement.run(ref);
      destinations.tally(destinations.byId(id), statusName(status), null);
    }
    return found.length;
  }

  const undo = () => destinations.undo();
  return async ({ now, endedBefore, deadBefore, limit }: Retention) =>
    sql.transaction(() => {
      let removed = 0;
      for (const status of [2, 3, 4]) {
        removed += removeEnded(status, status === 3 ? deadBefore : endedBefore, limit - removed);
      }
      destinations.flush();
      return removed + Number(removeKeys.run(now, limit - removed).changes);
    }, undo);
}
