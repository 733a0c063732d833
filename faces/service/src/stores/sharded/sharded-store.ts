/**
 * Sharded store: several stores behind one, each on its own server. A task is on the shard that the
 * byte in its id selects. `shards` gives an engine the parts, so that it runs a commit loop and holds a
 * lease for each of them: one that fails stops only its own tasks.
 */
import { type Clock, invalidArgument, systemClock } from "@redrive/core";
import { type Batch, EMPTY_BATCH } from "../../model/batch.ts";
import type { Shards } from "../../model/partition.ts";
import type { Store } from "../../model/store.ts";
import { timedStore } from "../../model/store-wrappers/timed-store.ts";
import { wrapped } from "../../model/store-wrappers/wrapped.ts";
import { DestinationCopies } from "./destination-copies.ts";
import { PolicyCopies } from "./policy-copies.ts";
import {
  authorOf,
  commitShard,
  commitTasks,
  refusedKeys,
  type ShardCommitParts,
} from "./shard-commit.ts";
import { namedShard } from "./shard-error.ts";
import { MAX_SHARDS, ShardLayout, type TenantShards } from "./shard-layout.ts";
import { shardedNodes } from "./sharded-nodes.ts";
import { shardedQuery } from "./sharded-query.ts";
import { shardedRows, shardedUpkeep } from "./sharded-rows.ts";
import { commitParts } from "./split-batch.ts";

export interface ShardedOptions {
  /** The shards of tenants that do not use all of them. Default: every tenant uses all. */
  readonly tenants?: TenantShards;
  /** Default: the system clock. */
  readonly clock?: Clock;
}

/** An engine waits this long for the copies of a row on another shard. */
const COPY_MS = 2000;

/** `stores`: in the order of the layout. They are closed with the result. */
export function shardedStore(stores: readonly Store[], options: ShardedOptions = {}): Store {
  const { clock = systemClock, tenants } = options;
  const [first] = stores;
  if (first === undefined) throw new Error("a sharded store needs shards");
  assertShards(stores);
  const layout = new ShardLayout(stores.length, first.partitions, tenants);
  const shards = stores.map(namedShard);
  const hasty = shards.map((store) => timedStore(clock, store, COPY_MS));
  const rows = new DestinationCopies({ layout, shards, hasty });
  const policies = new PolicyCopies({ layout, shards, hasty });
  const partsOf = (shard: number): ShardCommitParts => ({
    shard,
    store: shards[shard] as Store,
    rows,
    policies,
  });
  const home = shards[0] as Store;

  /** Rows are written everywhere before the result, also for a user that pauses a destination. */
  async function commit(batch: Batch) {
    const { documents } = batch;
    const written = await rows.write(batch.destinations, authorOf(batch), false);
    const refused = refusedKeys(written);
    const result = await commitParts(layout, batch, (shard, part) =>
      commitTasks(partsOf(shard), part, refused),
    );
    if (documents.length > 0) await home.commit({ ...authorOf(batch), ...EMPTY_BATCH, documents });
    return { ...result, destinations: written };
  }

  return {
    exclusive: false,
    partitions: layout.partitions,
    shards: engineShards(layout, shards, partsOf, rows),
    clock: () => home.clock(),
    commit,
    ...shardedNodes(layout, shards),
    addPolicy: (policy) => policies.addPolicy(policy),
    getPolicy: (tenantId, policyId, version) => policies.getPolicy(tenantId, policyId, version),
    listPolicies: (tenantId) => policies.listPolicies(tenantId),
    removePolicy: (tenantId, policyId, now) => policies.removePolicy(tenantId, policyId, now),
    unusedPolicies: (page) => policies.unusedPolicies(page),
    removeInline: (unused) => policies.removeInline(unused),
    getDestination: (tenantId, name) => rows.read(tenantId, name),
    ...shardedRows(layout, shards),
    ...shardedUpkeep(shards),
    query: shardedQuery(layout, shards),
    documents: home.documents,
    async close() {
      await Promise.allSettled(shards.map((store) => store.close()));
    },
  };
}

/** Each shard as an engine uses it, with the partitions of the shard itself. */
function engineShards(
  layout: ShardLayout,
  shards: readonly Store[],
  partsOf: (shard: number) => ShardCommitParts,
  rows: DestinationCopies,
): Shards<Store> {
  return {
    stores: shards.map((store, shard) =>
      wrapped(store, {
        commit: (batch: Batch) => commitShard(partsOf(shard), batch),
        async renew(report) {
          const renewal = await store.renew(report);
          // The shard can be reached. If it fails now, the next exchange tries again.
          await rows.flush(shard, { now: report.now, nodeId: report.nodeId }).catch(() => {});
          return renewal;
        },
      }),
    ),
    partitions: shards.map((_, shard) =>
      layout.partitionsOf(shard).map((partition) => layout.localOf(partition)),
    ),
    ofTask: (taskId) => layout.shardOfTask(taskId),
    homeOf: (tenantId, destination) => layout.homeOf(tenantId, destination),
    shardsOf: (tenantId) => layout.shardsOf(tenantId),
    byteOfKey: (tenantId, byte) => layout.byteFor(tenantId, byte),
    byteIn: (shard, partition) => layout.globalOf(shard, partition),
  };
}

/** Throws `INVALID_ARGUMENT` for stores that cannot be shards. */
function assertShards(stores: readonly Store[]): void {
  if (stores.length > MAX_SHARDS) {
    throw invalidArgument(`store must name at most ${MAX_SHARDS} shards`, stores.length);
  }
  const counts = stores.map(({ partitions }) => partitions);
  if (stores.some(({ exclusive }) => exclusive)) {
    throw invalidArgument("each shard must be a PostgreSQL or Redis store", stores.length);
  }
  if (new Set(counts).size > 1) {
    throw invalidArgument("all shards must have the same number of partitions", counts.join());
  }
}
