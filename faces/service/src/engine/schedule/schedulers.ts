/**
 * Schedulers: the schedulers of several shards. Each schedules the lanes of its shard, and all share the
 * guards of the destinations and the slots of the node. What one of them frees may let another one
 * continue, so that one's commit loop is woken.
 */
import type { Lane } from "../../model/task.ts";
import type { DestinationLane, DestinationRuntime } from "../destination/destination-runtime.ts";
import type { AttemptSlots } from "./attempt-slots.ts";
import type { Schedule, Scheduler } from "./scheduler.ts";

export class Schedulers implements Schedule {
  readonly slots: AttemptSlots;
  readonly #schedulers: readonly Scheduler[];
  readonly #shardOf: (taskId: string) => number;
  readonly #wake: (shard: number) => void;

  /** `wake`: requests a commit on that shard. */
  constructor(
    schedulers: readonly Scheduler[],
    shardOf: (taskId: string) => number,
    wake: (shard: number) => void,
  ) {
    this.#schedulers = schedulers;
    this.#shardOf = shardOf;
    this.#wake = wake;
    this.slots = this.#of(0).slots;
    for (const scheduler of schedulers) {
      scheduler.onForeign = (lane) => {
        this.#of(lane.shard).checkGranted(lane);
        wake(lane.shard);
      };
    }
    this.slots.onFreed(() => {
      for (const { waitsForSlot, shard } of schedulers) if (waitsForSlot) wake(shard);
    });
  }

  #of(shard: number): Scheduler {
    return this.#schedulers[shard] as Scheduler;
  }

  laneOf(destination: DestinationRuntime, lane: Lane, taskId: string): DestinationLane {
    return destination.lanesOf(this.#shardOf(taskId))[lane];
  }

  expectTask(lane: DestinationLane, taskId: string, dueAt: number): void {
    this.#of(lane.shard).expectTask(lane, taskId, dueAt);
    this.#wake(lane.shard);
  }

  unblock(destination: DestinationRuntime, now: number): void {
    for (const scheduler of this.#schedulers) {
      const lanes = Object.values(scheduler.lanesOf(destination));
      const wasHeld = lanes.some(({ blocked, parked }) => blocked || parked);
      scheduler.unblock(destination, now);
      if (wasHeld) this.#wake(scheduler.shard);
    }
  }
}
