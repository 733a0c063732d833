/**
 * Sharded nodes: what the nodes of a fleet read and exchange, over all shards. A node has a lease on
 * every shard, judged by the clock of that shard. The shares of a destination are granted by its home
 * shard.
 */
import type { LaneDue } from "../../model/lane-due.ts";
import {
  type DestinationShare,
  type NodeReport,
  type Renewal,
  shiftedRenewal,
} from "../../model/node-report.ts";
import type { Store } from "../../model/store.ts";
import { readCursors, writeCursors } from "./merged-page.ts";
import type { ShardLayout } from "./shard-layout.ts";

type NodePart = Pick<
  Store,
  "nextDue" | "onHint" | "lapsed" | "claimsOf" | "renew" | "retire" | "latestAt"
>;

export function shardedNodes(layout: ShardLayout, shards: readonly Store[]): NodePart {
  const localsOf = (shard: number, partitions: readonly number[]) =>
    partitions
      .filter((partition) => layout.shardOfPartition(partition) === shard)
      .map((partition) => layout.localOf(partition));
  const globalLane =
    (shard: number) =>
    <Lane extends LaneDue>(lane: Lane): Lane => ({
      ...lane,
      partition: layout.globalOf(shard, lane.partition),
    });

  return {
    async nextDue({ partitions, before, limit, cursor }) {
      const cursors = readCursors(cursor, shards.length);
      const pages = await Promise.all(
        shards.map(async (store, shard) => {
          const own = localsOf(shard, partitions);
          const from = cursors[shard];
          if (from === null || own.length === 0) return { lanes: [], cursor: null };
          const page = await store.nextDue({ partitions: own, before, limit, cursor: from });
          return { lanes: page.lanes.map(globalLane(shard)), cursor: page.cursor };
        }),
      );
      return {
        lanes: pages.flatMap(({ lanes }) => lanes),
        cursor: writeCursors(pages.map((page) => page.cursor)),
      };
    },

    onHint(listener) {
      const removers = shards.map((store, shard) =>
        store.onHint((lanes) => listener(lanes?.map(globalLane(shard)) ?? null)),
      );
      return () => {
        for (const remove of removers) remove();
      };
    },

    async lapsed({ nodeId, partitions, limit }) {
      const lists = await Promise.all(
        shards.map((store, shard) => {
          const own = localsOf(shard, partitions);
          return own.length === 0 ? [] : store.lapsed({ nodeId, partitions: own, limit });
        }),
      );
      return lists.flat().slice(0, limit);
    },

    async renew(report) {
      const homes = report.destinations.map(({ tenantId, name }) => layout.homeOf(tenantId, name));
      const renewals = await Promise.all(
        shards.map((store, shard) =>
          store.renew({
            ...report,
            partitions: localsOf(shard, report.partitions),
            handledHints: handledOn(shard, report),
            destinations: report.destinations.filter((_, index) => homes[index] === shard),
          }),
        ),
      );
      return mergedRenewal(renewals, homes, globalLane);
    },

    ...nodeRows(shards),
  };
}

function nodeRows(shards: readonly Store[]): Pick<Store, "claimsOf" | "retire" | "latestAt"> {
  return {
    async claimsOf(nodeId, limit) {
      const lists = await Promise.all(shards.map((store) => store.claimsOf(nodeId, limit)));
      return lists.flat().slice(0, limit);
    },
    async retire(nodeId) {
      await Promise.all(shards.map((store) => store.retire(nodeId)));
    },
    async latestAt() {
      return Math.max(...(await Promise.all(shards.map((store) => store.latestAt()))));
    },
  };
}

/** The hints of a shard have its number before their own id. */
function handledOn(shard: number, { handledHints }: NodeReport): readonly string[] {
  const prefix = `${shard}:`;
  return handledHints.filter((id) => id.startsWith(prefix)).map((id) => id.slice(prefix.length));
}

function mergedRenewal(
  renewals: readonly Renewal[],
  homes: readonly number[],
  globalLane: (shard: number) => <Lane extends LaneDue>(lane: Lane) => Lane,
): Renewal {
  const [first] = renewals as [Renewal, ...Renewal[]];
  // All instants are on the clock of the first shard.
  const shares = renewals.map((one) =>
    shiftedRenewal(one, first.now - one.now).destinations.values(),
  );
  return {
    now: first.now,
    wasLapsed: renewals.some(({ wasLapsed }) => wasLapsed),
    takesAll: renewals.every(({ takesAll }) => takesAll),
    nodes: first.nodes.filter((node) => renewals.every(({ nodes }) => nodes.includes(node))),
    hints: renewals.flatMap(({ hints }, shard) =>
      hints.map((hint) => ({ ...globalLane(shard)(hint), hintId: `${shard}:${hint.hintId}` })),
    ),
    destinations: homes.map((home) => shares[home]?.next().value as DestinationShare),
  };
}
