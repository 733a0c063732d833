/**
 * Full page: follows the cursors of short pages. The service examines a limited number of rows per
 * request, so a page may be short or empty before the end of the list.
 */
import type { TaskList } from "../schemas/task-schemas.ts";

export interface PagePosition {
  /** 1 to 250. Default: 50. */
  readonly limit?: number;
  readonly cursor?: string;
}

/** Asks for pages until there are `limit` tasks, or the list ends. */
export async function fullPage<Query extends PagePosition>(
  list: (query: Query) => Promise<TaskList>,
  query: Query,
): Promise<TaskList> {
  const { limit = 50 } = query;
  let { tasks, cursor } = await list(query);
  while (cursor !== null && tasks.length < limit) {
    const next = await list({ ...query, limit: limit - tasks.length, cursor });
    tasks = [...tasks, ...next.tasks];
    cursor = next.cursor;
  }
  return { tasks, cursor };
}
