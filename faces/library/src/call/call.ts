/**
 * Call and Attempt: the two types that the library runs on. A call is what the caller awaits. It
 * makes attempts until one succeeds or core decides to stop. `CallDestination` is what a call needs
 * from its destination; a call of `retry` has none, so `retry` alone loads no guards, hedges and
 * fallbacks. The types refer to each other and therefore share this file. `call-execution.ts`
 * implements calls and attempts.
 */
import type {
  Breaker,
  Cancel,
  DelaySource,
  HoldReason,
  Outcome,
  Permit,
  Policy,
  Random,
  RetryDecision,
  StopDecision,
  StopReason,
  Verdict,
} from "@redrive/core";
import type { ClockReading } from "./cached-clock.ts";
import type { CallConfig } from "./call-config.ts";
import type { CallEvent } from "./call-event.ts";
import type { AttemptContext, AttemptResult, Operation, RunOptions } from "./options.ts";
import type { RetryLayer } from "./retry-layer.ts";
import type { RetryState } from "./retry-state.ts";
import type { TimeoutEntry } from "./shared-timer.ts";

/** One wrapped call, from start to end. */
export interface Call<T> extends RetryLayer {
  readonly config: CallConfig;
  readonly operation: Operation<T>;
  readonly options: RunOptions<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
  /** Undefined for a call of `retry`. Code that few calls reach reads it with `destinationOf`. */
  destination: CallDestination | undefined;

  policy: Policy;
  /** Number of attempts so far, without hedged copies. */
  attempts: number;
  /** When the first attempt started. */
  readonly started: ClockReading;
  /** When the call itself started, if its first attempt had to wait. */
  queuedSince: ClockReading | undefined;
  over: boolean;
  /** Created when an attempt fails. */
  retryState: RetryState<T> | undefined;
  /** Cancels the latest wait; undefined if the call has never waited. */
  cancelWait: Cancel | undefined;
  /** The retrying layer around the call. */
  outer: RetryLayer | undefined;
  /** The latest attempt that is not a hedged copy. */
  latest: Attempt<T>;
  /** The breaker that the destination uses for this call. */
  breaker: Breaker | undefined;
  /** The latest attempt and its hedged copies, if it is hedged. */
  race: AttemptRace | undefined;

  /** Handles the abort event of the caller's signal. */
  handleEvent(): void;
}

/** One run of a call's operation. The operation gets the attempt as its context. */
export interface Attempt<T> extends AttemptContext, TimeoutEntry {
  readonly call: Call<T>;
  started: ClockReading;
  /** Set to 0 when the operation ends after its attempt was aborted. */
  timeoutMs: number;
  settled: boolean;
  /** The breaker's pass, and the permit of the destination's guards; none without guards. */
  pass: number;
  permit: Permit | undefined;
  /** Created when the operation reads its signal or the attempt is aborted. */
  controller: AbortController | undefined;
}

/** An attempt and its hedged copies. The first success wins. */
export interface AttemptRace {
  /** True while any of the attempts has not ended. */
  hasRunning(): boolean;
  /** Returns the outcome with the longest wait that any of the attempts was asked for. */
  withMaxWait(outcome: Outcome, now: number): Outcome;
  /** Ends the race: sends no further copies and aborts the attempts that still run. */
  end(reason?: unknown): void;
}

/** What follows a failed attempt. To a call, a guard that holds its next attempt is one more wait. */
export type NextStep =
  | StopDecision
  | (Omit<RetryDecision, "source"> & { readonly source: DelaySource | HoldReason });

/** What a call needs from its destination. */
export interface CallDestination {
  /** Whether the destination declares all its calls idempotent. */
  readonly idempotent: boolean | undefined;

  readonly hasListeners: boolean;

  /** The fields that tell events of this call from others. */
  labelsOf<T>(call: Call<T>): Pick<CallEvent, "destination" | "key">;

  emit(event: CallEvent): void;

  /** Asks the guards for the next attempt, then launches it, waits or gives up. */
  enter<T>(call: Call<T>): void;

  /** Reports to the guards that an attempt has ended. */
  leave<T>(attempt: Attempt<T>, outcome: Outcome, verdict: Verdict): void;

  /** The outcome that core decides on; false while a copy still runs or credentials are renewed. */
  outcomeToDecide<T>(
    attempt: Attempt<T>,
    result: AttemptResult<T>,
    outcome: Outcome,
    verdict: Verdict,
  ): Outcome | false;

  /** Core's decision after a failed attempt. It takes the guards into account. */
  decide<T>(
    call: Call<T>,
    outcome: Outcome,
    now: number,
    random: Random,
    throttled: boolean,
  ): NextStep;

  /** True for reasons that the caller must learn even if nothing was retried. */
  reports(reason: StopReason): boolean;

  recordSuccess<T>(call: Call<T>, value: T): void;

  /** Runs the fallbacks of a call that was given up. True if a fallback settles the call. */
  fallBack<T>(call: Call<T>, reason: StopReason, result: AttemptResult<T>, error: unknown): boolean;

  /** The endpoint for a hedged copy. */
  endpointOf(copy: number): string | undefined;
}

let hasDestinations = false;

/** Called before the first call with a destination is created. */
export function enableDestinations(): void {
  hasDestinations = true;
}

/**
 * The destination of a call, if any. A program without destinations never calls `enableDestinations`.
 * Bundlers see that, so they drop the code that needs the result. The path of a call that succeeds reads
 * `call.destination` instead: testing the flag costs a call to a destination a tenth of its time.
 */
export function destinationOf<T>(call: Call<T>): CallDestination | undefined {
  return hasDestinations ? call.destination : undefined;
}
