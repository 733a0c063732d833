/** Due table: pages of the lanes that are due soon. Only lanes that are due are read. */
import type { LaneDue } from "../../model/lane-due.ts";
import type { DueQuery, Store } from "../../model/store.ts";
import { type Link, listOf, type Reply, textOf } from "./connection/link.ts";
import type { Keys } from "./rows.ts";
import { DUE_LANES } from "./scripts/partition-scripts.ts";
import { laneOf } from "./wake-ups.ts";

/** Partitions that are read at once. More would read much of which a page has no use. */
const PARTITIONS_AT_ONCE = 8;

/** Where the previous page ended: the index of a partition, and the due time and name of a lane. */
type Position = readonly [at: number, dueAt?: string, lane?: string];

interface NamedLane {
  readonly due: LaneDue;
  readonly position: Position;
}

export function dueTable(link: Link, keys: Keys): Pick<Store, "dueLanes"> {
  return {
    async dueLanes(query) {
      const found: NamedLane[] = [];
      let [first, ...after]: Position = query.cursor ? JSON.parse(query.cursor) : [0];
      while (first < query.partitions.length && found.length <= query.limit) {
        const reads = query.partitions
          .slice(first, first + PARTITIONS_AT_ONCE)
          .map((_, at) => readPartition(link, keys, query, first + at, at === 0 ? after : []));
        for (const lanes of await Promise.all(reads)) found.push(...lanes);
        first += PARTITIONS_AT_ONCE;
        after = [];
      }
      const page = found.slice(0, query.limit);
      const isLast = found.length <= query.limit;
      const cursor = isLast ? null : JSON.stringify(page.at(-1)?.position ?? null);
      return { lanes: page.map(({ due }) => due), cursor };
    },
  };
}

async function readPartition(
  link: Link,
  keys: Keys,
  { partitions, from, before, limit }: DueQuery,
  at: number,
  after: readonly (string | undefined)[],
): Promise<readonly NamedLane[]> {
  const partition = partitions[at] ?? 0;
  const fromAt = Number.isFinite(from) ? from : "-inf";
  const args = [fromAt, before, limit + 1, ...after.filter((one) => one !== undefined)];
  const reply = listOf(await link.run(DUE_LANES, [keys.base(partition)], args));
  return Array.from({ length: reply.length / 2 }, (_, index) =>
    namedLane(reply.slice(2 * index), at, partition),
  );
}

function namedLane([name, score]: readonly Reply[], at: number, partition: number): NamedLane {
  const [lane, dueAt] = [textOf(name), textOf(score)];
  const due = { ...laneOf(lane), partition, dueAt: Number(dueAt) };
  return { due, position: [at, dueAt, lane] };
}
