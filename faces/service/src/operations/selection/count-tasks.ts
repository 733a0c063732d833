/**
 * Count tasks: the exact number of tasks that match a filter. The store has counts by destination and
 * status. For other filters the tasks are listed, until all are counted or the time is over.
 */
import { MAX_ID_PAGE, type TaskFilter, type TaskQuery } from "../../model/task-query.ts";

export interface TaskCount {
  readonly count: number;
  /** False: there may be more. */
  readonly complete: boolean;
}

export interface CountOptions {
  readonly signal: AbortSignal;
  /** Asked before each page: true ends the count. */
  readonly isOver: () => boolean;
}

type CountQuery = Pick<TaskQuery, "count" | "destination" | "listIds">;

export async function countTasks(
  query: CountQuery,
  tenantId: string,
  filter: TaskFilter,
  { signal, isOver }: CountOptions,
): Promise<TaskCount> {
  const stored = await storedCount(query, tenantId, filter);
  if (stored !== undefined) return { count: stored, complete: true };
  let count = 0;
  let cursor: string | null | undefined;
  while (cursor !== null) {
    if (cursor !== undefined && isOver()) return { count, complete: false };
    const page = { limit: MAX_ID_PAGE, signal, ...(cursor !== undefined && { cursor }) };
    const found = await query.listIds(tenantId, filter, page);
    count += found.taskIds.length;
    cursor = found.cursor;
  }
  return { count, complete: true };
}

/** Undefined: the store has no count for such a filter. */
async function storedCount(
  query: CountQuery,
  tenantId: string,
  filter: TaskFilter,
): Promise<number | undefined> {
  const { status, destination, ...others } = filter;
  if (Object.keys(others).length > 0) return undefined;
  const counts =
    destination === undefined
      ? await query.count(tenantId)
      : ((await query.destination(tenantId, destination))?.tasks ?? {});
  if (status !== undefined) return counts[status] ?? 0;
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}
