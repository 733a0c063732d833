/**
 * Task sources: the indexes from which a filtered list can read. All are sorted by task id, so any
 * of them gives the same list in the same order; they differ in how many rows do not match.
 */
import { taskIdPrefix } from "../../../model/task.ts";
import type { TaskFilter } from "../../../model/task-query.ts";
import type { Cell } from "../connection/cells.ts";
import { statusNumber } from "../rows/codes.ts";

/** A part of a statement. Each `?` is a parameter, numbered when the statement is complete. */
export interface Condition {
  readonly sql: string;
  readonly params: readonly Cell[];
}

/** Rows with `task_id` and `ref`, sorted by task id where all conditions hold. */
export interface Source {
  readonly table: string;
  readonly conditions: readonly Condition[];
}

export function is(sql: string, ...params: readonly Cell[]): Condition {
  return { sql, params };
}

/** An id may be this much ahead of the creation of its task, and clocks of nodes may differ. */
const SLACK_MS = 60_000;

/**
 * The sources for a filter, the most selective kind first. If none fits, all tasks of the tenant.
 */
export function sourcesOf(tenantId: string, filter: TaskFilter): readonly Source[] {
  const { status, label, idempotencyKey: key, destination } = filter;
  const ofTenant = is("tenant_id = ?", tenantId);
  const isOpen = status === "PENDING" || status === "IN_FLIGHT";
  const found: (Source | false)[] = [
    key !== undefined && tasks(ofTenant, is("idempotency_key = ?", key)),
    label !== undefined && labels(ofTenant, is("name = ? AND value = ?", label.name, label.value)),
    status === "EXHAUSTED" && tasks(ofTenant, is("status = 3")),
    status === "CANCELLED" && tasks(ofTenant, is("status = 4")),
    destination !== undefined &&
      tasks(at(tenantId, destination), ...(status === "EXHAUSTED" ? [is("status = 3")] : [])),
    isOpen && tasks(ofTenant, is("status = 0")),
  ];
  const fitting = found.filter((source) => source !== false);
  return fitting.length > 0 ? fitting : [tasks(ofTenant)];
}

function tasks(...conditions: readonly Condition[]): Source {
  return { table: "redrive.tasks", conditions };
}

function labels(...conditions: readonly Condition[]): Source {
  return { table: "redrive.task_labels", conditions };
}

function at(tenantId: string, destination: string): Condition {
  const id = "SELECT destination_id FROM redrive.destinations WHERE tenant_id = ? AND name = ?";
  return is(`destination_id = (${id})`, tenantId, destination);
}

/** The next rows of a source, newest first. */
export function nextRows(
  { table, conditions }: Source,
  limits: readonly Condition[],
  rows: number,
): Condition {
  const all = joined([...conditions, ...limits]);
  const sql = `SELECT ref, task_id FROM ${table} WHERE ${all.sql} ORDER BY task_id DESC LIMIT ?`;
  return is(sql, ...all.params, rows);
}

export function joined(conditions: readonly Condition[]): Condition {
  return is(
    conditions.map(({ sql }) => sql).join(" AND "),
    ...conditions.flatMap(({ params }) => params),
  );
}

/** Numbers the parameters of a complete statement. */
export function numbered(sql: string): string {
  let count = 0;
  return sql.replaceAll("?", () => `$${++count}`);
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

/** What a task must fulfill. */
export function conditionsOf(filter: TaskFilter): readonly Condition[] {
  const { status, label, lastStatus, destination } = filter;
  const conditions: Condition[] = [];
  if (status !== undefined) conditions.push(statusIs(statusNumber(status)));
  const plain: readonly (readonly [string, Cell | undefined])[] = [
    ["t.policy_id = ?", filter.policyId],
    ["t.reason = ?", filter.reason],
    ["t.created_at >= ?", filter.createdFrom],
    ["t.created_at < ?", filter.createdTo],
    ["t.finished_at >= ?", filter.finishedFrom],
    ["t.finished_at < ?", filter.finishedTo],
    ["t.idempotency_key = ?", filter.idempotencyKey],
    ["CASE WHEN t.status = 0 THEN o.last_status ELSE t.last_status END = ?", lastStatus],
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

/** The status of a task that has not ended is in `open_tasks`. */
function statusIs(number: number): Condition {
  return number > 1 ? is(`t.status = ${number}`) : is(`t.status = 0 AND o.status = ${number}`);
}
