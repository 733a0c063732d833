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

/** Rows with `task_id`, sorted by task id where all conditions hold. */
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
export function nextRows(
  { table, conditions }: Source,
  limits: readonly Condition[],
  rows: number,
): Condition {
  const all = joined([...conditions, ...limits]);
  const sql = `SELECT task_id FROM ${table} WHERE ${all.sql} ORDER BY task_id DESC LIMIT ?`;
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
