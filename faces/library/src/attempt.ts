/**
 * Attempt: one try of a call, and the context its function is given. Its signal is made only when
 * read, since most functions never look at it and a signal costs more than the rest of the call.
 */
import { RedriveError } from "@redrive/core";
import type { Call } from "./call.ts";
import { forgetSignal, markSignal } from "./layer.ts";
import type { AttemptContext } from "./options.ts";
import type { Timed } from "./ticker.ts";

export class Attempt<T> implements AttemptContext, Timed {
  readonly call: Call<T>;
  readonly attempt: number;
  readonly startMs: number;
  readonly timeoutMs: number;
  /** 0 is the original, 1 and up are hedged copies. */
  readonly copy: number;
  expiresMs = 0;
  previous: Timed | undefined = undefined;
  next: Timed | undefined = undefined;
  settled = false;
  /** What the breaker gave on entering; 0 without one. */
  pass = 0;
  /** What the retry budget gave for this attempt; 0 for a first one. */
  ticket = 0;
  private controller: AbortController | undefined = undefined;
  private abortedWith: { readonly reason: unknown } | undefined = undefined;

  constructor(call: Call<T>, attempt: number, startMs: number, timeoutMs: number, copy: number) {
    this.call = call;
    this.attempt = attempt;
    this.startMs = startMs;
    this.timeoutMs = timeoutMs;
    this.copy = copy;
  }

  /** True for everything but the call's first attempt itself: what it takes is extra load. */
  get isRetry(): boolean {
    return this.attempt > 1 || this.copy > 0;
  }

  get signal(): AbortSignal {
    return (this.controller ?? this.makeController()).signal;
  }

  get idempotencyKey(): string | undefined {
    return this.call.options.idempotencyKey;
  }

  get deadlineAt(): number {
    return this.call.deadlineAt;
  }

  get previousError(): unknown {
    const last = this.call.lastEnding;
    return last !== undefined && "error" in last ? last.error : undefined;
  }

  get endpoint(): string | undefined {
    return this.call.endpointOf(this.copy);
  }

  /** The attempt is no longer under way. */
  settle(): void {
    this.settled = true;
    if (this.controller !== undefined) forgetSignal(this.controller.signal);
  }

  /** The attempt is over without having ended by itself. */
  abort(reason: unknown): void {
    this.abortedWith = { reason };
    this.controller?.abort(reason);
  }

  /** Its time is up. */
  expire(): void {
    if (this.settled) return;
    const message = `attempt ${this.attempt} took longer than ${this.timeoutMs} ms`;
    const error = new RedriveError("ATTEMPT_TIMEOUT", message);
    this.abort(error);
    this.call.failed(this, error);
  }

  private makeController(): AbortController {
    const controller = new AbortController();
    this.controller = controller;
    if (!this.settled) markSignal(controller.signal, this.call);
    if (this.abortedWith !== undefined) controller.abort(this.abortedWith.reason);
    return controller;
  }
}
