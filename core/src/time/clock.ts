/**
 * Clock: time as a capability. Everything in Redrive that waits or looks at the time is handed
 * one of these, which is why the same code runs in production, in tests and in the simulator.
 */
import type { AbortSignalLike } from "./abort.ts";

/** Ends an alarm before it rings. Calling it late or twice does nothing. */
export type Cancel = () => void;

export interface Clock {
  /** Epoch milliseconds, whole. May jump when the machine's clock is set: for what is stored. */
  now(): number;

  /** Milliseconds since an unnamed start, never backwards: for measuring. */
  monotonicMs(): number;

  /** Resolves after `ms`, or rejects with the signal's reason as soon as it is aborted. */
  sleep(ms: number, signal?: AbortSignalLike): Promise<void>;

  /**
   * Calls `fn` once after `ms` (any span: longer than the host's timers reach is re-armed).
   * A `background` alarm does not keep the process alive.
   */
  alarm(ms: number, fn: () => void, background?: boolean): Cancel;

  /** Calls `fn` once the work of this turn of the event loop is done. */
  endOfTurn(fn: () => void): void;
}

/** A clock without `sleep`: enough for code that waits by alarms alone. */
export type TimeSource = Omit<Clock, "sleep">;
