/**
 * Clock and random: the sources of time and of random numbers. Code that needs them gets them as
 * arguments, so the same code runs in production, in tests and in the simulator.
 */

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

/**
 * Each consumer forks its own stream by name, so a new consumer does not change the draws of others, and a
 * seed always gives the same results.
 */
export interface Random {
  /** The next draw, uniform in [0, 1). */
  next(): number;

  /** An independent stream. It depends on this stream's seed and the name, not on earlier draws. */
  fork(name: string): Random;
}

/**
 * The part of `AbortSignal` that core uses, so core compiles without DOM or Node types. A real `AbortSignal`
 * fits this type.
 */
export interface AbortSignalLike {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: "abort", listener: () => void, options?: { once?: boolean }): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

/**
 * Resolves after `ms`; rejects at once with the signal's reason if the signal is or becomes aborted. The
 * system clock and the virtual clock share it, so both remove their listeners in the same way.
 */
export function sleepOn(
  alarm: (ms: number, fn: () => void) => Cancel,
  ms: number,
  signal: AbortSignalLike | undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = alarm(ms, () => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    });
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
