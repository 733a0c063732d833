/**
 * Own partitions: the partitions that this node leases, and the partition of each new task. A task
 * with a key has the partition of its key. Any other task gets one of this node, so that this node
 * attempts it without a hint to another one.
 */
import { PARTITION_VALUES, partitionByteOfKey, partitionOf } from "../../model/partition.ts";

/**
 * Tasks without a key share a partition for this long, or until there are this many: then a commit
 * touches few partitions, and a backlog still spreads over all of them.
 */
const TURN_MS = 50;
const TURN_TASKS = 256;

export class OwnPartitions {
  readonly #count: number;
  /** The partitions that the store uses. */
  readonly all: readonly number[];
  #own: readonly number[] = [];
  #isOwn: readonly boolean[] = [];
  #turn = 0;
  #turnAt = 0;
  #turnTasks = 0;

  /** `count`: the partitions of the store. `all`: those that it uses. Default: all. */
  constructor(count: number, all = Array.from({ length: count }, (_, partition) => partition)) {
    this.#count = count;
    this.all = all;
    this.assign(all);
  }

  get list(): readonly number[] {
    return this.#own;
  }

  /** True if the store has a single partition. */
  get isSingle(): boolean {
    return this.#count === 1;
  }

  assign(own: readonly number[]): void {
    this.#own = own;
    this.#isOwn = Array.from({ length: this.#count }, (_, partition) => own.includes(partition));
  }

  has(partition: number): boolean {
    return this.#isOwn[partition] === true;
  }

  of(taskId: string): number {
    return partitionOf(taskId, this.#count);
  }

  /** The byte for the id of a new task. Undefined: any, because the store has one partition. */
  byteFor(tenantId: string, idempotencyKey: string | null, now: number): number | undefined {
    if (idempotencyKey !== null) return partitionByteOfKey(tenantId, idempotencyKey);
    if (this.isSingle) return undefined;
    const turn = this.#turnAfter(now);
    if (this.#own.length === 0) return turn % PARTITION_VALUES;
    // The bits above the partition make the tasks of a node spread in a store with more partitions.
    const partition = this.#own[turn % this.#own.length] as number;
    const rounds = PARTITION_VALUES / this.#count;
    return partition + this.#count * (Math.floor(turn / this.#own.length) % rounds);
  }

  /** The partition for a new task without a key: one of this node, if it has any. */
  next(now: number): number {
    const list = this.#own.length === 0 ? this.all : this.#own;
    return list[this.#turnAfter(now) % list.length] as number;
  }

  #turnAfter(now: number): number {
    const isOver = now - this.#turnAt >= TURN_MS || this.#turnTasks >= TURN_TASKS;
    if (isOver || now < this.#turnAt) {
      this.#turn++;
      this.#turnAt = now;
      this.#turnTasks = 0;
    }
    this.#turnTasks++;
    return this.#turn;
  }
}
