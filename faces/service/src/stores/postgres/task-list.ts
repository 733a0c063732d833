/**
 * Task list: reads one page of a filtered list in slices. A slice is one statement. It takes the
 * next rows of an index, at most a fixed number, and filters them, so a statement ends soon whatever
 * the filter is.
 */

import { RedriveError } from "@redrive/core";
import { type RetryTask, taskIdPrefix } from "../../model/task.ts";
import {
  MAX_PAGE_ROWS,
  type Page,
  type TaskFilter,
  type TaskIdPage,
  type TaskPage,
} from "../../model/task-query.ts";
import type { Cell, Rows, Run } from "./connection/sql.ts";
import { statusNumber, TASK_TABLES, taskColumns, taskOf } from "./schema/rows.ts";

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

// Task sources: the indexes from which a filtered list can read. All are sorted by task id, so any
// of them gives the same list in the same order; they differ in how many rows do not match.

/** A part of a statement. Each `?` is a parameter, numbered when the statement is complete. */
interface Condition {
  readonly sql: string;
  readonly params: readonly Cell[];
}

/** Rows with `task_id`, sorted by task id where all conditions hold. */
interface Source {
  readonly table: string;
  readonly conditions: readonly Condition[];
}

function is(sql: string, ...params: readonly Cell[]): Condition {
  return { sql, params };
}

/** An id may be this much ahead of the creation of its task, and clocks of nodes may differ. */
const SLACK_MS = 60_000;

/**
 * The sources for a filter, the most selective kind first. If none fits, all tasks of the tenant.
 */
function sourcesOf(tenantId: string, filter: TaskFilter): readonly Source[] {
  const { status, label, idempotencyKey: key, destination } = filter;
  const ofTenant = is("tenant_id = ?", tenantId);
  const found: (Source | false)[] = [
    key !== undefined && source("tasks", ofTenant, is("idempotency_key = ?", key)),
    label !== undefined &&
      source("task_labels", ofTenant, is("name = ? AND value = ?", label.name, label.value)),
    status === "EXHAUSTED" && source("ended_tasks", ofTenant, is("status = 3")),
    status === "CANCELLED" && source("ended_tasks", ofTenant, is("status = 4")),
    destination !== undefined && ofDestination(tenantId, destination, status === "EXHAUSTED"),
    status === "PENDING" && source("waiting_tasks", ofTenant),
    status === "IN_FLIGHT" && source("claimed_tasks", ofTenant),
  ];
  const fitting = found.filter((one) => one !== false);
  return fitting.length > 0 ? fitting : [source("tasks", ofTenant)];
}

function source(table: string, ...conditions: readonly Condition[]): Source {
  return { table: `redrive.${table}`, conditions };
}

function ofDestination(tenantId: string, destination: string, isDead: boolean): Source {
  const here = at(tenantId, destination);
  return isDead ? source("ended_tasks", here, is("status = 3")) : source("tasks", here);
}

function at(tenantId: string, destination: string): Condition {
  const id = "SELECT destination_id FROM redrive.destinations WHERE tenant_id = ? AND name = ?";
  return is(`destination_id = (${id})`, tenantId, destination);
}

/** The next rows of a source, newest first. */
function nextRows(
  { table, conditions }: Source,
  limits: readonly Condition[],
  rows: number,
): Condition {
  const all = joined([...conditions, ...limits]);
  const sql = `SELECT task_id FROM ${table} WHERE ${all.sql} ORDER BY task_id DESC LIMIT ?`;
  return is(sql, ...all.params, rows);
}

function joined(conditions: readonly Condition[]): Condition {
  return is(
    conditions.map(({ sql }) => sql).join(" AND "),
    ...conditions.flatMap(({ params }) => params),
  );
}

/** Numbers the parameters of a complete statement. */
function numbered(sql: string): string {
  let count = 0;
  return sql.replaceAll("?", () => `$${++count}`);
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

/** What a task must fulfill. */
function conditionsOf(filter: TaskFilter): readonly Condition[] {
  const { status, label, lastStatus, destination } = filter;
  const conditions: Condition[] = [];
  if (status !== undefined) conditions.push(statusIs(statusNumber(status)));
  const plain: readonly (readonly [string, Cell | undefined])[] = [
    ["t.policy_id = ?", filter.policyId],
    ["e.reason = ?", filter.reason],
    ["t.created_at >= ?", filter.createdFrom],
    ["t.created_at < ?", filter.createdTo],
    ["e.finished_at >= ?", filter.finishedFrom],
    ["e.finished_at < ?", filter.finishedTo],
    ["t.idempotency_key = ?", filter.idempotencyKey],
    ["coalesce(w.last_status, c.last_status, e.last_status) = ?", lastStatus],
  ];
  for (const [sql, value] of plain) if (value !== undefined) conditions.push(is(sql, value));
  if (filter.redriven !== undefined) {
    conditions.push(is(`t.redriven_to IS ${filter.redriven ? "NOT NULL" : "NULL"}`));
  }
  if (destination !== undefined) {
    const named = "SELECT FROM redrive.destinations d WHERE d.destination_id = t.destination_id";
    conditions.push(is(`EXISTS (${named} AND d.name = ?)`, destination));
  }
  if (label !== undefined) {
    const labeled = "SELECT FROM redrive.task_labels l WHERE l.ref = t.ref";
    const condition = `EXISTS (${labeled} AND l.name = ? AND l.value = ?)`;
    conditions.push(is(condition, label.name, label.value));
  }
  return conditions;
}

function statusIs(number: number): Condition {
  if (number > 1) return is(`e.status = ${number}`);
  return is(number === 0 ? "w.ref IS NOT NULL" : "c.ref IS NOT NULL");
}

// Page turns: limits the pages that one tenant reads at once, so that it leaves connections to the
// others. More pages wait for their turn, up to a limit.

/** Pages of one tenant that may be in progress, waiting ones included. */
const MAX_PAGES = 100;
/** Pages of one tenant that are read at once. */
const MAX_RUNNING = 3;

interface Turns {
  running: number;
  readonly waiting: (() => void)[];
}

export class PageTurns {
  readonly #turns = new Map<string, Turns>();

  /** Rejects with `TOO_MANY_REQUESTS` if the tenant has too many pages in progress. */
  async run<T>(tenantId: string, work: () => Promise<T>): Promise<T> {
    const turns = this.#turns.get(tenantId) ?? { running: 0, waiting: [] };
    this.#turns.set(tenantId, turns);
    if (turns.running + turns.waiting.length >= MAX_PAGES) throw tooManyPages();
    if (turns.running < MAX_RUNNING) turns.running++;
    else await new Promise<void>((resolve) => turns.waiting.push(resolve));
    try {
      return await work();
    } finally {
      this.#end(tenantId, turns);
    }
  }

  /** The next page takes the place, or it becomes free. */
  #end(tenantId: string, turns: Turns): void {
    const next = turns.waiting.shift();
    if (next !== undefined) {
      next();
      return;
    }
    turns.running--;
    if (turns.running === 0) this.#turns.delete(tenantId);
  }
}

function tooManyPages(): Error {
  const text = `${MAX_PAGES} lists of this tenant are in progress; wait until one of them ends`;
  return new RedriveError("TOO_MANY_REQUESTS", text);
}
