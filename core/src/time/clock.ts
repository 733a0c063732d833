/**
 * Clock: the source of time. Code that waits or reads the time gets a clock as an argument, so the
 * same code runs in production, in tests and in the simulator.
 */
import type { AbortSignalLike } from "./abort.ts";

/** Cancels an alarm. A late or second call has no effect. */
export type Cancel = () => void;

export interface Clock {
  /** Whole epoch milliseconds. May jump when the machine's clock is set. Use it for stored instants. */
  now(): number;

  /** Milliseconds since an unspecified start; never goes back. Use it to measure durations. */
  monotonicMs(): number;

  /** Resolves after `ms`, or rejects with the signal's reason as soon as it is aborted. */
  sleep(ms: number, signal?: AbortSignalLike): Promise<void>;

  /**
   * Calls `fn` once after `ms`. Any duration is allowed: an alarm beyond the range of the runtime's
   * timers is re-armed. A `background` alarm does not keep the process alive.
   */
  alarm(ms: number, fn: () => void, background?: boolean): Cancel;

  /** Calls `fn` at the end of the current turn of the event loop. */
  endOfTurn(fn: () => void): void;
}

/** A clock without `sleep`, for code that only uses alarms. */
export type TimeSource = Omit<Clock, "sleep">;
