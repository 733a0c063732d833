/**
 * Task list: reads one page of a filtered list. It takes the next ids of an index, reads their tasks
 * and filters them, until the page is full or the row budget is used up.
 */

import { ReadAbortedError } from "../../../model/store-errors.ts";
import { type RetryTask, taskIdPrefix } from "../../../model/task.ts";
import {
  MAX_PAGE_ROWS,
  type Page,
  type TaskFilter,
  type TaskPage,
} from "../../../model/task-query.ts";
import type { Link } from "../connection/link.ts";
import { ALL_PARTITIONS, joined, type Keys } from "../rows/keys.ts";
import { type MemberRange, MergedMembers } from "./merged-members.ts";
import type { ReadTasks } from "./task-reader.ts";

/** Tasks that are read at once. */
const SLICE_ROWS = 500;

/** An id may be this much ahead of the creation of its task, and clocks of nodes may differ. */
const SLACK_MS = 60_000;

export interface ListParts {
  readonly link: Link;
  readonly keys: Keys;
  readonly readTasks: ReadTasks;
}

/** A filtered list of a tenant's tasks, newest first. */
export async function listPage(
  { link, keys, readTasks }: ListParts,
  tenantId: string,
  filter: TaskFilter,
  page: Page,
): Promise<TaskPage> {
  const { limit, maxRows = MAX_PAGE_ROWS, signal } = page;
  const range = { ...rangeOf(keys, tenantId, filter), after: page.cursor };
  const members = new MergedMembers(link, range);
  const tasks: RetryTask[] = [];
  let last: string | undefined;
  // If every task matches, the first slice is the page.
  let rows = Math.min(limit + 1, SLICE_ROWS);
  for (let left = maxRows; left > 0; rows = SLICE_ROWS) {
    if (signal?.aborted) throw new ReadAbortedError(signal);
    const wanted = Math.min(rows, left);
    const ids = await members.next(wanted);
    const found = await readTasks({ tenantId, taskIds: ids, withBody: false, filter });
    tasks.push(...found.filter((task) => matches(filter, task)));
    if (tasks.length > limit) {
      return { tasks: tasks.slice(0, limit), cursor: tasks[limit - 1]?.taskId ?? null };
    }
    if (ids.length < wanted) return { tasks, cursor: null };
    last = ids.at(-1);
    left -= ids.length;
  }
  return { tasks, cursor: last ?? null };
}

/** The smallest index that has all matching tasks. */
function rangeOf(keys: Keys, tenantId: string, filter: TaskFilter): MemberRange {
  const of = (name: string) => ALL_PARTITIONS.map((partition) => `${keys.base(partition)}:${name}`);
  const { status, idempotencyKey } = filter;
  const range = { isDescending: true, ...idLimits(filter) };
  if (idempotencyKey !== undefined) {
    return { ...range, keys: of("kx"), prefix: joined(tenantId, idempotencyKey, "") };
  }
  if (status === "EXHAUSTED") return { ...range, keys: of(`x:${tenantId}`) };
  const isOpen = status === "PENDING" || status === "IN_FLIGHT";
  return { ...range, keys: of(`${isOpen ? "o" : "l"}:${tenantId}`) };
}

/**
 * Limits of task ids that follow from the times in a filter. An id starts with an instant at or
 * after the creation of its task, and a task does not end before its creation.
 */
function idLimits({ createdFrom, createdTo, finishedTo }: TaskFilter) {
  const before = Math.min(
    createdTo ?? Number.POSITIVE_INFINITY,
    finishedTo ?? Number.POSITIVE_INFINITY,
  );
  return {
    from: createdFrom === undefined ? undefined : taskIdPrefix(createdFrom),
    to: before === Number.POSITIVE_INFINITY ? undefined : taskIdPrefix(before + SLACK_MS),
  };
}

function matches(filter: TaskFilter, task: RetryTask): boolean {
  const { label, createdFrom, createdTo, finishedFrom, finishedTo, redriven, ...equal } = filter;
  const fields = Object.entries(equal) as readonly [keyof typeof equal, unknown][];
  return (
    fields.every(([field, value]) => value === undefined || task[field] === value) &&
    (label === undefined || task.labels[label.name] === label.value) &&
    (redriven === undefined || redriven === (task.redrivenTo !== null)) &&
    isWithin(task.createdAt, createdFrom, createdTo) &&
    isWithin(task.finishedAt, finishedFrom, finishedTo)
  );
}

function isWithin(at: number | null, from: number | undefined, to: number | undefined): boolean {
  if (from === undefined && to === undefined) return true;
  return at !== null && at >= (from ?? 0) && at < (to ?? Number.POSITIVE_INFINITY);
}
