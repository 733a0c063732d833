/**
 * Repeating task: runs a function again and again while a worker runs, never twice at once. A failure
 * goes to the caller, and the task goes on.
 */
import type { Cancel, Clock } from "@redrive/core";

export interface RepeatingTaskParts {
  readonly clock: Clock;
  /** The wait after each run. */
  readonly everyMs: number;
  /** Returns the wait before the next run, if it is not `everyMs`. */
  readonly run: () => Promise<number | undefined>;
  readonly onError: (error: unknown) => void;
}

export class RepeatingTask {
  readonly #parts: RepeatingTaskParts;

  // Mutable state.
  #isStopped = true;
  #cancel: Cancel | undefined;
  #dueMs: number = Number.POSITIVE_INFINITY;
  #running: Promise<void> | undefined;
  #isAskedAgain = false;

  constructor(parts: RepeatingTaskParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#isStopped = false;
    this.#arm(this.#parts.everyMs);
  }

  /** Runs within `ms`, or earlier if it is due earlier. */
  runWithin(ms: number): void {
    if (this.#running !== undefined) this.#isAskedAgain ||= ms <= 0;
    const dueMs = this.#parts.clock.monotonicMs() + ms;
    if (this.#running === undefined && dueMs < this.#dueMs) this.#arm(ms);
  }

  /** Resolves when it no longer runs. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel?.();
    await this.#running;
  }

  #arm(ms: number): void {
    this.#cancel?.();
    if (this.#isStopped) return;
    const { clock } = this.#parts;
    this.#dueMs = clock.monotonicMs() + ms;
    this.#cancel = clock.alarm(
      Math.max(0, ms),
      () => {
        this.#dueMs = Number.POSITIVE_INFINITY;
        this.#running = this.#runOnce();
      },
      true,
    );
  }

  async #runOnce(): Promise<void> {
    const { run, everyMs, onError } = this.#parts;
    let nextMs: number | undefined;
    try {
      nextMs = await run();
    } catch (error) {
      onError(error);
    }
    this.#running = undefined;
    const waitMs = this.#isAskedAgain ? 0 : (nextMs ?? everyMs);
    this.#isAskedAgain = false;
    this.#arm(waitMs);
  }
}
