/**
 * Departures: claims that were committed a little ahead, until their tasks are due. One alarm, for
 * the earliest.
 */
import type { Cancel, Clock } from "@redrive/core";
import { createHeap } from "../../collections/heap.ts";
import type { StartedTask } from "../../model/batch.ts";
import type { EngineTime } from "../node/engine-time.ts";

/** A claim that may wait here. */
export interface Departing {
  readonly task: StartedTask;
  /** True while it waits. Whoever makes it false calls it back: it does not leave. */
  isWaiting: boolean;
}

export class SendQueue<Claim extends Departing> {
  readonly #clock: Clock;
  readonly #time: EngineTime;
  readonly #leave: (claim: Claim) => void;
  /** Those called back stay in it until they come up. */
  readonly #heap = createHeap<Claim>(({ task: a }, { task: b }) =>
    a.nextAttemptAt === b.nextAttemptAt ? a.ref < b.ref : a.nextAttemptAt < b.nextAttemptAt,
  );
  #cancelAlarm: Cancel | undefined;
  #alarmAt = Number.POSITIVE_INFINITY;

  /** `leave` is called when the task is due. */
  constructor(clock: Clock, time: EngineTime, leave: (claim: Claim) => void) {
    this.#clock = clock;
    this.#time = time;
    this.#leave = leave;
  }

  add(claim: Claim): void {
    claim.isWaiting = true;
    this.#heap.push(claim);
    this.#arm();
  }

  #arm(): void {
    const at = this.#heap.peek()?.task.nextAttemptAt ?? Number.POSITIVE_INFINITY;
    if (at >= this.#alarmAt) return;
    this.#cancelAlarm?.();
    this.#alarmAt = at;
    this.#cancelAlarm = this.#clock.alarm(this.#time.msUntil(at), this.#ring);
  }

  /** An alarm counts in whole milliseconds; whoever is awake anyway may look before it rings. */
  look(now: number): void {
    if (this.#alarmAt > now) return;
    this.#cancelAlarm?.();
    this.#ring();
  }

  readonly #ring = (): void => {
    this.#alarmAt = Number.POSITIVE_INFINITY;
    const now = this.#time.now();
    for (let claim = this.#due(now); claim !== undefined; claim = this.#due(now)) {
      if (!claim.isWaiting) continue;
      claim.isWaiting = false;
      this.#leave(claim);
    }
    this.#arm();
  };

  #due(now: number): Claim | undefined {
    const first = this.#heap.peek();
    return first !== undefined && first.task.nextAttemptAt <= now ? this.#heap.pop() : undefined;
  }
}
