/**
 * Task list: reads one page of a filtered list in slices. A slice is one statement. It takes the
 * next rows of an index, at most a fixed number, and filters them, so a statement ends soon whatever
 * the filter is.
 */
import type { RetryTask } from "../../../model/task.ts";
import {
  MAX_PAGE_ROWS,
  type Page,
  type TaskFilter,
  type TaskIdPage,
  type TaskPage,
} from "../../../model/task-query.ts";
import type { Cell } from "../connection/cells.ts";
import type { Rows, Run } from "../connection/sql.ts";
import { TASK_TABLES, taskColumns, taskOf } from "../rows/task-rows.ts";
import {
  type Condition,
  conditionsOf,
  idLimits,
  is,
  joined,
  nextRows,
  numbered,
  type Source,
  sourcesOf,
} from "./task-sources.ts";

/** Rows that one statement examines. */
const SLICE_ROWS = 2000;

/** Entries of an index that are counted to choose one. */
const PROBE_ROWS = 2 * SLICE_ROWS;

/** What a list returns of each task. The first column is never null; the task id follows the last. */
interface Projection<Item> {
  readonly columns: string;
  readonly itemOf: (cells: readonly Cell[]) => Item;
  readonly idOf: (item: Item) => string;
}

const TASKS: Projection<RetryTask> = {
  columns: taskColumns("NULL::bytea AS body"),
  itemOf: taskOf,
  idOf: ({ taskId }) => taskId,
};

const IDS: Projection<string> = {
  columns: "t.ref",
  itemOf: ([, taskId]) => String(taskId),
  idOf: (taskId) => taskId,
};

/** A filtered list of a tenant's tasks, newest first. */
export async function listPage(
  run: Run,
  tenantId: string,
  filter: TaskFilter,
  page: Page,
): Promise<TaskPage> {
  const { items, cursor } = await readPage(run, tenantId, filter, page, TASKS);
  return { tasks: items, cursor };
}

/** The same list, only the ids. */
export async function listIdPage(
  run: Run,
  tenantId: string,
  filter: TaskFilter,
  page: Page,
): Promise<TaskIdPage> {
  const { items, cursor } = await readPage(run, tenantId, filter, page, IDS);
  return { taskIds: items, cursor };
}

async function readPage<Item>(
  run: Run,
  tenantId: string,
  filter: TaskFilter,
  page: Page,
  projection: Projection<Item>,
): Promise<{ readonly items: readonly Item[]; readonly cursor: string | null }> {
  const limits = idLimits(filter);
  const probed = [...limits, ...before(page.cursor)];
  const source = await smallest(run, sourcesOf(tenantId, filter), probed);
  const { limit, maxRows = MAX_PAGE_ROWS } = page;
  const items: Item[] = [];
  let { cursor } = page;
  // If every row matches, the first slice is the page.
  let rows = Math.min(limit + 1, SLICE_ROWS);
  for (let left = maxRows; left > 0; rows = SLICE_ROWS) {
    const wanted = { rows: Math.min(rows, left), matches: limit + 1 - items.length };
    const conditions = [...limits, ...before(cursor)];
    const slice = sliceStatement(tenantId, source, conditions, filter, wanted, projection.columns);
    const { matches, examined, last } = sliceOf(await run(numbered(slice.sql), slice.params));
    items.push(...matches.map(projection.itemOf));
    if (items.length > limit) break;
    if (examined < wanted.rows) return { items, cursor: null };
    cursor = last;
    left -= examined;
  }
  if (items.length <= limit) return { items, cursor: cursor ?? null };
  const kept = items.slice(0, limit);
  return { items: kept, cursor: projection.idOf(kept.at(-1) as Item) };
}

function before(cursor: string | undefined): readonly Condition[] {
  return cursor === undefined ? [] : [is("task_id < ?", cursor)];
}

/**
 * The source with the fewest rows, as far as they are counted; among equals, the first. The choice
 * may change from page to page, because all sources give the same list.
 */
async function smallest(
  run: Run,
  sources: readonly Source[],
  limits: readonly Condition[],
): Promise<Source> {
  const [first] = sources;
  if (first === undefined) throw new Error("a list needs a source");
  if (sources.length === 1) return first;
  const parts = sources.map((source) => {
    const rows = nextRows(source, limits, PROBE_ROWS);
    return is(`(SELECT count(*) FROM (${rows.sql}) probed)`, ...rows.params);
  });
  const text = numbered(`SELECT ${parts.map(({ sql }) => sql).join(", ")}`);
  const params = parts.flatMap((part) => part.params);
  const [counts = []] = await run(text, params);
  const at = counts.indexOf(Math.min(...(counts as readonly number[])));
  return sources[at] ?? first;
}

/** `rows`: how many it may examine. `matches`: how many it may return. */
interface Wanted {
  readonly rows: number;
  readonly matches: number;
}

/**
 * The next rows of the source, then those that match. The first two columns, on every row, are the
 * last id and the number of examined rows; a slice without a match is a row of nulls with both.
 */
function sliceStatement(
  tenantId: string,
  source: Source,
  limits: readonly Condition[],
  filter: TaskFilter,
  wanted: Wanted,
  columns: string,
): Condition {
  const next = nextRows(source, limits, wanted.rows);
  const found = is("t.tenant_id = ? AND t.task_id = slice.task_id", tenantId);
  const matching = joined([found, ...conditionsOf(filter)]);
  const sql = `
    WITH slice AS MATERIALIZED (${next.sql})
    SELECT examined.last, examined.rows, matching.*
    FROM (SELECT min(task_id) AS last, count(*) AS rows FROM slice) examined
    LEFT JOIN (SELECT ${columns}, t.task_id
      FROM slice CROSS JOIN (${TASK_TABLES}) WHERE ${matching.sql}
      ORDER BY slice.task_id DESC LIMIT ?) matching ON true
    ORDER BY matching.task_id DESC`;
  return is(sql, ...next.params, ...matching.params, wanted.matches);
}

interface Slice {
  readonly matches: readonly (readonly Cell[])[];
  readonly examined: number;
  /** The id of the last examined row. */
  readonly last: string;
}

function sliceOf(rows: Rows): Slice {
  const [last, examined] = rows[0] ?? [];
  const matches = rows.map((cells) => cells.slice(2)).filter(isTask);
  return { matches, examined: Number(examined), last: String(last ?? "") };
}

function isTask([status]: readonly Cell[]): boolean {
  return status !== null;
}
