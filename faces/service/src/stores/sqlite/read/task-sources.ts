/**
 * Task sources: the indexes from which a filtered list can read. All are sorted by task id, so any
 * of them gives the same list in the same order; they differ in how many rows do not match.
 */
import { taskIdPrefix } from "../../../model/task.ts";
import type { TaskFilter } from "../../../model/task-query.ts";
import { ANY_LIMIT } from "../file/sql.ts";
import { type Cell, statusNumber } from "../rows/codec.ts";

export interface Condition {
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
export type Source = readonly SortedRows[];

export function is(sql: string, ...params: readonly Cell[]): Condition {
  return { sql, params };
}

const EXHAUSTED = statusNumber("EXHAUSTED");
const CANCELLED = statusNumber("CANCELLED");

/** An id may be this much ahead of the creation of its task, and clocks of nodes may differ. */
const SLACK_MS = 60_000;

/**
 * The sources for a filter, the most selective kind first. If none fits, all tasks of the tenant.
 */
export function sourcesOf(tenantId: string, filter: TaskFilter): readonly Source[] {
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
export function nextRows(source: Source, limits: readonly Condition[], rows: number): Condition {
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

export function joined(conditions: readonly Condition[]): Condition {
  return is(
    conditions.map(({ sql }) => sql).join(" AND "),
    ...conditions.flatMap(({ params }) => params),
  );
}

/**
 * Limits of task ids that follow from the times in a filter. An id starts with an instant at or
 * after the creation of its task, and a task does not end before its creation.
 */
export function idLimits({ createdFrom, createdTo, finishedTo }: TaskFilter): readonly Condition[] {
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
export function conditionsOf(filter: TaskFilter): readonly Condition[] {
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
