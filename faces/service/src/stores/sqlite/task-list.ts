/**
 * Task list: reads one page of a filtered list in slices. A slice is one statement. It takes the
 * next rows of an index, at most a fixed number, and filters them; so SQLite never examines more
 * rows than that before the next tenant has its turn.
 */
import { type RetryTask, taskIdPrefix } from "../../model/task.ts";
import {
  MAX_PAGE_ROWS,
  type Page,
  type TaskFilter,
  type TaskIdPage,
  type TaskPage,
} from "../../model/task-query.ts";
import { ANY_LIMIT } from "./file/sql.ts";
import type { Read } from "./read-queue.ts";
import { type Cell, statusNumber, TASK_COLUMNS_NO_BODY, TASK_TABLES, taskOf } from "./rows.ts";

/** Rows that one statement examines. */
export const SLICE_ROWS = 1000;

/** Entries of an index that are counted to choose one. Counting reads no row. */
const PROBE_ROWS = 5 * SLICE_ROWS;

/** What a list returns of each task. The first column is never null. */
interface Projection<Item> {
  readonly columns: string;
  readonly itemOf: (cells: Cell[]) => Item;
  readonly idOf: (item: Item) => string;
}

const TASKS: Projection<RetryTask> = {
  columns: TASK_COLUMNS_NO_BODY,
  itemOf: taskOf,
  idOf: ({ taskId }) => taskId,
};

const IDS: Projection<string> = {
  columns: "t.task_id",
  itemOf: ([taskId]) => taskId as string,
  idOf: (taskId) => taskId,
};

/** A filtered list of a tenant's tasks, newest first. */
export async function listPage(
  read: Read,
  tenantId: string,
  filter: TaskFilter,
  page: Page,
): Promise<TaskPage> {
  const { items, cursor } = await readPage(read, tenantId, filter, page, TASKS);
  return { tasks: items, cursor };
}

/** The same list, only the ids. */
export async function listIdPage(
  read: Read,
  tenantId: string,
  filter: TaskFilter,
  page: Page,
): Promise<TaskIdPage> {
  const { items, cursor } = await readPage(read, tenantId, filter, page, IDS);
  return { taskIds: items, cursor };
}

async function readPage<Item>(
  read: Read,
  tenantId: string,
  filter: TaskFilter,
  page: Page,
  projection: Projection<Item>,
): Promise<{ readonly items: readonly Item[]; readonly cursor: string | null }> {
  const limits = idLimits(filter);
  const source = await smallest(read, sourcesOf(tenantId, filter), [
    ...limits,
    ...before(page.cursor),
  ]);
  const { limit, maxRows = MAX_PAGE_ROWS } = page;
  const items: Item[] = [];
  let { cursor } = page;
  // If every row matches, the first slice is the page.
  let rows = Math.min(limit + 1, SLICE_ROWS);
  for (let left = maxRows; left > 0; rows = SLICE_ROWS) {
    const wanted = { rows: Math.min(rows, left), matches: limit + 1 - items.length };
    const conditions = [...limits, ...before(cursor)];
    const slice = sliceStatement(source, conditions, filter, wanted, projection.columns);
    const { matches, examined, last } = sliceOf(await read(slice.sql, slice.params));
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
  columns: string,
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
    LEFT JOIN (SELECT ${columns}
      FROM slice CROSS JOIN ${TASK_TABLES} WHERE ${matching.sql}
      ORDER BY slice.task_id DESC LIMIT ${ANY_LIMIT}) matching`;
  return is(sql, ...next.params, ...matching.params, wanted.matches);
}

interface Slice {
  readonly matches: readonly Cell[][];
  readonly examined: number;
  /** The id of the last examined row. */
  readonly last: string;
}

function sliceOf(rows: readonly Cell[][]): Slice {
  const first = rows[0] ?? [];
  const examined = (first.at(-1) ?? 0) as number;
  const last = (first.at(-2) ?? "") as string;
  const matches = rows.filter(([column]) => column !== null);
  return { matches, examined, last };
}

// Task sources: the indexes from which a filtered list can read. All are sorted by task id, so any
// of them gives the same list in the same order; they differ in how many rows do not match.

interface Condition {
  readonly sql: string;
  readonly params: readonly Cell[];
}

/** Rows with `task_id` and `ref`, sorted by task id where all conditions hold. */
interface SortedRows {
  /** A table, and the index to use. */
  readonly table: string;
  readonly conditions: readonly Condition[];
}

/** The union of its parts; no row is in two of them. */
type Source = readonly SortedRows[];

function is(sql: string, ...params: readonly Cell[]): Condition {
  return { sql, params };
}

const EXHAUSTED = statusNumber("EXHAUSTED");
const CANCELLED = statusNumber("CANCELLED");

/** An id may be this much ahead of the creation of its task, and clocks of nodes may differ. */
const SLACK_MS = 60_000;

/**
 * The sources for a filter, the most selective kind first. If none fits, all tasks of the tenant.
 */
function sourcesOf(tenantId: string, filter: TaskFilter): readonly Source[] {
  const { status, label, idempotencyKey: key, destination } = filter;
  const ofTenant = is("tenant_id = ?", tenantId);
  const found: (Source | false)[] = [
    key !== undefined && ofKey(tenantId, key),
    ...(status === "EXHAUSTED" ? deadSources(tenantId, filter) : []),
    status === "CANCELLED" && index("tasks_canceled", is(`status = ${CANCELLED}`), ofTenant),
    label !== undefined && ofTerm(tenantId, label.name, label.value),
    destination !== undefined &&
      status !== "EXHAUSTED" &&
      index("tasks_of_destination", at(tenantId, destination)),
    (status === "PENDING" || status === "IN_FLIGHT") &&
      index("tasks_open", is("finished_at IS NULL"), ofTenant),
  ];
  const fitting = found.filter((source) => source !== false);
  return fitting.length > 0 ? fitting : [[{ table: "tasks", conditions: [ofTenant] }]];
}

function deadSources(tenantId: string, { destination, reason }: TaskFilter): readonly Source[] {
  const dead = is(`status = ${EXHAUSTED}`);
  const ofTenant = is("tenant_id = ?", tenantId);
  const sources = [index("tasks_dead", dead, ofTenant)];
  if (reason !== undefined) {
    sources.unshift(index("tasks_dead_reason", dead, ofTenant, is("reason = ?", reason)));
  }
  if (destination !== undefined) {
    sources.unshift(index("tasks_dead_of_destination", dead, at(tenantId, destination)));
  }
  return sources;
}

function index(name: string, ...conditions: readonly Condition[]): Source {
  return [{ table: `tasks INDEXED BY ${name}`, conditions }];
}

function at(tenantId: string, destination: string): Condition {
  const id = "SELECT destination_id FROM destinations WHERE tenant_id = ? AND name = ?";
  return is(`destination_id = (${id})`, tenantId, destination);
}

function ofTerm(tenantId: string, name: string, value: string): Source {
  const conditions = [is("tenant_id = ? AND name = ? AND value = ?", tenantId, name, value)];
  return [{ table: "task_terms", conditions }];
}

/** The current task of the key, and its other tasks. */
function ofKey(tenantId: string, key: string): Source {
  const current =
    "SELECT task_id FROM idempotency_keys WHERE tenant_id = ? AND idempotency_key = ?";
  const conditions = [is(`tenant_id = ? AND task_id = (${current})`, tenantId, tenantId, key)];
  return [{ table: "tasks", conditions }, ...ofTerm(tenantId, "", key)];
}

/** The next rows of a source, newest first, at most the number in the last parameter. */
function nextRows(source: Source, limits: readonly Condition[], rows: number): Condition {
  const parts = source.map(({ table, conditions }) => {
    const all = joined([...conditions, ...limits]);
    const sql = `SELECT ref, task_id FROM ${table} WHERE ${all.sql}
      ORDER BY task_id DESC LIMIT ${ANY_LIMIT}`;
    return is(sql, ...all.params, rows);
  });
  const [only] = parts;
  if (only !== undefined && parts.length === 1) return only;
  const union = parts.map(({ sql }) => `SELECT * FROM (${sql})`).join(" UNION ALL ");
  const params = parts.flatMap((part) => part.params);
  return is(`${union} ORDER BY task_id DESC LIMIT ${ANY_LIMIT}`, ...params, rows);
}

function joined(conditions: readonly Condition[]): Condition {
  return is(
    conditions.map(({ sql }) => sql).join(" AND "),
    ...conditions.flatMap(({ params }) => params),
  );
}

/**
 * Limits of task ids that follow from the times in a filter. An id starts with an instant at or
 * after the creation of its task, and a task does not end before its creation.
 */
function idLimits({ createdFrom, createdTo, finishedTo }: TaskFilter): readonly Condition[] {
  const limits: Condition[] = [];
  if (createdFrom !== undefined) limits.push(is("task_id >= ?", taskIdPrefix(createdFrom)));
  const before = Math.min(
    createdTo ?? Number.POSITIVE_INFINITY,
    finishedTo ?? Number.POSITIVE_INFINITY,
  );
  if (before < Number.POSITIVE_INFINITY) {
    limits.push(is("task_id < ?", taskIdPrefix(before + SLACK_MS)));
  }
  return limits;
}

/**
 * What a task must fulfill. The status is inserted as a number, not as a parameter: SQLite uses
 * partial indexes only then.
 */
function conditionsOf(filter: TaskFilter): readonly Condition[] {
  const { status, label } = filter;
  const conditions: Condition[] = [];
  if (status !== undefined) conditions.push(is(`t.status = ${statusNumber(status)}`));
  const plain: readonly (readonly [string, Cell | undefined])[] = [
    ["p.policy_id = ?", filter.policyId],
    ["d.name = ?", filter.destination],
    ["t.reason = ?", filter.reason],
    ["t.last_status = ?", filter.lastStatus],
    ["p.created_at >= ?", filter.createdFrom],
    ["p.created_at < ?", filter.createdTo],
    ["t.finished_at >= ?", filter.finishedFrom],
    ["t.finished_at < ?", filter.finishedTo],
    ["p.idempotency_key = ?", filter.idempotencyKey],
  ];
  for (const [sql, value] of plain) if (value !== undefined) conditions.push(is(sql, value));
  if (filter.redriven !== undefined) {
    conditions.push(is(`t.redriven_to IS ${filter.redriven ? "NOT NULL" : "NULL"}`));
  }
  if (label !== undefined) {
    const found = "EXISTS (SELECT 1 FROM json_each(p.labels) WHERE key = ? AND value = ?)";
    conditions.push(is(found, label.name, label.value));
  }
  return conditions;
}
