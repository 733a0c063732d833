/** Sharded query: the read side of several shards. Lists keep their order, counts are added up. */
import type { DestinationRow } from "../../model/destination-row.ts";
import type { Store } from "../../model/store.ts";
import type { RetryTask, TaskStatus } from "../../model/task.ts";
import type {
  DestinationCounts,
  Page,
  StoredDestinationState,
  TaskCounts,
  TaskPage,
  TaskQuery,
} from "../../model/task-query.ts";
import { compareBytes, type MergeOrder, mergedPage } from "./merged-page.ts";
import type { ShardLayout } from "./shard-layout.ts";

const byId = (sign: 1 | -1): MergeOrder<RetryTask> => ({
  positionOf: ({ taskId }) => taskId,
  compare: (a, b) => sign * compareBytes(a, b),
  join: ([task]) => task as RetryTask,
});
const OLDEST_FIRST = byId(1);
const NEWEST_FIRST = byId(-1);
const IDS_NEWEST_FIRST: MergeOrder<string> = {
  positionOf: (taskId) => taskId,
  compare: NEWEST_FIRST.compare,
  join: ([taskId]) => taskId as string,
};
const BY_NAME: MergeOrder<StoredDestinationState> = {
  positionOf: ({ row }) => row.name,
  compare: compareBytes,
  join: joined,
};

export function shardedQuery(layout: ShardLayout, shards: readonly Store[]): TaskQuery {
  const ofTask = (taskId: string) => (shards[layout.shardOfTask(taskId)] as Store).query;
  const ofTenant = (tenantId: string) =>
    layout.shardsOf(tenantId).map((shard) => (shards[shard] as Store).query);
  const askAll = <T>(tenantId: string, ask: (query: TaskQuery) => Promise<T>): Promise<T[]> =>
    Promise.all(ofTenant(tenantId).map(ask));

  async function tasks(
    tenantId: string,
    { limit }: Page,
    order: MergeOrder<RetryTask>,
    ask: (query: TaskQuery) => Promise<TaskPage>,
  ): Promise<TaskPage> {
    const pages = await askAll(tenantId, ask);
    const parts = pages.map((page) => ({ items: page.tasks, cursor: page.cursor }));
    const { items, cursor } = mergedPage(parts, limit, order);
    return { tasks: items, cursor };
  }

  return {
    get: (tenantId, taskId) => ofTask(taskId).get(tenantId, taskId),
    attempts: (tenantId, taskId, page) => ofTask(taskId).attempts(tenantId, taskId, page),
    list: (tenantId, filter, page) =>
      tasks(tenantId, page, NEWEST_FIRST, (query) => query.list(tenantId, filter, page)),
    async listIds(tenantId, filter, page) {
      const pages = await askAll(tenantId, (query) => query.listIds(tenantId, filter, page));
      const parts = pages.map((one) => ({ items: one.taskIds, cursor: one.cursor }));
      const { items, cursor } = mergedPage(parts, page.limit, IDS_NEWEST_FIRST);
      return { taskIds: items, cursor };
    },
    export: (tenantId, page) =>
      tasks(tenantId, page, OLDEST_FIRST, (query) => query.export(tenantId, page)),
    async count(tenantId) {
      return sumOf(await askAll(tenantId, (query) => query.count(tenantId)));
    },
    async countTenant(tenantId) {
      const counts = await askAll(tenantId, (query) => query.countTenant(tenantId));
      return counts.reduce((sum, count) => sum + count, 0);
    },
    async destinations(tenantId, page) {
      const pages = await askAll(tenantId, (query) => query.destinations(tenantId, page));
      const parts = pages.map((one) => ({ items: one.destinations, cursor: one.cursor }));
      const { items, cursor } = mergedPage(parts, page.limit, BY_NAME);
      return { destinations: items, cursor };
    },
    async destination(tenantId, name) {
      const states = await askAll(tenantId, (query) => query.destination(tenantId, name));
      const found = states.filter((state) => state !== null);
      return found.length === 0 ? null : joined(found);
    },
    async countDestinations(tenantId) {
      const counts = await askAll(tenantId, (query) => query.countDestinations(tenantId));
      // Each shard has a copy of every row. One that was unreachable may still lack some.
      return counts.reduce((most, one) => (rowsOf(one) > rowsOf(most) ? one : most));
    },
    async oldestOpen(tenantId) {
      const found = await askAll(tenantId, (query) => query.oldestOpen(tenantId));
      return earliestOf(found);
    },
  };
}

function rowsOf({ open, closed }: DestinationCounts): number {
  return open + closed;
}

function joined(states: readonly StoredDestinationState[]): StoredDestinationState {
  return {
    row: newestRow(states.map(({ row }) => row)),
    tasks: sumOf(states.map(({ tasks }) => tasks)),
    nextDueAt: earliestOf(states.map(({ nextDueAt }) => nextDueAt)),
  };
}

/** A copy may be behind; the row at home never is. */
function newestRow(rows: readonly DestinationRow[]): DestinationRow {
  return rows.reduce((newest, row) => (row.version > newest.version ? row : newest));
}

function earliestOf(instants: readonly (number | null)[]): number | null {
  const known = instants.filter((at) => at !== null);
  return known.length === 0 ? null : Math.min(...known);
}

function sumOf(counts: readonly TaskCounts[]): TaskCounts {
  const sums: Partial<Record<TaskStatus, number>> = {};
  for (const one of counts) {
    for (const [status, count] of Object.entries(one) as [TaskStatus, number][]) {
      sums[status] = (sums[status] ?? 0) + count;
    }
  }
  return sums;
}
