/**
 * Hedge race: an attempt and its copies, of which the first success wins. The losers are aborted on
 * the wire; a failure loses only if nothing else is still running.
 */
import { type Cancel, type Outcome, RedriveError } from "@redrive/core";
import { type Call, drop } from "./call.ts";

const LOST = "another copy of this call was answered first";

export class HedgeRace<T> {
  readonly #send: (copy: number) => Call<T> | undefined;
  readonly #most: number;
  readonly #afterMs: number;
  readonly #runners: Call<T>[];
  #cancel: Cancel;
  /** Until when a runner that failed was asked to wait. */
  #quietUntil = 0;

  /** `send` launches a copy, unless the guards are against it; at most `most` leave. */
  constructor(
    first: Call<T>,
    send: (copy: number) => Call<T> | undefined,
    most: number,
    afterMs: number,
  ) {
    this.#send = send;
    this.#most = most;
    this.#afterMs = afterMs;
    this.#runners = [first];
    this.#cancel = this.#arm(first.call);
  }

  /** A target that has asked for time gets no further copy either. */
  #arm({ setting: { clock } }: Call<T>): Cancel {
    return clock.alarm(this.#afterMs, () => {
      if (clock.now() >= this.#quietUntil) this.#sendNext();
    });
  }

  #sendNext(): void {
    const copy = this.#runners.length;
    const runner = this.#send(copy);
    if (runner === undefined) return;
    this.#runners.push(runner);
    // The function may have ended the whole call before it returned.
    if (runner.call.over) this.end();
    else if (copy < this.#most) this.#cancel = this.#arm(runner.call);
  }

  /** True while any runner has not ended. */
  isOn(): boolean {
    return this.#runners.some((runner) => !runner.settled);
  }

  /** A failure as the retry is to see it: with the longest wait that a runner was asked for. */
  heed(outcome: Outcome, now: number): Outcome {
    this.#quietUntil = Math.max(this.#quietUntil, now + (outcome.retryAfterMs ?? 0));
    const retryAfterMs = this.#quietUntil - now;
    return retryAfterMs > 0 ? { ...outcome, retryAfterMs } : outcome;
  }

  /** No further copies. */
  stop(): void {
    this.#cancel();
  }

  /** The race is decided: whoever still runs is cut off. */
  end(reason: unknown = undefined): void {
    this.#cancel();
    for (const runner of this.#runners) {
      if (!runner.settled) drop(runner, reason ?? new RedriveError("HEDGE_LOST", LOST));
    }
  }
}
