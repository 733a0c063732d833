/** Commit pause: after a failed commit, the next one waits: 50 ms, doubling to one second. */
import type { Cancel, Clock } from "@redrive/core";

const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 1000;

export class CommitPause {
  readonly #clock: Clock;
  #failures = 0;
  #isActive = false;
  #cancel: Cancel | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isActive(): boolean {
    return this.#isActive;
  }

  /** The last commit failed. */
  get isFailing(): boolean {
    return this.#failures > 0;
  }

  recordSuccess(): void {
    this.#failures = 0;
  }

  /** Calls `done` after the pause. */
  begin(done: () => void): void {
    this.#isActive = true;
    const pauseMs = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#failures++);
    this.#cancel?.();
    this.#cancel = this.#clock.alarm(pauseMs, () => {
      this.#isActive = false;
      done();
    });
  }

  /** `done` is not called any more. */
  cancel(): void {
    this.#cancel?.();
  }
}
