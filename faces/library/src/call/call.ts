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
  Decision,
  Outcome,
  Permit,
  Policy,
  Random,
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
  /** Undefined for a call of `retry`. */
  readonly destination: CallDestination | undefined;

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
  withLongestWait(outcome: Outcome, now: number): Outcome;
  /** Sends no further copies. */
  stopCopies(): void;
  /** Ends the race: aborts the attempts that still run. */
  end(reason?: unknown): void;
}

/** What a call needs from its destination. */
export interface CallDestination {
  /** Whether the destination declares all its calls idempotent. */
  readonly idempotent: boolean | undefined;

  readonly hasListeners: boolean;
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
  ): Decision;

  recordSuccess<T>(call: Call<T>, value: T): void;

  /** Aborts hedged copies of a call that has failed. `reason` is why the call was aborted, if it was. */
  abortCopies<T>(call: Call<T>, reason?: unknown): void;

  /** Runs the fallbacks of a call that was given up. True if a fallback settles the call. */
  fallBack<T>(call: Call<T>, reason: StopReason, result: AttemptResult<T>, error: unknown): boolean;

  /** The endpoint for a hedged copy. */
  endpointOf(copy: number): string | undefined;
}
