/**
 * Poller: loads something again and again, one request at a time. The next request starts some time
 * after the previous response, so that a slow service gets fewer requests.
 */
import type { Cancel, TimeSource } from "@redrive/core";

export interface PollerOptions<T> {
  readonly clock: Pick<TimeSource, "alarm">;
  /** From a response to the next request. */
  readonly everyMs: number;
  /** Requests that follow an event wait this long. Default: `EVENT_DELAY_MS`. */
  readonly eventDelayMs?: number | undefined;
  load(): Promise<T>;
  onLoaded(value: T): void;
  onFailed(error: unknown): void;
}

/** Many events cause one request. */
export const EVENT_DELAY_MS = 500;

export class Poller<T> {
  readonly #options: PollerOptions<T>;
  #cancel: Cancel = () => {};
  #isLoading = false;
  #isStopped = false;
  /** Something changed while a request was under way: its response may be old. */
  #isOutdated = false;
  /** A request that follows an event is scheduled. */
  #isSoon = false;
  #isPaused = false;

  constructor(options: PollerOptions<T>) {
    this.#options = options;
  }

  /** Loads now. */
  request(): void {
    this.#cancel();
    this.#isPaused = false;
    this.#isSoon = false;
    if (this.#isStopped) return;
    if (this.#isLoading) this.#isOutdated = true;
    else void this.#load();
  }

  /** Loads soon: something has changed. */
  requestSoon(): void {
    if (this.#isSoon || this.#isStopped || this.#isPaused) return;
    if (this.#isLoading) {
      this.#isOutdated = true;
      return;
    }
    this.#isSoon = true;
    this.#schedule(this.#eventDelayMs);
  }

  get #eventDelayMs(): number {
    return this.#options.eventDelayMs ?? EVENT_DELAY_MS;
  }

  /** Stops until the next `request`. */
  pause(): void {
    this.#isPaused = true;
    this.#cancel();
    this.#isSoon = false;
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel();
  }

  async #load(): Promise<void> {
    this.#isLoading = true;
    this.#isOutdated = false;
    try {
      const value = await this.#options.load();
      if (!this.#isStopped) this.#options.onLoaded(value);
    } catch (error) {
      if (!this.#isStopped) this.#options.onFailed(error);
    }
    this.#isLoading = false;
    if (this.#isStopped || this.#isPaused) return;
    this.#isSoon = this.#isOutdated;
    this.#schedule(this.#isOutdated ? this.#eventDelayMs : this.#options.everyMs);
  }

  #schedule(ms: number): void {
    this.#cancel();
    this.#cancel = this.#options.clock.alarm(ms, () => this.request());
  }
}
