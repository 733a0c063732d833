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
  #own: readonly number[] = [];
  #isOwn: readonly boolean[] = [];
  #turn = 0;
  #turnAt = 0;
  #turnTasks = 0;

  /** `count`: the partitions of the store. */
  constructor(count: number) {
    this.#count = count;
    this.assign(Array.from({ length: count }, (_, partition) => partition));
  }

  get list(): readonly number[] {
    return this.#own;
  }

  /** True if the store has a single partition. */
  get isSingle(): boolean {
    return this.#count === 1;
  }

  get count(): number {
    return this.#count;
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
    const isOver = now - this.#turnAt >= TURN_MS || this.#turnTasks >= TURN_TASKS;
    if (isOver || now < this.#turnAt) {
      this.#turn++;
      this.#turnAt = now;
      this.#turnTasks = 0;
    }
    this.#turnTasks++;
    if (this.#own.length === 0) return this.#turn % PARTITION_VALUES;
    // The bits above the partition make the tasks of a node spread in a store with more partitions.
    const partition = this.#own[this.#turn % this.#own.length] as number;
    const rounds = PARTITION_VALUES / this.#count;
    return partition + this.#count * (Math.floor(this.#turn / this.#own.length) % rounds);
  }
}
