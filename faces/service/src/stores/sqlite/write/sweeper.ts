/**
 * Sweeper: removes tasks and keys whose retention is over.
 */
import type { Retention, Store } from "../../../model/store.ts";
import { ANY_LIMIT, type Sql } from "../file/sql.ts";
import { statusName } from "../rows/codec.ts";
import type { DestinationTable } from "../tables/destination-table.ts";
import { keyExpiry } from "./key-expiry.ts";

type IsOver = () => boolean;

const NEVER: IsOver = () => false;

type OldCells = readonly [number, number, number, string, string, string | null];

/**
 * In small slices, so that it does not block other work, and without an fsync: what a power cut
 * brings back is removed again.
 */
export function sweeper(sql: Sql, destinations: DestinationTable): Store["sweep"] {
  const old = sql.prepare(`SELECT t.ref, t.destination_id, t.finished_at, t.tenant_id, t.task_id,
    p.idempotency_key FROM tasks t JOIN payloads p ON p.ref = t.ref
    WHERE t.status = ? AND t.finished_at < ? ORDER BY t.finished_at LIMIT ${ANY_LIMIT}`);
  const removals = [
    "DELETE FROM attempts WHERE ref = ?",
    "DELETE FROM payloads WHERE ref = ?",
    "DELETE FROM tasks WHERE ref = ?",
  ].map((text) => sql.prepare(text));
  const keys = keyExpiry(sql);

  function removeEnded(status: number, before: number, limit: number, isOver: IsOver): number {
    if (limit <= 0) return 0;
    const found = old.all(status, before, limit) as unknown as readonly OldCells[];
    let removed = 0;
    for (const [ref, id, finishedAt, tenantId, taskId, key] of found) {
      for (const statement of removals) statement.get(ref);
      destinations.tally(destinations.byId(id), statusName(status), null);
      keys.taskRemoved({ tenantId, taskId, key, finishedAt });
      removed++;
      if (isOver()) break;
    }
    return removed;
  }

  const undo = () => destinations.undo();
  return async ({ now, endedBefore, deadBefore, limit, isOver = NEVER }: Retention) =>
    sql.unsyncedTransaction(() => {
      let removed = 0;
      for (const status of [2, 3, 4]) {
        const before = status === 3 ? deadBefore : endedBefore;
        removed += removeEnded(status, before, limit - removed, isOver);
        if (isOver()) break;
      }
      destinations.flush();
      return isOver() ? removed : removed + keys.sweep(now, limit - removed);
    }, undo);
}
