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
  StoreRef,
  TaskRef,
} from "../../model/batch.ts";
import type { AttemptLog, NewTask } from "../../model/task.ts";
import type { BatchContext } from "./batch-context.ts";
import type { DestinationTable } from "./destination-table.ts";
import type { Sql } from "./file/sql.ts";
import {
  attemptCells,
  CANCELLED,
  type Cell,
  IN_FLIGHT,
  INSERT_ATTEMPT,
  INSERT_PLAIN_SUCCESS,
  isPlainSuccess,
  laneName,
  laneNumber,
  PENDING,
  responseHeadersText,
  SUCCEEDED,
  statusName,
  statusNumber,
} from "./rows.ts";

interface EndWriter {
  /** The results have the order of the items. */
  settle(items: readonly Settle[], context: BatchContext): SettleResult[];
  cancel(item: CancelRequest, context: BatchContext): CancelResult;
  retryNow(item: TaskRef, now: number): RetryNowResult;
}

/** Creates the tasks that follow the end of another. */
type Follow = (tasks: readonly NewTask[] | undefined, context: BatchContext) => void;

export function endWriter(sql: Sql, destinations: DestinationTable, follow: Follow): EndWriter {
  const insertAttempt = attemptInserter(sql);
  const succeed = successStatements(sql, destinations, insertAttempt);
  const settleFound = settleStatements(sql, destinations, insertAttempt);
  return {
    settle(items, context) {
      const known = succeed(items, context.now);
      return items.map((item, index) => {
        const status = known[index] ? "SUCCEEDED" : settleFound(item, context.now);
        if (status !== "fenced" && status !== "PENDING") follow(item.onEnd?.[status], context);
        return status;
      });
    },
    ...cancelStatements(sql, destinations, follow),
  };
}

/** SQLite may give the row number of a deleted task to a new one, so the id is compared too. */
const OF_CLAIM = "ref = ? AND claim_epoch = ? AND task_id = ? AND status = 1";
const RELEASED = "claim_epoch = claim_epoch + 1, claimed_by = NULL, claimed_at = NULL";

type InsertAttempt = (ref: StoreRef, log: AttemptLog) => void;

function attemptInserter(sql: Sql): InsertAttempt {
  const insert = sql.prepare(INSERT_ATTEMPT);
  const insertPlain = sql.prepare(INSERT_PLAIN_SUCCESS);
  return (ref, log) => {
    if (isPlainSuccess(log)) {
      insertPlain.get(
        ref,
        log.attemptNumber,
        log.startedAt,
        log.durationMs,
        log.responseStatus,
        responseHeadersText(log.responseHeaders),
        log.phases?.firstByteMs ?? null,
      );
    } else insert.get(...attemptCells(Number(ref), log));
  };
}

function settleStatements(
  sql: Sql,
  destinations: DestinationTable,
  insertAttempt: InsertAttempt,
): (item: Settle, now: number) => SettleResult {
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

  return (item, now) => {
    const { ref, claimEpoch, taskId, attempt } = item;
    const found = find.get(ref, claimEpoch, taskId) as unknown as readonly Cell[] | undefined;
    if (found === undefined) return "fenced";
    const [destinationId, cancelRequestedAt, lastStatus = null, lastError = null] = found;
    const status = endOf(item, cancelRequestedAt !== null);
    const last = attempt
      ? [attempt.responseStatus, attempt.errorMessage]
      : [lastStatus, item.lastError ?? lastError];
    const cells = settledCells(item, status);
    if (status === "PENDING") retry.get(...cells, ...last, item.ref);
    else finish.get(...cells, now, ...last, item.ref);
    destinations.tally(destinations.byId(destinationId as number), "IN_FLIGHT", status);
    if (attempt !== null) insertAttempt(ref, attempt);
    return status;
  };
}

/** Settles the successes that it can settle; says at the index of each item whether it did. */
type Succeed = (items: readonly Settle[], now: number) => readonly boolean[];

/**
 * Settles a success of a claim of this process in one statement, without reading the row first: a
 * success wins over a requested cancel, and the destination of the claim is known. The number of rows
 * that each statement changed costs more than the statement, so they are counted together.
 */
function successStatements(
  sql: Sql,
  destinations: DestinationTable,
  insertAttempt: InsertAttempt,
): Succeed {
  const ended = `UPDATE tasks SET status = ${SUCCEEDED}, ${RELEASED}, lane = ?, finished_at = ?,
    last_status = ?`;
  const update = sql.prepare(`${ended}, last_error = ?, reason = ?, last_delay_ms = ?,
    abandoned_count = ? WHERE ${OF_CLAIM}`);
  const updateFirst = sql.prepare(`${ended}, last_error = NULL, reason = NULL, last_delay_ms = 0,
    abandoned_count = 0 WHERE ${OF_CLAIM}`);
  const getChanges = sql.prepare("SELECT total_changes()");
  const countChanges = () => (getChanges.get() as unknown as readonly [number])[0];

  function succeed(item: Settle, { responseStatus, errorMessage }: AttemptLog, now: number): void {
    const { ref, claimEpoch, taskId, reason, lastDelayMs, abandonedCount } = item;
    const lane = laneNumber(item.lane);
    const isUsual = reason === null && errorMessage === null;
    if (isUsual && lastDelayMs === 0 && abandonedCount === 0) {
      updateFirst.get(lane, now, responseStatus, ref, claimEpoch, taskId);
      return;
    }
    const rest = [errorMessage, reason, lastDelayMs, abandonedCount] as const;
    update.get(lane, now, responseStatus, ...rest, ref, claimEpoch, taskId);
  }

  return (items, now) => {
    if (items.length === 0) return [];
    const before = countChanges();
    let settled = 0;
    const known = items.map((item) => {
      const { attempt } = item;
      const destination = destinations.takeClaim(item);
      if (destination === undefined || item.status !== "SUCCEEDED" || attempt === null)
        return false;
      succeed(item, attempt, now);
      insertAttempt(item.ref, attempt);
      destinations.tally(destination, "IN_FLIGHT", "SUCCEEDED");
      settled++;
      return true;
    });
    // Each changes one row and inserts one. The rollback forgets all claims, so that the next settle
    // reads its row.
    if (countChanges() - before !== 2 * settled) {
      throw new Error("a claim of this process has another state in the store");
    }
    return known;
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
