/**
 * Task places: the partition byte of each new task. A task with a key has the byte of its key. Any other
 * task gets a partition of this node, so that this node attempts it without a hint to another one, on a
 * shard that responds.
 */
import { partitionByteOfKey, type Shards } from "../model/partition.ts";
import type { EngineShard } from "./engine-shard.ts";

/** Tasks without a key go to one shard for this long: then a commit has many of them. */
const TURN_MS = 50;

export class TaskPlaces {
  readonly #shards: Shards | undefined;
  readonly #parts: readonly EngineShard[];

  /** `shards`: undefined if the store is not sharded. */
  constructor(shards: Shards | undefined, parts: readonly EngineShard[]) {
    this.#shards = shards;
    this.#parts = parts;
  }

  /** Undefined: any byte. */
  byteFor(tenantId: string, idempotencyKey: string | null, now: number): number | undefined {
    const shards = this.#shards;
    if (shards === undefined) {
      return this.#parts[0]?.partitions.byteFor(tenantId, idempotencyKey, now);
    }
    if (idempotencyKey !== null) {
      return shards.byteOfKey(tenantId, partitionByteOfKey(tenantId, idempotencyKey));
    }
    const own = shards.shardsOf(tenantId);
    const ready = own.filter((shard) => this.#isReady(shard));
    const places = ready.length === 0 ? own : ready;
    const shard = places[Math.floor(now / TURN_MS) % places.length] as number;
    return shards.byteIn(shard, (this.#parts[shard] as EngineShard).partitions.next(now));
  }

  #isReady(shard: number): boolean {
    const { node, commitLoop, exchange } = this.#parts[shard] as EngineShard;
    return node.isActive() && !commitLoop.isFailing && !exchange.isFailing;
  }
}
