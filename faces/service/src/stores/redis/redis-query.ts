/** Redis query: the read side of a Redis store. */
import { RedriveError } from "@redrive/core";
import { blankDestination } from "../../model/destination-row.ts";
import { partitionOf } from "../../model/partition.ts";
import { TASK_STATUSES } from "../../model/task.ts";
import type {
  Page,
  StoredDestinationState,
  TaskCounts,
  TaskPage,
  TaskQuery,
} from "../../model/task-query.ts";
import { bytesOf, type Link, listOf, textOf } from "./connection/link.ts";
import type { DestinationTable } from "./destination-table.ts";
import { unpackList } from "./message-pack.ts";
import { ALL_PARTITIONS, attemptOf, joined, type Keys, PARTITIONS } from "./rows.ts";
import { DESTINATIONS } from "./scripts/partition-scripts.ts";
import { type ListParts, listPage, MergedMembers, taskReader } from "./task-list.ts";

/** Lists of one tenant that are in progress. More would take the server from the others. */
const MAX_LISTS = 16;

export function redisQuery(parts: DestinationQueryParts): TaskQuery {
  const { link, keys } = parts;
  const readTasks = taskReader(link, keys);
  const list = limitedLists({ link, keys, readTasks });
  return {
    async get(tenantId, taskId) {
      const [task = null] = await readTasks({ tenantId, taskIds: [taskId], withBody: true });
      return task;
    },
    list,
    async listIds(tenantId, filter, page) {
      const { tasks, cursor } = await list(tenantId, filter, page);
      return { taskIds: tasks.map(({ taskId }) => taskId), cursor };
    },
    ...destinationQuery(parts),
    async attempts(tenantId, taskId, { limit, cursor }) {
      const base = keys.base(partitionOf(taskId, PARTITIONS));
      const first = Number(cursor ?? 0);
      const key = `${base}:a:${joined(tenantId, taskId)}`;
      // Attempts are only added at the end, so their index is a stable position.
      const found = listOf(await link.call("lrange", key, first, first + limit));
      const attempts = found.slice(0, limit).map((one) => attemptOf(bytesOf(one)));
      return { attempts, cursor: found.length > limit ? String(first + limit) : null };
    },
    export: (tenantId, page) => exportPage({ link, keys, readTasks }, tenantId, page),
    async oldestOpen(tenantId) {
      const firsts = await Promise.all(
        ALL_PARTITIONS.map((one) => link.call("zrange", `${keys.base(one)}:o:${tenantId}`, 0, 0)),
      );
      const ids = firsts.flatMap((reply) => listOf(reply).map(textOf)).sort();
      const [oldest] = await readTasks({ tenantId, taskIds: ids, withBody: false });
      return oldest?.createdAt ?? null;
    },
  };
}

async function exportPage(
  { link, keys, readTasks }: ListParts,
  tenantId: string,
  { limit, cursor }: Page,
): Promise<TaskPage> {
  const all = ALL_PARTITIONS.map((one) => `${keys.base(one)}:l:${tenantId}`);
  const members = new MergedMembers(link, { keys: all, isDescending: false, after: cursor });
  const ids = await members.next(limit + 1);
  const page = ids.slice(0, limit);
  return {
    tasks: await readTasks({ tenantId, taskIds: page, withBody: true }),
    cursor: ids.length > limit ? (page.at(-1) ?? null) : null,
  };
}

function limitedLists(parts: ListParts): TaskQuery["list"] {
  const inProgress = new Map<string, number>();
  return async (tenantId, filter, page) => {
    const before = inProgress.get(tenantId) ?? 0;
    if (before >= MAX_LISTS) {
      const message = `the tenant has ${MAX_LISTS} lists in progress; wait for one to end`;
      throw new RedriveError("TOO_MANY_REQUESTS", message);
    }
    inProgress.set(tenantId, before + 1);
    try {
      return await listPage(parts, tenantId, filter, page);
    } finally {
      const left = (inProgress.get(tenantId) ?? 1) - 1;
      if (left > 0) inProgress.set(tenantId, left);
      else inProgress.delete(tenantId);
    }
  };
}

// Destination query: counts and states of destinations, summed over all partitions.

type DestinationQuery = Pick<
  TaskQuery,
  "count" | "countTenant" | "destinations" | "destination" | "countDestinations"
>;

interface DestinationQueryParts {
  readonly link: Link;
  readonly keys: Keys;
  readonly destinations: DestinationTable;
}

function destinationQuery(parts: DestinationQueryParts): DestinationQuery {
  const { link, keys } = parts;
  const { control } = keys;
  const size = async (key: string) => Number(await link.call("zcard", key));
  return {
    count: async (tenantId) => countsOf(await sumTenant(parts, tenantId)),
    async countTenant(tenantId) {
      const [pending = 0, inFlight = 0] = await sumTenant(parts, tenantId);
      return pending + inFlight;
    },
    async destinations(tenantId, { limit, cursor }) {
      const ofTasks = ALL_PARTITIONS.map((one) => `${keys.base(one)}:dn:${tenantId}`);
      const range = { keys: [...ofTasks, `${control}:rn:${tenantId}`], isDescending: false };
      const members = new MergedMembers(link, { ...range, after: cursor });
      const names = await members.next(limit + 1);
      const page = names.slice(0, limit);
      const states = await readStates(parts, tenantId, page);
      return {
        destinations: states.filter(exists),
        cursor: names.length > limit ? (page.at(-1) ?? null) : null,
      };
    },
    async destination(tenantId, name) {
      const [state] = await readStates(parts, tenantId, [name]);
      return state !== undefined && exists(state) ? state : null;
    },
    async countDestinations(tenantId) {
      const [all, open, paused] = await Promise.all(
        ["rn", "ro", "rp"].map((kind) => size(`${control}:${kind}:${tenantId}`)),
      );
      return { open: open ?? 0, closed: (all ?? 0) - (open ?? 0), paused: paused ?? 0 };
    },
  };
}

/** The tasks of a tenant by the number of the status. */
async function sumTenant(
  { link, keys }: DestinationQueryParts,
  tenantId: string,
): Promise<readonly number[]> {
  const statuses = TASK_STATUSES.map((_, number) => number);
  const replies = await Promise.all(
    ALL_PARTITIONS.map((one) => link.call("hmget", `${keys.base(one)}:n:${tenantId}`, ...statuses)),
  );
  const counts = replies.map(listOf);
  return statuses.map((status) =>
    counts.reduce((sum, one) => sum + Number(one[status] ? textOf(one[status]) : 0), 0),
  );
}

function countsOf(numbers: readonly number[]): TaskCounts {
  const found = TASK_STATUSES.flatMap((status, at) => {
    const count = numbers[at] ?? 0;
    return count > 0 ? [[status, count] as const] : [];
  });
  return Object.fromEntries(found);
}

function exists({ row, tasks }: StoredDestinationState): boolean {
  return row.version > 0 || Object.keys(tasks).length > 0;
}

async function readStates(
  { link, keys, destinations }: DestinationQueryParts,
  tenantId: string,
  names: readonly string[],
): Promise<readonly StoredDestinationState[]> {
  if (names.length === 0) return [];
  const [rows, ...replies] = await Promise.all([
    destinations.readNames(tenantId, names),
    ...ALL_PARTITIONS.map((one) => link.run(DESTINATIONS, [keys.base(one)], [tenantId, ...names])),
  ]);
  const byName = new Map(rows.map((row) => [row.name, row]));
  const partitions = replies.map(
    (reply) => unpackList(bytesOf(reply)) as unknown as readonly (readonly (number | null)[])[],
  );
  return names.map((name, at) => {
    const cells = partitions.map((one) => one[at] ?? []);
    const statuses = TASK_STATUSES.map((_, status) =>
      cells.reduce((sum, numbers) => sum + (numbers[status] ?? 0), 0),
    );
    const dueAts = cells.map(
      (numbers) => numbers[TASK_STATUSES.length] ?? Number.POSITIVE_INFINITY,
    );
    const nextDueAt = Math.min(...dueAts);
    return {
      row: byName.get(name) ?? blankDestination(tenantId, name),
      tasks: countsOf(statuses),
      nextDueAt: nextDueAt === Number.POSITIVE_INFINITY ? null : nextDueAt,
    };
  });
}
