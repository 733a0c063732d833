/**
 * Turn: the time as of this turn of the event loop. Reading a clock costs as much as the rest of a
 * call that succeeds, so it is read once a turn (as libuv and Redis do) and anew after a number of
 * readings, for turns that go on for long.
 */
import type { Clock } from "@redrive/core";

/** A turn that never ends, such as a loop over promises, still sees time pass. */
const READINGS_PER_LOOK = 64;

export class Turn {
  private readonly clock: Clock;
  private readonly onEnd: (nowMs: number) => void;
  private ms = 0;
  /** Epoch ms as of the latest look. */
  epochMs = 0;
  private readingsLeft = 0;
  private isEndAwaited = false;

  /** `onEnd` is told the time at the end of every turn in which the time was asked for. */
  constructor(clock: Clock, onEnd: (nowMs: number) => void) {
    this.clock = clock;
    this.onEnd = onEnd;
  }

  /** Monotonic ms; never later than the clock's, and earlier by no more than this turn has taken. */
  nowMs(): number {
    if (--this.readingsLeft < 0) this.look();
    return this.ms;
  }

  /** Epoch ms, whole, as of the same look. */
  now(): number {
    if (--this.readingsLeft < 0) this.look();
    return this.epochMs;
  }

  private look(): void {
    this.ms = this.clock.monotonicMs();
    this.epochMs = this.clock.now();
    this.readingsLeft = READINGS_PER_LOOK;
    if (this.isEndAwaited) return;
    this.isEndAwaited = true;
    this.clock.endOfTurn(() => {
      this.isEndAwaited = false;
      this.readingsLeft = 0;
      this.onEnd(this.clock.monotonicMs());
    });
  }
}
