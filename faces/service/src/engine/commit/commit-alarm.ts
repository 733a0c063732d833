/** Commit alarm: rings when the next commit has something to do, for example because a lane is due. */
import type { Cancel, Clock } from "@redrive/core";
import type { EngineTime } from "../../time/engine-time.ts";

export class CommitAlarm {
  readonly #clock: Clock;
  readonly #time: EngineTime;
  readonly #ring: () => void;
  #at = Number.POSITIVE_INFINITY;
  #cancel: Cancel | undefined;

  constructor(clock: Clock, time: EngineTime, ring: () => void) {
    this.#clock = clock;
    this.#time = time;
    this.#ring = ring;
  }

  /** Replaces the instant. Infinity: it does not ring. */
  set(at: number): void {
    if (at === this.#at) return;
    this.cancel();
    this.#at = at;
    if (!Number.isFinite(at)) return;
    this.#cancel = this.#clock.alarm(this.#time.msUntil(at), () => {
      this.#at = Number.POSITIVE_INFINITY;
      this.#ring();
    });
  }

  cancel(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }
}
