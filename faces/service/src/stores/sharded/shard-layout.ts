/**
 * Shard layout: which shard holds what. The byte in the id of a task selects the shard, so a task, its
 * key, its callbacks and its redrives are on one server. Everything that has a name and belongs to all
 * tasks (a destination, a policy) has a home shard, by the hash of its name.
 *
 * The order and the number of the shards are part of the data: another list would look for tasks on
 * the wrong server.
 */
import { hashOf, PARTITION_VALUES, partitionByteOf } from "../../model/partition.ts";

/** Beyond this number, a shard would have fewer than four partitions to divide among the nodes. */
export const MAX_SHARDS = 64;

/** The shards of tenants that do not use all of them, by their index in the list of shards. */
export type TenantShards = ReadonlyMap<string, readonly number[]>;

export class ShardLayout {
  readonly count: number;
  /** The number of partitions of each shard. */
  readonly perShard: number;
  /** The number of partitions of all shards, a divisor of 256. */
  readonly partitions: number;
  readonly #tenants: TenantShards;
  /** The shard of each value of the byte. */
  readonly #shardOfByte: readonly number[];
  readonly #all: readonly number[];
  /** The partitions of each shard, in the numbers of all shards: a range. */
  readonly #partitionsOf: readonly (readonly number[])[];

  constructor(count: number, perShard: number, tenants: TenantShards = new Map()) {
    this.count = count;
    this.perShard = perShard;
    this.partitions = totalPartitions(count, perShard);
    this.#tenants = tenants;
    this.#all = Array.from({ length: count }, (_, shard) => shard);
    this.#shardOfByte = Array.from({ length: PARTITION_VALUES }, (_, byte) =>
      Math.floor(((byte % this.partitions) * count) / this.partitions),
    );
    const partitions = Array.from({ length: this.partitions }, (_, partition) => partition);
    this.#partitionsOf = this.#all.map((shard) =>
      partitions.filter((partition) => this.#shardOfByte[partition] === shard),
    );
  }

  shardOfByte(byte: number): number {
    return this.#shardOfByte[byte & (PARTITION_VALUES - 1)] as number;
  }

  shardOfTask(taskId: string): number {
    return this.shardOfByte(partitionByteOf(taskId));
  }

  shardOfPartition(partition: number): number {
    return this.shardOfByte(partition);
  }

  /** The partition that the shard itself uses. */
  localOf(partition: number): number {
    return partition % this.perShard;
  }

  /** The partition of all shards that is this one of the shard. A shard does not use all of its own. */
  globalOf(shard: number, local: number): number {
    const first = this.partitionsOf(shard)[0] as number;
    return first + ((local - first) & (this.perShard - 1));
  }

  /** The partitions of a shard, in the numbers of all shards. */
  partitionsOf(shard: number): readonly number[] {
    return this.#partitionsOf[shard] as readonly number[];
  }

  /** The shards that hold tasks of the tenant. */
  shardsOf(tenantId: string): readonly number[] {
    return this.#tenants.get(tenantId) ?? this.#all;
  }

  /** The shard that decides about a destination or a policy of a tenant. */
  homeOf(tenantId: string, name: string): number {
    const shards = this.shardsOf(tenantId);
    return shards[spread(hashOf(`${tenantId}\n${name}`)) % shards.length] as number;
  }

  /** A byte that selects one of the tenant's shards, the same for the same byte. */
  byteFor(tenantId: string, byte: number): number {
    const shards = this.shardsOf(tenantId);
    if (shards.length === this.count || shards.includes(this.shardOfByte(byte))) return byte;
    const shard = shards[byte % shards.length] as number;
    const own = this.partitionsOf(shard);
    return own[byte % own.length] as number;
  }
}

/**
 * The largest divisor of 256 for which no two partitions of a shard are the same partition of its own
 * store. So the byte modulo the shard's number is different for each.
 */
function totalPartitions(count: number, perShard: number): number {
  let partitions = PARTITION_VALUES;
  while (Math.ceil(partitions / count) > perShard) partitions /= 2;
  return partitions;
}

/** The low bits of FNV-1a alone are not spread well over a small number (MurmurHash3). */
function spread(hash: number): number {
  const mixed = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (mixed ^ (mixed >>> 13)) >>> 0;
}
