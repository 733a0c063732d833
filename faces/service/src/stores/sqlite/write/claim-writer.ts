/**
 * Claim writer: claims the due tasks of a lane. It reads a partial index of waiting tasks, so its
 * cost does not depend on how many tasks there are.
 */
import type { ClaimRequest, ClaimResult, StartedTask } from "../../../model/batch.ts";
import { ANY_LIMIT, type Sql } from "../file/sql.ts";
import { type Cell, laneNumber } from "../rows/codec.ts";
import { STARTED_COLUMNS, startedOf } from "../rows/task-rows.ts";
import type { DestinationTable } from "../tables/destination-table.ts";
import { type BatchContext, mayClaim } from "./batch-context.ts";

export function claimWriter(
  sql: Sql,
  destinations: DestinationTable,
): (request: ClaimRequest, context: BatchContext) => ClaimResult {
  const due = sql.prepare(`SELECT ${STARTED_COLUMNS} FROM tasks t JOIN payloads p ON p.ref = t.ref
    WHERE t.destination_id = ? AND t.lane = ? AND t.status = 0 AND t.next_attempt_at <= ?
    ORDER BY t.next_attempt_at, t.ref LIMIT ${ANY_LIMIT}`);
  const start = sql.prepare(`UPDATE tasks SET status = 1, attempt_number = attempt_number + 1,
    claim_epoch = claim_epoch + 1, claimed_by = ?, claimed_at = ? WHERE ref = ?`);
  const nextDue = sql.prepare(`SELECT next_attempt_at FROM tasks
    WHERE destination_id = ? AND lane = ? AND status = 0 ORDER BY next_attempt_at LIMIT 1`);

  return ({ tenantId, destination, lane, limit, aheadMs, aheadLimit, version }, context) => {
    const { now, node } = context;
    const stored = destinations.getOrInsert(tenantId, destination);
    const number = laneNumber(lane);
    const current = mayClaim(context, stored, version);
    const rows = current ? due.all(stored.id, number, now + aheadMs, limit) : [];
    const tasks: StartedTask[] = [];
    for (const cells of rows as unknown as readonly Cell[][]) {
      const task = startedOf(cells, { tenantId, destination }, now);
      if (task.nextAttemptAt > now && tasks.length >= aheadLimit) break;
      start.run(node, now, task.ref);
      destinations.tally(stored, "PENDING", "IN_FLIGHT");
      tasks.push(task);
    }
    const next = nextDue.get(stored.id, number) as unknown as readonly number[] | undefined;
    return { tasks, nextDueAt: next?.[0] ?? null, row: current ? null : stored.row };
  };
}
