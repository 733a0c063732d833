/**
 * Host: what a destination does for the calls made to it. A call without a destination has none, so
 * that `retry` alone carries nothing of guards, hedges and fallbacks.
 */
import type { Decision, Outcome, Random, StopReason, Verdict } from "@redrive/core";
import type { Call } from "./call.ts";
import type { CallEvent } from "./events.ts";
import type { Ending } from "./options.ts";

/** What a destination counts. */
export type Counted = "firsts" | "retries" | "hedges" | "successes" | "failures" | "refused";

export interface Host {
  /** The destination's word on all its calls. */
  readonly idempotent: boolean | undefined;

  readonly hasListeners: boolean;
  emit(event: CallEvent): void;

  /** The next attempt's turn has come: passes the guards and launches it, or waits, or gives up. */
  enter<T>(call: Call<T>): void;

  /** An attempt is no longer under way. */
  leave<T>(attempt: Call<T>, outcome: Outcome, verdict: Verdict): void;

  /** What core is to decide on; false while a copy still runs or credentials are renewed. */
  sift<T>(attempt: Call<T>, ending: Ending<T>, outcome: Outcome, verdict: Verdict): Outcome | false;

  /** What follows a failed attempt, by core's decision and with its guards in view. */
  decide<T>(
    call: Call<T>,
    outcome: Outcome,
    now: number,
    random: Random,
    throttled: boolean,
  ): Decision;

  /** The call has its value: nothing more will happen. */
  succeeded<T>(call: Call<T>, value: T): void;

  /** The call has failed: nothing more will happen; `reason` is why it was cut off, if it was. */
  finish<T>(call: Call<T>, reason?: unknown): void;

  /** The call was given up. True if a fallback has the last word. */
  conclude<T>(call: Call<T>, reason: StopReason, ending: Ending<T>, error: unknown): boolean;

  /** Where a copy should go. */
  endpointOf(copy: number): string | undefined;
}
