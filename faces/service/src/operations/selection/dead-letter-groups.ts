/**
 * Dead letter groups: counts dead letters by destination and reason, so that an outage of ten
 * thousand tasks is one line.
 */

import type { RetryTask } from "../../model/task.ts";
import type { Page, TaskFilter, TaskPage } from "../../model/task-query.ts";

export interface DeadLetterGroup {
  readonly destination: string;
  readonly reason: string | null;
  readonly count: number;
  /** Those that were redriven already, as new tasks. */
  readonly redriven: number;
  /** The earliest and the latest end in the group; epoch ms. */
  readonly firstFinishedAt: number;
  readonly lastFinishedAt: number;
}

export interface DeadLetterGroups {
  /** Largest group first. */
  readonly groups: readonly DeadLetterGroup[];
  /** False: there are more dead letters than were read. */
  readonly complete: boolean;
}

export type ListTasks = (filter: TaskFilter, page: Page) => Promise<TaskPage>;

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
