/**
 * Settle writer: ends claims and waits: settle, cancel and retry now. A settle with an old epoch
 * finds no row and changes nothing.
 */

import type {
  CancelRequest,
  CancelResult,
  RetryNowResult,
  Settle,
  SettleResult,
  TaskRef,
} from "../../../model/batch.ts";
import type { AttemptLog, NewTask } from "../../../model/task.ts";
import type { Sql } from "../file/sql.ts";
import { attemptCells, INSERT_ATTEMPT } from "../rows/attempt-rows.ts";
import {
  CANCELLED,
  type Cell,
  IN_FLIGHT,
  laneName,
  laneNumber,
  PENDING,
  SUCCEEDED,
  statusName,
  statusNumber,
} from "../rows/codec.ts";
import type { DestinationTable, StoredDestination } from "../tables/destination-table.ts";
import type { BatchContext } from "./batch-context.ts";

export interface EndWriter {
  settle(item: Settle, context: BatchContext): SettleResult;
  cancel(item: CancelRequest, context: BatchContext): CancelResult;
  retryNow(item: TaskRef, now: number): RetryNowResult;
}

/** Creates the tasks that follow the end of another. */
type Follow = (tasks: readonly NewTask[] | undefined, context: BatchContext) => void;

export function endWriter(sql: Sql, destinations: DestinationTable, follow: Follow): EndWriter {
  return {
    settle: settleStatement(sql, destinations, follow),
    ...cancelStatements(sql, destinations, follow),
  };
}

/** SQLite gives the row number of a deleted task to a new one, so the id is compared too. */
const OF_CLAIM = "ref = ? AND claim_epoch = ? AND task_id = ? AND status = 1";
const RELEASED = "claim_epoch = claim_epoch + 1, claimed_by = NULL, claimed_at = NULL";

function settleStatement(
  sql: Sql,
  destinations: DestinationTable,
  follow: Follow,
): EndWriter["settle"] {
  const find = sql.prepare(`SELECT destination_id, cancel_requested_at, last_status, last_error
    FROM tasks WHERE ${OF_CLAIM}`);
  const update = (finished: string) =>
    sql.prepare(`UPDATE tasks SET status = ?, reason = ?, lane = ?,
    next_attempt_at = ifnull(?, next_attempt_at), attempt_number = attempt_number - ?,
    ${RELEASED}, last_delay_ms = ?,
    abandoned_count = ?, ${finished} last_status = ?, last_error = ? WHERE ref = ?`);
  const finish = update("finished_at = ?,");
  // Naming `finished_at` would rewrite the entry in `tasks_open`, which does not change.
  const retry = update("");
  const succeed = successStatement(sql, destinations);
  const insertAttempt = sql.prepare(INSERT_ATTEMPT);

  return (item, context) => {
    const { attempt } = item;
    const destination = destinations.takeClaim(item.ref);
    const isKnownSuccess = destination !== undefined && item.status === "SUCCEEDED";
    const status =
      isKnownSuccess && attempt !== null
        ? succeed(item, attempt, destination, context.now)
        : settleFound(item, context.now);
    if (status === "fenced") return status;
    if (attempt !== null) insertAttempt.get(...attemptCells(Number(item.ref), attempt));
    if (status === "PENDING") return status;
    follow(item.onEnd?.[status], context);
    return status;
  };

  function settleFound(item: Settle, now: number): SettleResult {
    const { ref, claimEpoch, taskId } = item;
    const found = find.get(ref, claimEpoch, taskId) as unknown as readonly Cell[] | undefined;
    if (found === undefined) return "fenced";
    const [destinationId, cancelRequestedAt, lastStatus = null, lastError = null] = found;
    const status = endOf(item, cancelRequestedAt !== null);
    const { attempt } = item;
    const last = attempt
      ? [attempt.responseStatus, attempt.errorMessage]
      : [lastStatus, item.lastError ?? lastError];
    const cells = settledCells(item, status);
    if (status === "PENDING") retry.get(...cells, ...last, item.ref);
    else finish.get(...cells, now, ...last, item.ref);
    destinations.tally(destinations.byId(destinationId as number), "IN_FLIGHT", status);
    return status;
  }
}

/**
 * Settles a success in one statement, without reading the row first: a success wins over a requested
 * cancel, and the destination of a claim of this process is known.
 */
function successStatement(sql: Sql, destinations: DestinationTable) {
  const update = sql.prepare(`UPDATE tasks SET status = ${SUCCEEDED}, reason = ?, lane = ?,
    ${RELEASED}, last_delay_ms = ?,
    abandoned_count = ?, finished_at = ?, last_status = ?, last_error = ?
    WHERE ${OF_CLAIM}`);
  return (
    item: Settle,
    { responseStatus, errorMessage }: AttemptLog,
    destination: StoredDestination,
    now: number,
  ): SettleResult => {
    const { changes } = update.run(
      item.reason,
      laneNumber(item.lane),
      item.lastDelayMs,
      item.abandonedCount,
      now,
      responseStatus,
      errorMessage,
      item.ref,
      item.claimEpoch,
      item.taskId,
    );
    if (changes === 0) return "fenced";
    destinations.tally(destination, "IN_FLIGHT", "SUCCEEDED");
    return "SUCCEEDED";
  };
}

/** A requested cancel wins over every result except success. */
function endOf({ status }: Settle, isCancelled: boolean): Settle["status"] {
  return isCancelled && status !== "SUCCEEDED" ? "CANCELLED" : status;
}

/** The columns of `update` before `finished_at`. */
function settledCells(item: Settle, status: Settle["status"]): Cell[] {
  const ended = status !== "PENDING";
  return [
    statusNumber(status),
    status === item.status ? item.reason : "aborted",
    laneNumber(item.lane),
    ended ? null : item.nextAttemptAt,
    item.attempt === null ? 1 : 0,
    item.lastDelayMs,
    item.abandonedCount,
  ];
}

function cancelStatements(
  sql: Sql,
  destinations: DestinationTable,
  follow: Follow,
): Pick<EndWriter, "cancel" | "retryNow"> {
  const find = sql.prepare(`SELECT ref, status, destination_id, lane, cancel_requested_at FROM tasks
    WHERE tenant_id = ? AND task_id = ?`);
  const requestCancel = sql.prepare("UPDATE tasks SET cancel_requested_at = ? WHERE ref = ?");
  const cancelNow = sql.prepare(
    "UPDATE tasks SET status = 4, reason = 'aborted', finished_at = ? WHERE ref = ?",
  );
  const retryAt = sql.prepare(
    "UPDATE tasks SET next_attempt_at = min(next_attempt_at, ?) WHERE ref = ?",
  );
  const findCells = ({ tenantId, taskId }: TaskRef) =>
    find.get(tenantId, taskId) as unknown as readonly Cell[] | undefined;
  const storedById = (id: Cell | undefined) => destinations.byId(id as number);

  return {
    cancel(item, context) {
      const { now } = context;
      const found = findCells(item);
      if (found === undefined) return { kind: "unknown" };
      const [ref = 0, status, destinationId, , requestedAt] = found;
      if (status === CANCELLED) return { kind: "cancelled" };
      if ((status as number) >= SUCCEEDED) {
        return { kind: "ended", status: statusName(status as number) };
      }
      if (status === IN_FLIGHT) {
        const cancelRequestedAt = (requestedAt as number | null) ?? now;
        requestCancel.run(cancelRequestedAt, ref);
        return { kind: "requested", cancelRequestedAt };
      }
      cancelNow.run(now, ref);
      destinations.tally(storedById(destinationId), "PENDING", "CANCELLED");
      follow(item.onEnd?.CANCELLED, context);
      return { kind: "cancelled" };
    },
    retryNow(item, now) {
      const found = findCells(item);
      if (found === undefined) return { kind: "unknown" };
      const [ref = 0, status, destinationId, lane] = found;
      if (status !== PENDING) return { kind: "not-pending", status: statusName(status as number) };
      retryAt.run(now, ref);
      const { name } = storedById(destinationId).row;
      return { kind: "rescheduled", destination: name, lane: laneName(lane as number) };
    },
  };
}
