/**
 * Worker: what every adapter gives its caller: it receives the messages of one queue, from `start` to
 * `stop`. `WorkerState` has what all adapters share: failures of the broker, and the end of the worker.
 * `RepeatingTask` is what a worker does again and again.
 */
import { type Cancel, type Clock, compilePolicy, resolvePolicy } from "@redrive/core";
import type { Consumer } from "./consumer.ts";

export interface Worker {
  /**
   * Connects, creates what is missing and begins to receive. Rejects if that fails; later failures are
   * events, and the worker tries again.
   */
  start(): Promise<void>;
  /**
   * Receives no more messages and waits for the running handlers. Handlers that still run after
   * `drainMs` are aborted, and their messages are deferred. Safe to call twice. Default: 30 s.
   */
  stop(drainMs?: number): Promise<void>;
}

/** The waits before a worker tries again: 100 ms, doubled up to 10 s, half of it random. */
const TRY_AGAIN = compilePolicy(
  resolvePolicy({
    maxAttempts: 1000,
    initialDelayMs: 100,
    maxDelayMs: 10_000,
    jitterType: "EQUAL",
    totalBudgetMs: 365 * 86_400_000,
  }),
);

export class WorkerState {
  readonly #consumer: Consumer<never>;
  readonly #stopping = new AbortController();

  // Mutable state.
  #failures = 0;
  #failedMs = Number.NEGATIVE_INFINITY;
  /** Messages that are being answered. */
  #open = 0;
  readonly #onIdle: (() => void)[] = [];

  constructor(consumer: Consumer<never>) {
    this.#consumer = consumer;
  }

  get isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  get signal(): AbortSignal {
    return this.#stopping.signal;
  }

  stop(): void {
    this.#stopping.abort();
  }

  /** Reports a failure of the broker. Returns the wait before the next try. */
  fail(error: unknown): number {
    const failures = Math.min(++this.#failures, TRY_AGAIN.maxAttempts);
    this.#failedMs = this.#consumer.clock.monotonicMs();
    const delayMs = TRY_AGAIN.delayMs(failures, 0, this.#consumer.random.next(), false);
    this.#consumer.emit({ type: "broker-failed", error, delayMs });
    return delayMs;
  }

  /** The time since the latest failure of the broker. */
  sinceFailureMs(): number {
    return this.#consumer.clock.monotonicMs() - this.#failedMs;
  }

  /** The broker works. */
  recover(): void {
    if (this.#failures === 0) return;
    this.#failures = 0;
    this.#consumer.emit({ type: "broker-recovered" });
  }

  /** Waits, but not beyond the stop. */
  async pause(ms: number): Promise<void> {
    await this.#consumer.clock.sleep(ms, this.signal).catch(() => undefined);
  }

  /** A message is being answered, until `end`. */
  begin(): void {
    this.#open++;
  }

  end(): void {
    this.#open--;
    if (this.#open === 0) for (const resolve of this.#onIdle.splice(0)) resolve();
  }

  /** Resolves when all messages are answered. */
  async idle(): Promise<void> {
    if (this.#open > 0) await new Promise<void>((resolve) => this.#onIdle.push(resolve));
  }
}

interface RepeatingTaskParts {
  readonly clock: Clock;
  /** The wait after each run. */
  readonly everyMs: number;
  /** Returns the wait before the next run, if it is not `everyMs`. */
  readonly run: () => Promise<number | undefined>;
  readonly onError: (error: unknown) => void;
}

/**
 * Runs a function again and again while a worker runs, never twice at once. A failure goes to the caller,
 * and the task goes on.
 */
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
