/**
 * Rows: the tasks that a list shows, and how events and new pages change them. Rows never move and
 * never disappear while somebody reads them: new tasks are counted until the user asks for them.
 */
import { startsToMatch, statusAfter, type TaskFilters } from "../filters/task-filters.ts";
import type { EventView, TaskView } from "../service/client.ts";

export interface Rows {
  readonly tasks: readonly TaskView[];
  /** Tasks that match and are not shown yet. */
  readonly fresh: ReadonlySet<string>;
  /** How many events have been applied to each task. Tells old responses from new ones. */
  readonly changes: ReadonlyMap<string, number>;
}

/** More are not counted one by one: the button then says "1,000+". */
export const MAX_FRESH = 1000;

export function rowsOf(tasks: readonly TaskView[]): Rows {
  return { tasks, fresh: new Set(), changes: new Map() };
}

/** Applies an event to the row of its task, or counts the task as new. */
export function applyEvent(
  rows: Rows,
  event: EventView,
  filters: TaskFilters,
  isFirstPage: boolean,
): Rows {
  const { taskId } = event;
  if (taskId === undefined) return rows;
  const index = rows.tasks.findIndex((task) => task.taskId === taskId);
  if (index < 0) {
    const isFresh = isFirstPage && startsToMatch(event, filters);
    return isFresh ? { ...rows, fresh: withFresh(rows.fresh, taskId) } : rows;
  }
  const tasks = rows.tasks.with(index, changedTask(rows.tasks[index] as TaskView, event));
  const changes = new Map(rows.changes).set(taskId, (rows.changes.get(taskId) ?? 0) + 1);
  return { ...rows, tasks, changes };
}

/**
 * Replaces the shown tasks by those of a response, in place. `before` is the state when the request
 * was sent: a row that an event has changed since then is newer than the response.
 */
export function mergePage(rows: Rows, page: readonly TaskView[], before: Rows): Rows {
  const found = new Map(page.map((task) => [task.taskId, task]));
  const tasks = rows.tasks.map((task) => {
    const isNewer = rows.changes.get(task.taskId) !== before.changes.get(task.taskId);
    return isNewer ? task : (found.get(task.taskId) ?? task);
  });
  const shown = new Set(tasks.map(({ taskId }) => taskId));
  // Tasks that move up from the next page are older than a shown one, so they are not new.
  const oldestAt = Math.min(...tasks.map(({ createdAt }) => createdAt));
  let { fresh } = rows;
  for (const { taskId, createdAt } of page) {
    if (!shown.has(taskId) && (tasks.length === 0 || createdAt >= oldestAt)) {
      fresh = withFresh(fresh, taskId);
    }
  }
  return { ...rows, tasks, fresh };
}

function withFresh(fresh: ReadonlySet<string>, taskId: string): ReadonlySet<string> {
  return fresh.size >= MAX_FRESH || fresh.has(taskId) ? fresh : new Set([...fresh, taskId]);
}

const ENDED = new Set(["SUCCEEDED", "EXHAUSTED", "CANCELLED"]);

function changedTask(task: TaskView, event: EventView): TaskView {
  const { attemptNumber = task.attemptNumber, attempt, reason, nextAttemptAt, at } = event;
  const status = (statusAfter(event) ?? task.status) as TaskView["status"];
  const isEnded = ENDED.has(status);
  return {
    ...task,
    status,
    attemptNumber: Math.max(attemptNumber, task.attemptNumber),
    nextAttemptAt: isEnded ? null : (nextAttemptAt ?? task.nextAttemptAt),
    lastStatus: attempt === undefined ? task.lastStatus : attempt.responseStatus,
    reason: isEnded ? (reason ?? task.reason) : task.reason,
    finishedAt: isEnded ? at : task.finishedAt,
  };
}
