/** Sweeper: removes tasks and keys whose retention is over, and dead letters on request. */
import { type Clock, systemClock } from "@redrive/core";
import { partitionOf } from "../../model/partition.ts";
import type { Store } from "../../model/store.ts";
import { allDone, type Link } from "./connection/link.ts";
import { ALL_PARTITIONS, type Keys, PARTITIONS } from "./rows.ts";
import { COUNT_EXPIRED, DISCARD, SWEEP } from "./scripts/partition-scripts.ts";

/**
 * Other clients wait for all scripts of a round, and a row takes about 15 microseconds. So a round removes
 * a few hundred rows if the server answers at once. If each round takes long anyway, because of much other
 * work or a long way, it may have a third of that time, or the removal could not keep up.
 */
const MIN_ROWS = 300;
const MAX_ROWS = 1000;
const ROWS_PER_MS = 25;

/** Rows to remove from a partition. */
interface Part {
  readonly partition: number;
  readonly count: number;
}

export function sweeper(
  link: Link,
  keys: Keys,
  clock: Pick<Clock, "monotonicMs"> = systemClock,
): Pick<Store, "sweep" | "discard"> {
  let rows = MIN_ROWS;
  return {
    async sweep({ now, endedBefore, deadBefore, limit, partitions = ALL_PARTITIONS }) {
      const args = [now, endedBefore, deadBefore];
      const counts = await Promise.all(
        partitions.map((one) => link.run(COUNT_EXPIRED, [keys.base(one)], args)),
      );
      let left = partitions.map((partition, at) => ({ partition, count: Number(counts[at]) }));
      let removed = 0;
      while (removed < limit) {
        const round = firstOf(left, Math.min(rows, limit - removed));
        if (round.parts.length === 0) break;
        left = round.rest;
        const startMs = clock.monotonicMs();
        const runs = round.parts.map(({ partition, count }) =>
          link.run(SWEEP, [keys.base(partition)], [...args, count]),
        );
        removed += sumOf(await allDone(runs));
        const fitting = Math.floor(ROWS_PER_MS * (clock.monotonicMs() - startMs));
        rows = Math.max(MIN_ROWS, Math.min(MAX_ROWS, fitting));
      }
      return removed;
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

/** Takes so many rows from the first partitions. */
function firstOf(parts: readonly Part[], rows: number): { parts: Part[]; rest: Part[] } {
  const taken: Part[] = [];
  const rest: Part[] = [];
  let free = rows;
  for (const { partition, count } of parts) {
    const part = Math.min(count, free);
    if (part > 0) taken.push({ partition, count: part });
    if (count > part) rest.push({ partition, count: count - part });
    free -= part;
  }
  return { parts: taken, rest };
}

function sumOf(counts: readonly unknown[]): number {
  return counts.reduce<number>((sum, count) => sum + Number(count), 0);
}
