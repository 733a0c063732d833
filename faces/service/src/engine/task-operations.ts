/** Task operations: creates, cancels and retries single tasks through the commit queue. */
import type {
  CancelRequest,
  CancelResult,
  CreateResult,
  RetryNowResult,
  TaskRef,
} from "../model/batch.ts";
import { stopped } from "../model/errors.ts";
import { storeFailure } from "../model/store-wrappers/coded-store.ts";
import type { NewTask } from "../model/task.ts";
import type { EngineTime } from "../time/engine-time.ts";
import type { CommitQueue } from "./commit/commit-queue.ts";
import type { TaskQueue } from "./commit/commit-queues.ts";
import type { Destinations } from "./destination/destinations.ts";
import { eventLabels, type WritableEventBody } from "./events/engine-event.ts";
import type { EngineEvents } from "./events/engine-events.ts";
import type { NodeState } from "./node/node-state.ts";
import type { OwnPartitions } from "./node/own-partitions.ts";
import { scheduleFollowUps } from "./run/follow-up-tasks.ts";
import type { Runner } from "./run/runner.ts";
import type { Schedule } from "./schedule/scheduler.ts";

export interface TaskOperationsParts {
  readonly time: EngineTime;
  readonly node: NodeState;
  readonly destinations: Destinations;
  readonly scheduler: Schedule;
  readonly queue: TaskQueue;
  /** The partitions and the queue of the shard that holds the task. */
  readonly placeOf: (taskId: string) => TaskPlace;
  readonly runner: Runner;
  readonly events: EngineEvents;
}

/** The part of a canceled task that its event shows. */
export type CancelledTask = Pick<NewTask, "destination" | "labels">;

export interface TaskPlace {
  readonly partitions: OwnPartitions;
  readonly queue: CommitQueue;
}

export class TaskOperations {
  readonly #parts: TaskOperationsParts;

  constructor(parts: TaskOperationsParts) {
    this.#parts = parts;
  }

  /** Calls `done` once the task is durable, or once the task of the same key is known. */
  create(
    task: NewTask,
    fingerprint: string | null,
    done: (result: CreateResult) => void,
    failed: (error: unknown) => void,
  ): void {
    const { node, destinations, queue } = this.#parts;
    if (!node.isRunning()) {
      failed(stopped());
      return;
    }
    const destination = destinations.getOrCreate(task.tenantId, task.destination);
    destination.users++;
    queue.addCreate({
      create: { task, fingerprint },
      destination,
      done: (result) => {
        destination.users--;
        if (result.kind === "created") this.#emitCreated(task);
        done(result);
      },
      failed: (error) => {
        destination.users--;
        failed(storeFailure(error));
      },
    });
  }

  #emitCreated({ tenantId, taskId, destination, labels, scheduledAt, policyId }: NewTask): void {
    const { time, events } = this.#parts;
    const event: WritableEventBody = { type: "task.created", tenantId, taskId, destination };
    event.policyId = policyId;
    event.nextAttemptAt = scheduledAt;
    const shown = eventLabels(labels);
    if (shown !== undefined) event.labels = shown;
    events.emit(time.now(), event);
  }

  /** `task`: for the event, if it is known. */
  async cancel(request: CancelRequest, task?: CancelledTask): Promise<CancelResult> {
    const { time, scheduler, destinations, queue, runner, events } = this.#parts;
    const commit = () =>
      this.#commit<CancelResult>((done, failed) => queue.addCancel({ request, done, failed }));
    const result = await commit();
    // The task was claimed ahead of time and not sent: recalling its claim ends it, with an event,
    // before the second commit reads its state. If that commit fails, the first result is still
    // true, because the cancel request is stored.
    if (result.kind === "requested" && runner.recallClaim(request)) {
      return commit().catch(() => result);
    }
    if (result.kind === "cancelled") {
      const { tenantId, taskId, onEnd } = request;
      scheduleFollowUps(scheduler, destinations, onEnd, "CANCELLED");
      queue.request();
      const event: WritableEventBody = { type: "task.cancelled", tenantId, taskId };
      if (task !== undefined) event.destination = task.destination;
      const labels = task && eventLabels(task.labels);
      if (labels !== undefined) event.labels = labels;
      events.emit(time.now(), event);
    }
    return result;
  }

  /** Makes a waiting task due now. Guards still apply. */
  async retryNow(request: TaskRef): Promise<RetryNowResult> {
    const { time, scheduler, destinations, queue } = this.#parts;
    const result = await this.#commit<RetryNowResult>((done, failed) =>
      queue.addRetryNow({ request, done, failed }),
    );
    if (result.kind === "rescheduled") {
      const destination = destinations.getOrCreate(request.tenantId, result.destination);
      const lane = scheduler.laneOf(destination, result.lane, request.taskId);
      scheduler.expectTask(lane, request.taskId, time.now());
      this.#hintOf(request, result);
      queue.request();
    }
    return result;
  }

  /** Another node claims the task if it leases its partition. */
  #hintOf(
    { tenantId, taskId }: TaskRef,
    { destination, lane }: Extract<RetryNowResult, { kind: "rescheduled" }>,
  ): void {
    const { placeOf, time } = this.#parts;
    const { partitions, queue } = placeOf(taskId);
    const partition = partitions.of(taskId);
    if (partitions.has(partition)) return;
    queue.addHint({ tenantId, destination, lane, partition, dueAt: time.now() });
  }

  #commit<Result>(
    add: (done: (result: Result) => void, failed: (error: unknown) => void) => void,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      if (!this.#parts.node.isRunning()) return reject(stopped());
      add(resolve, (error) => reject(storeFailure(error)));
    });
  }
}
