/**
 * Worker: what every adapter gives its caller: it receives the messages of one queue, from `start` to
 * `stop`. `WorkerState` has what all adapters share: failures of the broker, and the end of the worker.
 */
import { compilePolicy, resolvePolicy } from "@redrive/core";
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
    const delayMs = TRY_AGAIN.delayMs(failures, 0, this.#consumer.random.next(), false);
    this.#consumer.emit({ type: "broker-failed", error, delayMs });
    return delayMs;
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
