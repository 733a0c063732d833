/**
 * Planned waits: adds to each attempt the wait for its due instant. The previous attempt has that wait
 * as its delay, so a store keeps it once.
 */
import {
  type AttemptLog,
  type AttemptWait,
  MIN_WAIT_MS,
  NO_WAITS,
  type WaitCause,
} from "../model/task.ts";
import type { AttemptPage, Page, TaskQuery } from "../model/task-query.ts";

/** A page of attempts with all their waits. */
export async function attemptsWithWaits(
  query: Pick<TaskQuery, "attempts">,
  tenantId: string,
  taskId: string,
  page: Page,
): Promise<AttemptPage> {
  const { limit, cursor } = page;
  if (cursor === undefined) {
    const first = await query.attempts(tenantId, taskId, page);
    return { ...first, attempts: withPlannedWaits(first.attempts, undefined) };
  }
  // The cursor is the number of the last attempt of the previous page: that one is read again.
  const from = { ...page, cursor: String(Number(cursor) - 1), limit: limit + 1 };
  const found = await query.attempts(tenantId, taskId, from);
  const [previous] = found.attempts;
  // It may have been removed by now. Then the page has one attempt too many.
  const isFound = previous?.attemptNumber === Number(cursor);
  const attempts = isFound ? found.attempts.slice(1) : found.attempts.slice(0, limit);
  const last = attempts.at(-1);
  const hasMore = found.cursor !== null || found.attempts.length > attempts.length + +isFound;
  return {
    attempts: withPlannedWaits(attempts, isFound ? previous : undefined),
    cursor: last !== undefined && hasMore ? String(last.attemptNumber) : null,
  };
}

/** `previous`: the attempt before the first one, if any. */
export function withPlannedWaits(
  attempts: readonly AttemptLog[],
  previous: AttemptLog | undefined,
): readonly AttemptLog[] {
  return attempts.map((attempt, index) => {
    const before = index === 0 ? previous : attempts[index - 1];
    const planned = before === undefined ? NO_WAITS : waitsBetween(before, attempt);
    return planned.length === 0 ? attempt : { ...attempt, waits: [...planned, ...attempt.waits] };
  });
}

/** The waits from the end of an attempt to the first wait that the next attempt has stored. */
function waitsBetween(before: AttemptLog, attempt: AttemptLog): readonly AttemptWait[] {
  const { nextDelayMs, delaySource } = before;
  if (nextDelayMs === null || delaySource === null) return NO_WAITS;
  const sinceAt = before.startedAt + before.durationMs;
  const endAt = attempt.waits[0]?.sinceAt ?? attempt.startedAt;
  // A person may have made the task due earlier.
  const durationMs = Math.min(nextDelayMs, endAt - sinceAt);
  if (durationMs <= 0) return NO_WAITS;
  const planned = { cause: delaySource as WaitCause, sinceAt, durationMs };
  const lateMs = endAt - sinceAt - durationMs;
  if (lateMs < MIN_WAIT_MS) return [planned];
  return [planned, { cause: "late", sinceAt: endAt - lateMs, durationMs: lateMs }];
}
