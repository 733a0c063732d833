/**
 * Turn: the time as of this turn of the event loop. Reading a clock costs as much as the rest of a
 * call that succeeds, so it is read once a turn (as libuv and Redis do) and anew after a number of
 * readings, for turns that go on for long.
 */
import type { TimeSource } from "@redrive/core";

/** A turn that never ends, such as a loop over promises, still sees time pass. */
const READINGS_PER_LOOK = 64;

/** One look at the clock; all that happens until the next is told apart by it, or not at all. */
export interface Moment {
  /** Monotonic. */
  readonly ms: number;
  /** Whole, since the epoch. */
  readonly epochMs: number;
}

export class Turn {
  readonly #clock: TimeSource;
  readonly #onEnd: (nowMs: number) => void;
  #moment: Moment = { ms: 0, epochMs: 0 };
  #readingsLeft = 0;
  #isEndAwaited = false;

  /** `onEnd` is told the time at the end of every turn in which the time was asked for. */
  constructor(clock: TimeSource, onEnd: (nowMs: number) => void) {
    this.#clock = clock;
    this.#onEnd = onEnd;
  }

  /** Never later than the clock's time, and earlier by no more than this turn has taken. */
  here(): Moment {
    if (--this.#readingsLeft < 0) this.#look();
    return this.#moment;
  }

  /** The same for what ends: only what begins makes a turn long, so only that counts as a reading. */
  latest(): Moment {
    return this.#readingsLeft > 0 ? this.#moment : this.here();
  }

  nowMs(): number {
    return this.here().ms;
  }

  now(): number {
    return this.here().epochMs;
  }

  #look(): void {
    this.#moment = { ms: this.#clock.monotonicMs(), epochMs: this.#clock.now() };
    this.#readingsLeft = READINGS_PER_LOOK;
    if (this.#isEndAwaited) return;
    this.#isEndAwaited = true;
    this.#clock.endOfTurn(() => {
      this.#isEndAwaited = false;
      this.#readingsLeft = 0;
      this.#onEnd(this.#clock.monotonicMs());
    });
  }
}
