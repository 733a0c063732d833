/**
 * Reauthentication: renews a destination's credentials after a 401. Calls that need new credentials at
 * the same time share one renewal, and a call renews at most once.
 */
import type { Call } from "../call/call.ts";
import { leftMs } from "../call/call-deadline.ts";
import { giveUp, startNextAttempt, wait } from "../call/call-execution.ts";
import { emit } from "../call/emit-event.ts";
import { retryStateOf } from "../call/failure-records.ts";

export type Reauthenticate = () => void | PromiseLike<void>;

export class Reauthentication {
  readonly #reauthenticate: Reauthenticate | undefined;
  #renewal: Promise<void> | undefined = undefined;

  constructor(reauthenticate: Reauthenticate | undefined) {
    this.#reauthenticate = reauthenticate;
  }

  /** Starts or joins a renewal; undefined if the call cannot renew or has already done so. */
  renew<T>(call: Call<T>): Promise<void> | undefined {
    if (this.#reauthenticate === undefined || call.retryState?.hasReauthenticated) return undefined;
    retryStateOf(call).hasReauthenticated = true;
    if (this.#renewal !== undefined) return this.#renewal;
    const renewal = Promise.resolve()
      .then(this.#reauthenticate)
      .finally(() => this.#forget(renewal));
    this.#renewal = renewal;
    return renewal;
  }

  #forget(renewal: Promise<void>): void {
    if (this.#renewal === renewal) this.#renewal = undefined;
  }

  /** Repeats the call at once when the credentials are new, or calls `onTimeout` at its deadline. */
  repeatAfter<T>(renewal: Promise<void>, call: Call<T>, onTimeout: () => void): void {
    wait(call, Math.max(0, leftMs(call)), () => {
      // A renewal that takes longer than a whole call may never end. The next call starts a new one.
      this.#forget(renewal);
      onTimeout();
    });
    renewal.then(
      () => {
        if (!call.over) emit(call, { type: "reauthenticate", attempt: call.attempts + 1 });
        if (call.over) return;
        call.cancelWait?.();
        retryStateOf(call).hasNewCredentials = true;
        startNextAttempt(call);
      },
      (error: unknown) => {
        if (!call.over) giveUp(call, "not-retryable", { error });
      },
    );
  }
}
