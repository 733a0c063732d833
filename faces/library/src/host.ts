/**
 * Host: what a destination lends to the calls made to it. Apart from both, so that neither has to
 * know how the other is made.
 */
import type { HedgeOptions } from "@redrive/core";
import type { Attempt } from "./attempt.ts";
import type { CallEvent } from "./events.ts";
import type { Gatekeeper } from "./gatekeeper.ts";
import type { GuardedCall } from "./guarded-call.ts";
import type { HedgeRace } from "./hedge-race.ts";

/** What a destination counts. */
export type Counted = "firsts" | "retries" | "hedges" | "successes" | "failures" | "refused";

export interface Host {
  readonly gatekeeper: Gatekeeper;
  readonly hedge: HedgeOptions | undefined;
  /** Since the destination was made. */
  readonly counts: Record<Counted, number>;
  /** The destination's word on all its calls. */
  readonly idempotent: boolean | undefined;

  hasListeners(): boolean;
  emit(event: CallEvent): void;

  /** Watches an attempt that may need a hedge; undefined where hedging is off or not allowed. */
  startRace<T>(call: GuardedCall<T>, attempt: Attempt<T>): HedgeRace<T> | undefined;

  /** True if the destination's own fallback wants to know of successes. */
  readonly remembers: boolean;

  hasFallback<T>(call: GuardedCall<T>): boolean;

  /** The substitute for a call that was given up. */
  fallBack<T>(call: GuardedCall<T>, error: unknown): Promise<T>;

  remember<T>(call: GuardedCall<T>, value: T): void;

  /** New credentials; undefined where nobody can get any. Calls that ask at once share the answer. */
  reauthenticate(): Promise<void> | undefined;
}
