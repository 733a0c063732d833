/**
 * Send queue: claims that were committed a little ahead of time, until their tasks are due. It uses
 * one alarm, for the earliest claim.
 */
import type { Cancel, Clock } from "@redrive/core";
import { createHeap } from "../collections/heap.ts";
import type { StartedTask } from "../model/batch.ts";
import type { EngineTime } from "../time/engine-time.ts";

/** A claim that can wait in the queue. */
interface QueuedClaim {
  readonly task: StartedTask;
  /** True while it waits. Setting it to false recalls the claim: it is not sent. */
  isWaiting: boolean;
}

export class SendQueue<Claim extends QueuedClaim> {
  readonly #clock: Clock;
  readonly #time: EngineTime;
  readonly #send: (claim: Claim) => void;
  /** Recalled claims stay in the heap until they reach the top. */
  readonly #heap = createHeap<Claim>(({ task: a }, { task: b }) =>
    a.nextAttemptAt === b.nextAttemptAt ? a.ref < b.ref : a.nextAttemptAt < b.nextAttemptAt,
  );
  #cancelAlarm: Cancel | undefined;
  #alarmAt = Number.POSITIVE_INFINITY;

  /** `send` is called when the task is due. */
  constructor(clock: Clock, time: EngineTime, send: (claim: Claim) => void) {
    this.#clock = clock;
    this.#time = time;
    this.#send = send;
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

  /** Alarms have a resolution of one millisecond. A caller that runs anyway may check earlier. */
  runOnce(now: number): void {
    if (this.#alarmAt > now) return;
    this.#cancelAlarm?.();
    this.#ring();
  }

  readonly #ring = (): void => {
    this.#alarmAt = Number.POSITIVE_INFINITY;
    const now = this.#time.now();
    for (let claim = this.#popDue(now); claim !== undefined; claim = this.#popDue(now)) {
      if (!claim.isWaiting) continue;
      claim.isWaiting = false;
      this.#send(claim);
    }
    this.#arm();
  };

  #popDue(now: number): Claim | undefined {
    const first = this.#heap.peek();
    return first !== undefined && first.task.nextAttemptAt <= now ? this.#heap.pop() : undefined;
  }
}
