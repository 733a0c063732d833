/** Shards: how an engine sees the servers of a sharded store. */

/** The shards of a store: several servers, each with the tasks of some values of the partition byte. */
export interface Shards<Store = unknown> {
  /**
   * Each as a store that has only its own tasks, partitions and nodes. A commit may write the row of
   * any destination of which it is the home; a copy that cannot be written now is written later.
   */
  readonly stores: readonly Store[];
  /** The partitions that each of them uses. */
  readonly partitions: readonly (readonly number[])[];
  /** The shard of a task. */
  ofTask(taskId: string): number;
  /** The shard that decides about a destination: its row and its shares. */
  homeOf(tenantId: string, destination: string): number;
  /** The shards that hold tasks of the tenant. */
  shardsOf(tenantId: string): readonly number[];
  /** The byte for a task whose key has `byte`: on one of the tenant's shards. */
  byteOfKey(tenantId: string, byte: number): number;
  /** The byte for a task in that partition of that shard. */
  byteIn(shard: number, partition: number): number;
}
