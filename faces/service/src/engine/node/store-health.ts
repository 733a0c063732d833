/**
 * Store health: records failures of the store and publishes them as events. After a failed commit
 * the store may hold claims that this node does not know; the rescuer reads here whether to look
 * for them.
 */
import { type Clock, messageOf, RedriveError } from "@redrive/core";
import type { TaskRef } from "../../model/batch.ts";
import { StoreBrokenError, StoreRefusedError } from "../../model/store-errors.ts";
import type { EngineTime } from "../../time/engine-time.ts";
import type { WritableEventBody } from "../events/engine-event.ts";
import type { EngineEvents } from "../events/engine-events.ts";

/** A failed commit may still take effect within this time. */
const UNKNOWN_CLAIMS_MS = 60_000;

export class StoreHealth {
  readonly #clock: Clock;
  readonly #time: EngineTime;
  readonly #events: EngineEvents;
  readonly #broken: (error: unknown) => void;
  /**
   * The store may hold unknown claims until a check that starts after this finds none; 0: no. On the
   * monotonic clock: engine time may follow a step of the wall clock meanwhile.
   */
  #unknownClaimsUntilMs = 0;

  /** `broken` is called when the store can no longer guarantee its content. */
  constructor(
    clock: Clock,
    time: EngineTime,
    events: EngineEvents,
    broken: (error: unknown) => void,
  ) {
    this.#clock = clock;
    this.#time = time;
    this.#events = events;
    this.#broken = broken;
  }

  mayHaveUnknownClaims(): boolean {
    return this.#unknownClaimsUntilMs > 0;
  }

  /** Starts a check of the claims of this node. Call the result once it has seen all of them. */
  startClaimCheck(): () => void {
    const startMs = this.#clock.monotonicMs();
    return () => {
      if (startMs >= this.#unknownClaimsUntilMs) this.#unknownClaimsUntilMs = 0;
    };
  }

  /** The store failed. */
  recordFailure(error: unknown): void {
    if (error instanceof StoreRefusedError) {
      this.recordRefusal(error);
      return;
    }
    const now = this.#time.now();
    this.#unknownClaimsUntilMs = this.#clock.monotonicMs() + UNKNOWN_CLAIMS_MS;
    const code = error instanceof RedriveError ? `${error.code}: ` : "";
    this.#events.emit(now, { type: "store.failed", reason: code + messageOf(error) });
    if (error instanceof StoreBrokenError) this.#broken(error);
  }

  /** The store refuses one item because of its content. `task`: the item is about this task. */
  recordRefusal(error: unknown, task: Partial<TaskRef> = {}): void {
    const { tenantId, taskId } = task;
    const event: WritableEventBody = { type: "store.refused", reason: messageOf(error) };
    if (tenantId !== undefined) event.tenantId = tenantId;
    if (taskId !== undefined) event.taskId = taskId;
    this.#events.emit(this.#time.now(), event);
  }

  /** A commit succeeded after a failure. */
  recordRecovery(): void {
    this.#events.emit(this.#time.now(), { type: "store.recovered" });
  }
}
