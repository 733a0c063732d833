/** Stepping clock: a virtual clock whose wall clock a test can set, as after a sleep of the machine. */
import { type Clock, virtualClock } from "@redrive/core";

export interface SteppingClock extends Clock {
  /** Advances both clocks. */
  advance(ms: number): Promise<void>;
  /** Sets the wall clock forward, or back. The monotonic clock stays. */
  step(ms: number): void;
}

export function steppingClock(startAt: number): SteppingClock {
  const clock = virtualClock(startAt);
  let aheadMs = 0;
  return {
    now: () => clock.now() + aheadMs,
    monotonicMs: () => clock.monotonicMs(),
    sleep: (...args) => clock.sleep(...args),
    alarm: (...args) => clock.alarm(...args),
    endOfTurn: (fn) => clock.endOfTurn(fn),
    advance: (ms) => clock.advance(ms),
    step(ms) {
      aheadMs += ms;
    },
  };
}
