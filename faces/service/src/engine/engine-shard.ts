/**
 * Engine shard: the parts of an engine that belong to one shard of its store: its commit queue and loop,
 * its scheduler, the node's lease there, and the work that reads from it. A store that is not sharded is
 * one shard. Shards share the destinations with their guards, the slots of the node and the runner, so
 * a limit holds for all of them, and one that fails stops only its own tasks.
 */
import type { Clock, RetryBudgetOptions, SharedBudget } from "@redrive/core";
import type { TaskRef } from "../model/batch.ts";
import type { Shards } from "../model/partition.ts";
import type { Store } from "../model/store.ts";
import type { EngineTime } from "../time/engine-time.ts";
import type { StoreClock } from "../time/store-clock.ts";
import { CommitLoop, type CommitLoopParts } from "./commit/commit-loop.ts";
import { CommitQueue } from "./commit/commit-queue.ts";
import type { RowHomes } from "./commit/row-homes.ts";
import type { DestinationRuntime } from "./destination/destination-runtime.ts";
import type { Destinations } from "./destination/destinations.ts";
import type { EngineEvents } from "./events/engine-events.ts";
import { Exchange } from "./exchange.ts";
import { Fleet, type HomeDestinations } from "./fleet.ts";
import { Maintenance, type MaintenanceParts } from "./maintenance.ts";
import { NodeLease } from "./node/node-lease.ts";
import { NodeState } from "./node/node-state.ts";
import { OwnPartitions } from "./node/own-partitions.ts";
import { StoreHealth } from "./node/store-health.ts";
import { Rescuer, type RescuerParts } from "./run/rescuer.ts";
import type { Runner } from "./run/runner.ts";
import { Scheduler } from "./schedule/scheduler.ts";
import type { SharedTurns } from "./schedule/shared-turns.ts";
import { StoreSync } from "./store-sync.ts";

/** What a shard needs before the parts that serve all shards exist. */
export interface ShardBaseParts {
  readonly clock: Clock;
  readonly time: EngineTime;
  readonly events: EngineEvents;
  readonly nodeId: string;
  readonly leaseMs: number | undefined;
  readonly claimAheadMs: number | undefined;
  readonly turns: SharedTurns;
  readonly serviceBudget: SharedBudget | undefined;
  readonly budgetOptions: RetryBudgetOptions | undefined;
  /** A shard can no longer guarantee its content. */
  readonly broken: (error: unknown) => void;
}

/** The parts that need nothing of the other shards. */
export interface ShardBase {
  readonly index: number;
  readonly store: Store;
  readonly partitions: OwnPartitions;
  readonly scheduler: Scheduler;
  readonly queue: CommitQueue;
  readonly health: StoreHealth;
  readonly lease: NodeLease;
  readonly node: NodeState;
  readonly fleet: Fleet;
}

/** `partitions`: those that the shard uses. Default: all of its store. */
export function createShardBase(
  parts: ShardBaseParts,
  store: Store,
  index: number,
  used: readonly number[] | undefined,
): ShardBase {
  const { clock, time, events, nodeId, leaseMs, turns } = parts;
  const partitions = new OwnPartitions(store.partitions, used && [...used]);
  // The budget of the whole service follows the nodes of the first shard.
  const budget = index === 0 ? parts : { serviceBudget: undefined, budgetOptions: undefined };
  const { serviceBudget, budgetOptions } = budget;
  const lease = new NodeLease({ clock, time, isExclusive: store.exclusive, leaseMs });
  return {
    index,
    store,
    partitions,
    scheduler: new Scheduler(turns, partitions, parts.claimAheadMs, index),
    queue: new CommitQueue(),
    health: new StoreHealth(clock, time, events, parts.broken),
    lease,
    node: new NodeState(nodeId, lease),
    fleet: new Fleet(
      { nodeId, partitions, leaseMs: lease.leaseMs, serviceBudget, budgetOptions },
      store.exclusive,
    ),
  };
}

/** What the parts of a shard share with those of the others. */
export interface ShardSharedParts
  extends Omit<CommitLoopParts, keyof ShardBase | "homes">,
    Omit<RescuerParts, keyof ShardBase | "commitLoop">,
    Pick<MaintenanceParts, "clockWatch" | "retentionMs" | "deadLetterRetentionMs"> {
  readonly clock: Clock;
  readonly destinations: Destinations;
  readonly runner: Runner;
  /** Undefined in an exclusive store. */
  readonly storeClock: StoreClock | undefined;
  /** Undefined: the store is not sharded. */
  readonly shards: Shards | undefined;
}

export interface EngineShard extends ShardBase {
  readonly commitLoop: CommitLoop;
  readonly rescuer: Rescuer;
  readonly storeSync: StoreSync;
  readonly exchange: Exchange;
  readonly maintenance: Maintenance;
  /** Gives up the lease, after the last report. */
  leave(): Promise<void>;
}

/** `all`: the finished shards, once they are needed. */
export function createShard(
  shared: ShardSharedParts,
  base: ShardBase,
  all: () => readonly EngineShard[],
): EngineShard {
  const { index } = base;
  const { shards, destinations } = shared;
  const homes = shards && homesOf(shards, index, all);
  // New fields come before a spread: after it, they would give the parts of every engine other hidden
  // classes, and a simulation has thousands of engines.
  const parts = { homes, ...shared, ...base };
  const commitLoop = new CommitLoop(parts);
  const rescuer = new Rescuer({ commitLoop, ...parts });
  const storeSync = new StoreSync(parts);
  // Engine time follows the clock of the first shard.
  const storeClock = index === 0 ? shared.storeClock : undefined;
  const homeDestinations = shards ? ownOf(destinations, shards, index) : destinations;
  const isShard = shards !== undefined;
  const exchange = new Exchange({ isShard, homeDestinations, storeSync, ...parts, storeClock });
  const isOwn = ({ taskId }: TaskRef) => shards === undefined || shards.ofTask(taskId) === index;
  const maintenance = new Maintenance({ exchange, rescuer, storeSync, isOwn, ...parts });
  const leave = async () => {
    await exchange.settled();
    await base.store.retire(base.node.nodeId).catch(() => {});
  };
  return { commitLoop, rescuer, storeSync, exchange, maintenance, leave, ...base };
}

function homesOf(shards: Shards, index: number, all: () => readonly EngineShard[]): RowHomes {
  const homeOf = ({ tenantId, name }: DestinationRuntime) => shards.homeOf(tenantId, name);
  return {
    isHere: (destination) => homeOf(destination) === index,
    handOver(destination) {
      const home = all()[homeOf(destination)] as EngineShard;
      home.queue.addChanged(destination);
      return !home.commitLoop.isFailing && !home.exchange.isFailing;
    },
  };
}

/** The destinations whose home is the shard. */
function ownOf(destinations: Destinations, shards: Shards, index: number): HomeDestinations {
  return {
    *values() {
      for (const one of destinations.values()) {
        if (shards.homeOf(one.tenantId, one.name) === index) yield one;
      }
    },
  };
}
