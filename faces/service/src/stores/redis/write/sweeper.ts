/** Sweeper: removes tasks and keys whose retention is over, and dead letters on request. */
import { partitionOf } from "../../../model/partition.ts";
import type { Store } from "../../../model/store.ts";
import { allDone } from "../connection/failure.ts";
import type { Link } from "../connection/link.ts";
import { ALL_PARTITIONS, type Keys, PARTITIONS } from "../rows/keys.ts";
import { COUNT_EXPIRED, DISCARD, SWEEP } from "../scripts/partition-scripts.ts";

/** Other clients of the server wait for a script, so it removes at most this many. */
const MAX_REMOVED = 500;

export function sweeper(link: Link, keys: Keys): Pick<Store, "sweep" | "discard"> {
  return {
    async sweep({ now, endedBefore, deadBefore, limit }) {
      const args = [now, endedBefore, deadBefore];
      const counts = await Promise.all(
        ALL_PARTITIONS.map((one) => link.run(COUNT_EXPIRED, [keys.base(one)], args)),
      );
      let left = limit;
      const sweeps: Promise<unknown>[] = [];
      for (const [partition, count] of counts.entries()) {
        for (let rest = Math.min(Number(count), left); rest > 0; ) {
          const part = Math.min(rest, MAX_REMOVED);
          sweeps.push(link.run(SWEEP, [keys.base(partition)], [...args, part]));
          rest -= part;
          left -= part;
        }
      }
      return sumOf(await allDone(sweeps));
    },
    discard: (tenantId, taskIds) =>
      link.replicated(async () => {
        const byPartition = new Map<number, string[]>();
        for (const taskId of taskIds) {
          const partition = partitionOf(taskId, PARTITIONS);
          const ids = byPartition.get(partition) ?? [];
          byPartition.set(partition, ids);
          ids.push(taskId);
        }
        const runs = [...byPartition].map(([partition, ids]) =>
          link.run(DISCARD, [keys.base(partition)], [tenantId, ...ids]),
        );
        return sumOf(await allDone(runs));
      }),
  };
}

function sumOf(counts: readonly unknown[]): number {
  return counts.reduce<number>((sum, count) => sum + Number(count), 0);
}
