/**
 * Commit queues: adds each item to the commit queue of the shard that holds its task. Each shard has its
 * own commit loop, so a slow or failed shard delays only its own items.
 */
import type {
  CancelItem,
  CommitQueue,
  CreateItem,
  RetryNowItem,
  SettleItem,
} from "./commit-queue.ts";

/** What adds items about single tasks: the queue of the only shard, or those of several. */
export type TaskQueue = Pick<
  CommitQueue,
  "addCreate" | "addSettle" | "addCancel" | "addRetryNow" | "request"
>;

export class CommitQueues implements TaskQueue {
  readonly #queues: readonly CommitQueue[];
  readonly #shardOf: (taskId: string) => number;

  constructor(queues: readonly CommitQueue[], shardOf: (taskId: string) => number) {
    this.#queues = queues;
    this.#shardOf = shardOf;
  }

  #of(taskId: string): CommitQueue {
    return this.#queues[this.#shardOf(taskId)] as CommitQueue;
  }

  addCreate(item: CreateItem): void {
    this.#of(item.create.task.taskId).addCreate(item);
  }

  addSettle(item: SettleItem): void {
    this.#of(item.settle.taskId).addSettle(item);
  }

  addCancel(item: CancelItem): void {
    this.#of(item.request.taskId).addCancel(item);
  }

  addRetryNow(item: RetryNowItem): void {
    this.#of(item.request.taskId).addRetryNow(item);
  }

  /** Requests a commit on every shard. */
  request(): void {
    for (const queue of this.#queues) queue.request();
  }
}
