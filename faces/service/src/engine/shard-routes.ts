/** Shard routes: leads each task to the parts of the shard that holds it. */
import type { Shards } from "../model/partition.ts";
import { CommitQueues, type TaskQueue } from "./commit/commit-queues.ts";
import type { ShardBase } from "./engine-shard.ts";
import type { Schedule } from "./schedule/scheduler.ts";
import { Schedulers } from "./schedule/schedulers.ts";

export interface ShardRoutes {
  /** The parts of the shard that holds the task. */
  readonly baseOf: (taskId: string) => ShardBase;
  readonly queue: TaskQueue;
  readonly schedule: Schedule;
}

/** `shards`: undefined if the store is not sharded. Its only shard then needs no routes. */
export function routesOf(bases: readonly ShardBase[], shards: Shards | undefined): ShardRoutes {
  const [first] = bases as readonly [ShardBase, ...ShardBase[]];
  if (shards === undefined) {
    return { baseOf: () => first, queue: first.queue, schedule: first.scheduler };
  }
  const shardOf = (taskId: string) => shards.ofTask(taskId);
  const queues = bases.map(({ queue }) => queue);
  const schedulers = bases.map(({ scheduler }) => scheduler);
  const wake = (shard: number) => queues[shard]?.request();
  return {
    baseOf: (taskId) => bases[shardOf(taskId)] as ShardBase,
    queue: new CommitQueues(queues, shardOf),
    schedule: new Schedulers(schedulers, shardOf, wake),
  };
}
