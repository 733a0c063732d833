/**
 * Claim writer: claims the due tasks of a lane. It reads a partial index of waiting tasks, so its
 * cost does not depend on how many tasks there are. Permits that waiting tasks do not need go to new
 * tasks of the same batch (`new-task-claims.ts`), which are then inserted already claimed.
 */
import type { ClaimRequest, ClaimResult, StartedTask } from "../../../model/batch.ts";
import { ANY_LIMIT, type Sql } from "../file/sql.ts";
import { type Cell, laneNumber } from "../rows/codec.ts";
import { STARTED_COLUMNS, startedOf } from "../rows/task-rows.ts";
import type { DestinationTable, StoredDestination } from "../tables/destination-table.ts";
import { type BatchContext, mayClaim, type OpenClaim } from "./batch-context.ts";

export interface ClaimWriter {
  open(request: ClaimRequest, context: BatchContext): OpenClaim;
  finish(claim: OpenClaim, context: BatchContext): ClaimResult;
}

export function claimWriter(sql: Sql, destinations: DestinationTable): ClaimWriter {
  const select = sql.prepare(`SELECT ${STARTED_COLUMNS}
    FROM tasks t JOIN payloads p ON p.ref = t.ref
    WHERE t.destination_id = ? AND t.lane = ? AND t.status = 0 AND t.next_attempt_at <= ?
    ORDER BY t.next_attempt_at, t.ref LIMIT ${ANY_LIMIT}`);
  const start = sql.prepare(`UPDATE tasks SET status = 1, attempt_number = attempt_number + 1,
    claim_epoch = claim_epoch + 1, claimed_by = ?, claimed_at = ? WHERE ref = ?`);
  const nextDue = sql.prepare(`SELECT next_attempt_at FROM tasks
    WHERE destination_id = ? AND lane = ? AND status = 0 ORDER BY next_attempt_at LIMIT 1`);

  function open(request: ClaimRequest, context: BatchContext): OpenClaim {
    const { tenantId, destination, lane, limit, aheadMs, version } = request;
    const { now } = context;
    const stored = destinations.getOrInsert(tenantId, destination);
    const isCurrent = mayClaim(context, stored, version);
    const rows = isCurrent ? select.all(stored.id, laneNumber(lane), now + aheadMs, limit) : [];
    const found = (rows as unknown as readonly Cell[][]).map((cells) =>
      startedOf(cells, { tenantId, destination }, now),
    );
    const due = found.filter(({ nextAttemptAt }) => nextAttemptAt <= now);
    const ahead = found.slice(due.length);
    return { request, stored, isCurrent, due, ahead, started: [], isOutdated: false };
  }

  function take(stored: StoredDestination, task: StartedTask, { node, now }: BatchContext): void {
    const { ref, claimEpoch, taskId } = task;
    start.get(node, now, ref);
    destinations.tally(stored, "PENDING", "IN_FLIGHT");
    destinations.keepClaim(ref, claimEpoch, taskId, stored);
  }

  return {
    open,
    finish(claim, context) {
      const { request, stored, isCurrent, due, started, ahead } = claim.isOutdated
        ? open(claim.request, context)
        : claim;
      const count = Math.min(request.limit, request.aheadLimit) - due.length - started.length;
      const soon = ahead.slice(0, Math.max(0, count));
      for (const task of due) take(stored, task, context);
      for (const task of soon) take(stored, task, context);
      const next = nextDue.get(stored.id, laneNumber(request.lane)) as unknown;
      const nextDueAt = (next as readonly number[] | undefined)?.[0] ?? null;
      const tasks = [...due, ...started, ...soon];
      return { tasks, nextDueAts: [nextDueAt], row: isCurrent ? null : stored.row };
    },
  };
}
