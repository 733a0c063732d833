/** Task reader: reads tasks by their ids, from all partitions at once. */
import { partitionOf } from "../../../model/partition.ts";
import type { RetryTask } from "../../../model/task.ts";
import type { TaskFilter } from "../../../model/task-query.ts";
import type { Link } from "../connection/link.ts";
import { bytesOrNull, listOf } from "../connection/reply.ts";
import { joined, type Keys, PARTITIONS } from "../rows/keys.ts";
import { mayMatch, newTaskOf, type StateCells, stateCells, taskOf } from "../rows/task-codec.ts";

export interface TaskSelection {
  readonly tenantId: string;
  readonly taskIds: readonly string[];
  readonly withBody: boolean;
  /** Tasks that cannot match may be left out. Default: none. */
  readonly filter?: TaskFilter;
}

/** The tasks that exist, in the order of their ids in the selection. */
export type ReadTasks = (selection: TaskSelection) => Promise<readonly RetryTask[]>;

export function taskReader(link: Link, keys: Keys): ReadTasks {
  return async (selection) => {
    const byPartition = new Map<number, string[]>();
    for (const taskId of selection.taskIds) {
      const partition = partitionOf(taskId, PARTITIONS);
      const ids = byPartition.get(partition) ?? [];
      byPartition.set(partition, ids);
      ids.push(taskId);
    }
    const parts = await Promise.all(
      [...byPartition].map(([partition, taskIds]) =>
        readPartition(link, keys.base(partition), { ...selection, taskIds }),
      ),
    );
    const found = new Map(parts.flat().map((task) => [task.taskId, task]));
    return selection.taskIds.flatMap((taskId) => found.get(taskId) ?? []);
  };
}

/** Heads are read only for tasks whose state may match: most rows of a filtered list do not. */
async function readPartition(
  link: Link,
  base: string,
  { tenantId, taskIds, withBody, filter = {} }: TaskSelection,
): Promise<readonly RetryTask[]> {
  const read = (kind: string, names: readonly string[]) =>
    link.call("hmget", `${base}:${kind}`, ...names);
  const all = taskIds.map((taskId) => joined(tenantId, taskId));
  const states = listOf(await read("s", all));
  const chosen = all.flatMap((name, at): (readonly [string, StateCells])[] => {
    const state = bytesOrNull(states[at]);
    const cells = state && stateCells(state);
    return cells && mayMatch(cells, filter) ? [[name, cells]] : [];
  });
  if (chosen.length === 0) return [];
  const names = chosen.map(([name]) => name);
  const [heads, bodies] = await Promise.all([
    read("h", names),
    withBody ? read("b", names) : Promise.resolve([]),
  ]);
  return chosen.flatMap(([, cells], at) => {
    const head = bytesOrNull(listOf(heads)[at]);
    return head === null ? [] : [taskOf(newTaskOf(head, bytesOrNull(listOf(bodies)[at])), cells)];
  });
}
