/** Redis query: the read side of a Redis store. */
import { RedriveError } from "@redrive/core";
import { partitionOf } from "../../../model/partition.ts";
import type { Page, TaskPage, TaskQuery } from "../../../model/task-query.ts";
import { bytesOf, listOf, textOf } from "../connection/reply.ts";
import { attemptOf } from "../rows/attempt-codec.ts";
import { ALL_PARTITIONS, joined, PARTITIONS } from "../rows/keys.ts";
import { type DestinationQueryParts, destinationQuery } from "./destination-query.ts";
import { MergedMembers } from "./merged-members.ts";
import { type ListParts, listPage } from "./task-list.ts";
import { taskReader } from "./task-reader.ts";

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
