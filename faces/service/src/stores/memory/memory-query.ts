/**
 * Memory query: the queries of the memory store, as plain filters over all rows. It is for tests
 * and small trials, where clarity matters more than speed.
 */

import { ReadAbortedError } from "../../model/store-errors.ts";
import type { RetryTask } from "../../model/task.ts";
import {
  MAX_PAGE_ROWS,
  type Page,
  type TaskFilter,
  type TaskPage,
  type TaskQuery,
} from "../../model/task-query.ts";
import { destinationQuery } from "./memory-destinations.ts";
import { type Row, type Tables, taskOf } from "./rows.ts";

export function memoryQuery(tables: Tables): TaskQuery {
  const { rows } = tables;
  return {
    async get(tenantId, taskId) {
      const row = rows.find(tenantId, taskId);
      return row ? taskOf(row) : null;
    },
    list: async (tenantId, filter, page) => list(rows, tenantId, filter, page),
    async listIds(tenantId, filter, page) {
      const { tasks, cursor } = list(rows, tenantId, filter, page);
      return { taskIds: tasks.map(({ taskId }) => taskId), cursor };
    },
    ...destinationQuery(tables),
    async attempts(tenantId, taskId, { limit, cursor }) {
      const all = rows.find(tenantId, taskId)?.attempts ?? [];
      const rest = all.filter((one) => one.attemptNumber > Number(cursor ?? 0));
      const attempts = rest.slice(0, limit);
      const last = attempts.at(-1);
      return { attempts, cursor: last && rest.length > limit ? String(last.attemptNumber) : null };
    },
    async export(tenantId, page) {
      const { cursor = "" } = page;
      const found = [...rows.all()]
        .filter((row) => row.task.tenantId === tenantId && row.task.taskId > cursor)
        .sort((a, b) => (a.task.taskId < b.task.taskId ? -1 : 1));
      const tasks = found.slice(0, page.limit).map(taskOf);
      return { tasks, cursor: found.length > page.limit ? (tasks.at(-1)?.taskId ?? null) : null };
    },
    async oldestOpen(tenantId) {
      const open = [...rows.all()].filter(
        ({ task, state }) => task.tenantId === tenantId && state.finishedAt === null,
      );
      const oldest = open.sort((a, b) => (a.task.taskId < b.task.taskId ? -1 : 1)).at(0);
      return oldest?.task.createdAt ?? null;
    },
  };
}

function list(rows: Tables["rows"], tenantId: string, filter: TaskFilter, page: Page): TaskPage {
  const { cursor, signal } = page;
  if (signal?.aborted) throw new ReadAbortedError(signal);
  const remaining = [...rows.all()]
    .filter(({ task }) => task.tenantId === tenantId)
    .filter(({ task }) => cursor === undefined || task.taskId < cursor)
    .sort((a, b) => (a.task.taskId < b.task.taskId ? 1 : -1));
  return listed(remaining, filter, page);
}

/** Examines at most `maxRows`, like a store that reads them from a disk. */
function listed(remaining: readonly Row[], filter: TaskFilter, page: Page): TaskPage {
  const { limit, maxRows = MAX_PAGE_ROWS } = page;
  const examined = remaining.slice(0, maxRows);
  const found = examined.filter((row) => matches(filter, taskOf(row)));
  const tasks = found.slice(0, limit).map((row) => ({ ...taskOf(row), body: null }));
  if (found.length > limit) return { tasks, cursor: tasks.at(-1)?.taskId ?? null };
  const isLast = remaining.length <= maxRows;
  return { tasks, cursor: isLast ? null : (examined.at(-1)?.task.taskId ?? null) };
}

function matches(filter: TaskFilter, task: RetryTask): boolean {
  const { status, policyId, destination, idempotencyKey, reason, lastStatus, label } = filter;
  const equals: readonly (readonly [unknown, unknown])[] = [
    [status, task.status],
    [policyId, task.policyId],
    [destination, task.destination],
    [idempotencyKey, task.idempotencyKey],
    [reason, task.reason],
    [lastStatus, task.lastStatus],
    [label?.value, label && task.labels[label.name]],
    [filter.redriven, task.redrivenTo !== null],
  ];
  return (
    equals.every(([wanted, found]) => wanted === undefined || wanted === found) &&
    isWithin(task.createdAt, filter.createdFrom, filter.createdTo) &&
    isWithin(task.finishedAt, filter.finishedFrom, filter.finishedTo)
  );
}

function isWithin(at: number | null, from: number | undefined, to: number | undefined): boolean {
  if (from === undefined && to === undefined) return true;
  return at !== null && at >= (from ?? 0) && at < (to ?? Number.POSITIVE_INFINITY);
}
