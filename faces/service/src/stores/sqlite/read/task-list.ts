/**
 * Task list: reads one page of a filtered list in slices. A slice is one statement. It takes the
 * next rows of an index, at most a fixed number, and filters them; so SQLite never examines more
 * rows than that before the next tenant has its turn.
 */

import type { RetryTask } from "../../../model/task.ts";
import {
  MAX_PAGE_ROWS,
  type Page,
  type TaskFilter,
  type TaskPage,
} from "../../../model/task-query.ts";
import { ANY_LIMIT } from "../file/sql.ts";
import type { Cell } from "../rows/codec.ts";
import { TASK_COLUMNS_NO_BODY, TASK_TABLES, taskOf } from "../rows/task-rows.ts";
import type { Read } from "./read-queue.ts";
import {
  type Condition,
  conditionsOf,
  idLimits,
  is,
  joined,
  nextRows,
  type Source,
  sourcesOf,
} from "./task-sources.ts";

/** Rows that one statement examines. */
export const SLICE_ROWS = 1000;

/** Entries of an index that are counted to choose one. Counting reads no row. */
const PROBE_ROWS = 5 * SLICE_ROWS;

/** A filtered list of a tenant's tasks, newest first. */
export async function listPage(
  read: Read,
  tenantId: string,
  filter: TaskFilter,
  page: Page,
): Promise<TaskPage> {
  const limits = idLimits(filter);
  const source = await smallest(read, sourcesOf(tenantId, filter), [
    ...limits,
    ...before(page.cursor),
  ]);
  const { limit, maxRows = MAX_PAGE_ROWS } = page;
  const tasks: RetryTask[] = [];
  let { cursor } = page;
  // If every row matches, the first slice is the page.
  let rows = limit + 1;
  for (let left = maxRows; left > 0; rows = SLICE_ROWS) {
    const wanted = { rows: Math.min(rows, left), matches: limit + 1 - tasks.length };
    const slice = sliceStatement(source, [...limits, ...before(cursor)], filter, wanted);
    const { matches, examined, last } = sliceOf(await read(slice.sql, slice.params));
    tasks.push(...matches);
    if (tasks.length > limit) break;
    if (examined < wanted.rows) return { tasks, cursor: null };
    cursor = last;
    left -= examined;
  }
  if (tasks.length <= limit) return { tasks, cursor: cursor ?? null };
  return { tasks: tasks.slice(0, limit), cursor: tasks[limit - 1]?.taskId ?? null };
}

function before(cursor: string | undefined): readonly Condition[] {
  return cursor === undefined ? [] : [is("task_id < ?", cursor)];
}

/**
 * The source with the fewest rows, as far as they are counted; among equals, the first. The choice
 * may change from page to page, because all sources give the same list.
 */
async function smallest(
  read: Read,
  sources: readonly Source[],
  limits: readonly Condition[],
): Promise<Source> {
  const [first] = sources;
  if (first === undefined) throw new Error("a list needs a source");
  if (sources.length === 1) return first;
  const parts = sources.map((source) => {
    const rows = nextRows(source, limits, PROBE_ROWS);
    return is(`(SELECT count(*) FROM (${rows.sql}))`, ...rows.params);
  });
  const text = `SELECT ${parts.map(({ sql }) => sql).join(", ")}`;
  const [counts = []] = await read(
    text,
    parts.flatMap(({ params }) => params),
  );
  const at = counts.indexOf(Math.min(...(counts as number[])));
  return sources[at] ?? first;
}

/** `rows`: how many it may examine. `matches`: how many it may return. */
interface Wanted {
  readonly rows: number;
  readonly matches: number;
}

/**
 * The next rows of the source, then those that match. The last two columns, on every row, are the
 * last id and the number of examined rows; a slice without a match is a row of nulls with both.
 */
function sliceStatement(
  source: Source,
  limits: readonly Condition[],
  filter: TaskFilter,
  wanted: Wanted,
): Condition {
  const next = nextRows(source, limits, wanted.rows);
  const matching = joined([
    is("t.ref = slice.ref AND t.task_id = slice.task_id"),
    ...conditionsOf(filter),
  ]);
  const sql = `
    WITH slice AS MATERIALIZED (${next.sql})
    SELECT matching.*, examined.last, examined.rows
    FROM (SELECT min(task_id) AS last, count(*) AS rows FROM slice) examined
    LEFT JOIN (SELECT ${TASK_COLUMNS_NO_BODY}
      FROM slice CROSS JOIN ${TASK_TABLES} WHERE ${matching.sql}
      ORDER BY slice.task_id DESC LIMIT ${ANY_LIMIT}) matching`;
  return is(sql, ...next.params, ...matching.params, wanted.matches);
}

interface Slice {
  readonly matches: readonly RetryTask[];
  readonly examined: number;
  /** The id of the last examined row. */
  readonly last: string;
}

function sliceOf(rows: readonly Cell[][]): Slice {
  const first = rows[0] ?? [];
  const examined = (first.at(-1) ?? 0) as number;
  const last = (first.at(-2) ?? "") as string;
  const matches = rows.filter(([tenantId]) => tenantId !== null).map(taskOf);
  return { matches, examined, last };
}
