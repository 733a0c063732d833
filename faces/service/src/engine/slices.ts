/**
 * Slices: background work that is done in short slices, so that nobody waits for it. While a slice
 * reports that there is more, the next one follows after a pause.
 */
import type { Clock } from "@redrive/core";

/** Does a part of the work. True: there is more to do now. */
export type Slice = () => Promise<boolean>;

const PAUSE_MS = 20;

export class Slices {
  readonly #clock: Clock;
  readonly #slice: Slice;
  readonly #failed: (error: unknown) => void;
  #isActive = false;
  #isStopped = false;

  constructor(clock: Clock, slice: Slice, failed: (error: unknown) => void) {
    this.#clock = clock;
    this.#slice = slice;
    this.#failed = failed;
  }

  /** Starts, unless the work of an earlier call still continues. Resolves after the first slice. */
  async start(): Promise<void> {
    if (this.#isActive || this.#isStopped) return;
    this.#isActive = true;
    await this.#runOnce();
  }

  stop(): void {
    this.#isStopped = true;
  }

  /** Never rejects. After a failure, the next start tries again. */
  async #runOnce(): Promise<void> {
    try {
      this.#isActive = (await this.#slice()) && !this.#isStopped;
    } catch (error) {
      this.#isActive = false;
      if (!this.#isStopped) this.#failed(error);
    }
    if (this.#isActive) this.#clock.alarm(PAUSE_MS, () => void this.#runOnce(), true);
  }
}
