/**
 * Hedge race: an attempt and its hedged copies. The first success wins, and the losers are aborted. A
 * failure counts only if no other attempt still runs.
 */
import { type Cancel, type Outcome, RedriveError } from "@redrive/core";
import type { Attempt, AttemptRace, Call } from "../call/call.ts";
import { abortAttempt } from "../call/call-execution.ts";

const LOST = "another copy of this call was answered first";

export class HedgeRace<T> implements AttemptRace {
  readonly #send: (copy: number) => Attempt<T> | undefined;
  readonly #maxCopies: number;
  readonly #afterMs: number;
  readonly #attempts: Attempt<T>[];
  #cancel: Cancel;
  /** The end of the longest wait that a failed attempt was asked for; epoch ms. */
  #retryAfterAt = 0;

  /** `send` launches a copy, unless the guards refuse it. */
  constructor(
    first: Attempt<T>,
    send: (copy: number) => Attempt<T> | undefined,
    maxCopies: number,
    afterMs: number,
  ) {
    this.#send = send;
    this.#maxCopies = maxCopies;
    this.#afterMs = afterMs;
    this.#attempts = [first];
    this.#cancel = this.#arm(first.call);
  }

  /** A destination that has asked for a wait gets no further copy either. */
  #arm({ config: { clock } }: Call<T>): Cancel {
    return clock.alarm(this.#afterMs, () => {
      if (clock.now() >= this.#retryAfterAt) this.#sendNext();
    });
  }

  #sendNext(): void {
    const copy = this.#attempts.length;
    const attempt = this.#send(copy);
    if (attempt === undefined) return;
    this.#attempts.push(attempt);
    // The operation may have ended the whole call before it returned.
    if (attempt.call.over) this.end();
    else if (copy < this.#maxCopies) this.#cancel = this.#arm(attempt.call);
  }

  hasRunning(): boolean {
    return this.#attempts.some((attempt) => !attempt.settled);
  }

  withLongestWait(outcome: Outcome, now: number): Outcome {
    this.#retryAfterAt = Math.max(this.#retryAfterAt, now + (outcome.retryAfterMs ?? 0));
    const retryAfterMs = this.#retryAfterAt - now;
    return retryAfterMs > 0 ? { ...outcome, retryAfterMs } : outcome;
  }

  stopCopies(): void {
    this.#cancel();
  }

  end(reason: unknown = undefined): void {
    this.#cancel();
    for (const attempt of this.#attempts) {
      if (!attempt.settled) abortAttempt(attempt, reason ?? new RedriveError("HEDGE_LOST", LOST));
    }
  }
}
