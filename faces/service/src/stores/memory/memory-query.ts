/**
 * Memory query: the queries of the memory store, as plain filters over all rows. It is for tests
 * and small trials, where clarity matters more than speed.
 */

import type { RetryTask } from "../../model/task.ts";
import type { Page, TaskFilter, TaskPage, TaskQuery } from "../../model/task-query.ts";
import type { Tables } from "./apply.ts";
import { destinationQuery } from "./memory-destinations.ts";
import { type Row, taskOf } from "./rows.ts";

export function memoryQuery(tables: Tables): TaskQuery {
  const { rows } = tables;
  return {
    async get(tenantId, taskId) {
      const row = rows.find(tenantId, taskId);
      return row ? taskOf(row) : null;
    },
    async list(tenantId, filter, page) {
      const { cursor } = page;
      const found = [...rows.all()]
        .filter((row) => row.task.tenantId === tenantId && matches(filter, taskOf(row)))
        .filter((row) => cursor === undefined || row.task.taskId < cursor)
        .sort((a, b) => (a.task.taskId < b.task.taskId ? 1 : -1));
      return paged(found, page, false);
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
      return paged(found, page, true);
    },
  };
}

function paged(found: readonly Row[], { limit }: Page, withBody: boolean): TaskPage {
  const tasks = found
    .slice(0, limit)
    .map((row) => (withBody ? taskOf(row) : { ...taskOf(row), body: null }));
  const last = tasks.at(-1);
  return { tasks, cursor: last && found.length > limit ? last.taskId : null };
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
