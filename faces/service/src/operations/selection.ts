/**
 * Selection: counts the tasks that match a filter, groups dead letters, and suggests values for
 * filters. The exact number of tasks comes from the counts by destination and status that the store
 * has. For other filters the tasks are listed, until all are counted or the time is over.
 */

import type { RetryTask } from "../model/task.ts";
import {
  MAX_ID_PAGE,
  type Page,
  type TaskFilter,
  type TaskPage,
  type TaskQuery,
} from "../model/task-query.ts";

interface TaskCount {
  readonly count: number;
  /** False: there may be more. */
  readonly complete: boolean;
}

interface CountOptions {
  readonly signal: AbortSignal;
  /** Asked before each page: true ends the count. */
  readonly isOver: () => boolean;
}

type CountQuery = Pick<TaskQuery, "count" | "destination" | "listIds">;

export async function countTasks(
  query: CountQuery,
  tenantId: string,
  filter: TaskFilter,
  { signal, isOver }: CountOptions,
): Promise<TaskCount> {
  const stored = await storedCount(query, tenantId, filter);
  if (stored !== undefined) return { count: stored, complete: true };
  let count = 0;
  let cursor: string | null | undefined;
  while (cursor !== null) {
    if (cursor !== undefined && isOver()) return { count, complete: false };
    const page = { limit: MAX_ID_PAGE, signal, ...(cursor !== undefined && { cursor }) };
    const found = await query.listIds(tenantId, filter, page);
    count += found.taskIds.length;
    cursor = found.cursor;
  }
  return { count, complete: true };
}

/** Undefined: the store has no count for such a filter. */
async function storedCount(
  query: CountQuery,
  tenantId: string,
  filter: TaskFilter,
): Promise<number | undefined> {
  const { status, destination, ...others } = filter;
  if (Object.keys(others).length > 0) return undefined;
  const counts =
    destination === undefined
      ? await query.count(tenantId)
      : ((await query.destination(tenantId, destination))?.tasks ?? {});
  if (status !== undefined) return counts[status] ?? 0;
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

// Dead letter groups: counts dead letters by destination and reason, so that an outage of ten
// thousand tasks is one line.

interface DeadLetterGroup {
  readonly destination: string;
  readonly reason: string | null;
  readonly count: number;
  /** Those that were redriven already, as new tasks. */
  readonly redriven: number;
  /** The earliest and the latest end in the group; epoch ms. */
  readonly firstFinishedAt: number;
  readonly lastFinishedAt: number;
}

interface DeadLetterGroups {
  /** Largest group first. */
  readonly groups: readonly DeadLetterGroup[];
  /** False: there are more dead letters than were read. */
  readonly complete: boolean;
}

type ListTasks = (filter: TaskFilter, page: Page) => Promise<TaskPage>;

const PAGE = 250;
const MAX_PAGES = 400;
/** Few enough that `MAX_PAGES` of them end within a request, also if hardly any row matches. */
const PAGE_ROWS = 1000;

export async function groupDeadLetters(
  list: ListTasks,
  filter: Omit<TaskFilter, "status">,
): Promise<DeadLetterGroups> {
  const groups = new Map<string, DeadLetterGroup>();
  let cursor: string | null | undefined;
  for (let pages = 0; cursor !== null && pages < MAX_PAGES; pages++) {
    const page: TaskPage = await list(
      { ...filter, status: "EXHAUSTED" },
      { limit: PAGE, maxRows: PAGE_ROWS, ...(cursor !== undefined && { cursor }) },
    );
    for (const task of page.tasks) add(groups, task);
    cursor = page.cursor;
  }
  const sorted = [...groups.values()].sort((one, other) => other.count - one.count);
  return { groups: sorted, complete: cursor === null };
}

function add(groups: Map<string, DeadLetterGroup>, task: RetryTask): void {
  const { destination, reason } = task;
  const finishedAt = task.finishedAt ?? task.createdAt;
  const key = `${destination}\n${reason}`;
  const group = groups.get(key);
  groups.set(key, {
    destination,
    reason,
    count: (group?.count ?? 0) + 1,
    redriven: (group?.redriven ?? 0) + (task.redrivenTo === null ? 0 : 1),
    firstFinishedAt: Math.min(group?.firstFinishedAt ?? finishedAt, finishedAt),
    lastFinishedAt: Math.max(group?.lastFinishedAt ?? finishedAt, finishedAt),
  });
}

// Suggest values: which values of a field the newest tasks have, for people who write a filter.

/** Values of tasks that a filter can select. */
export const SUGGESTED_FIELDS = [
  "destination",
  "policyId",
  "label",
  "reason",
  "lastStatus",
  "idempotencyKey",
] as const;
type SuggestedField = (typeof SUGGESTED_FIELDS)[number];

export interface Suggestion {
  readonly value: string;
  /** Tasks with this value, among those that were examined. */
  readonly count: number;
}

const SAMPLE_PAGES = 4;
const SAMPLE_ROWS = 5000;
const MAX_SUGGESTIONS = 12;

/** The most frequent values among the newest tasks that match the filter and contain the text. */
export async function suggestValues(
  list: (filter: TaskFilter, page: Page) => Promise<TaskPage>,
  field: SuggestedField,
  text: string,
  filter: TaskFilter,
): Promise<readonly Suggestion[]> {
  const counts = new Map<string, number>();
  let cursor: string | null | undefined;
  for (let pages = 0; cursor !== null && pages < SAMPLE_PAGES; pages++) {
    const page = { limit: PAGE, maxRows: SAMPLE_ROWS, ...(cursor !== undefined && { cursor }) };
    const found: TaskPage = await list(filter, page);
    for (const value of found.tasks.flatMap((task) => valuesOf(task, field))) {
      counts.set(value, (counts.get(value) ?? 0) + 1);
    }
    cursor = found.cursor;
  }
  const found = [...counts].map(([value, count]) => ({ value, count }));
  return bestOf(found, text);
}

function valuesOf(task: RetryTask, field: SuggestedField): readonly string[] {
  if (field === "label") {
    return Object.entries(task.labels).map(([name, value]) => `${name}=${value}`);
  }
  const value = task[field];
  return value === null ? [] : [String(value)];
}

/** Those that begin with the text first, then the most frequent. */
export function bestOf(found: readonly Suggestion[], text: string): readonly Suggestion[] {
  const wanted = text.toLowerCase();
  const begins = ({ value }: Suggestion) => value.toLowerCase().startsWith(wanted);
  return found
    .filter(({ value }) => value.toLowerCase().includes(wanted))
    .sort(
      (one, other) =>
        Number(begins(other)) - Number(begins(one)) ||
        other.count - one.count ||
        (one.value < other.value ? -1 : 1),
    )
    .slice(0, MAX_SUGGESTIONS);
}
