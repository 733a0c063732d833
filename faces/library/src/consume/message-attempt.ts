/**
 * Message attempt: one attempt of a message, as a call of the consumer's destination. The guards treat
 * it like any other attempt. What follows a failure is core's decision; it is returned instead of
 * awaited, because the broker does the waiting.
 */
import {
  type Cancel,
  compiledPolicyOf,
  type Outcome,
  type Policy,
  type Random,
  type StopDecision,
  type StopReason,
  type Verdict,
} from "@redrive/core";
import type { ClockReading } from "../call/cached-clock.ts";
import type { Attempt, Call, CallDestination, NextStep } from "../call/call.ts";
import { nextTimeoutMs } from "../call/call-deadline.ts";
import type { CallEvent } from "../call/call-event.ts";
import { abortAttempt, giveUp } from "../call/call-execution.ts";
import { NO_RESULT } from "../call/classify-attempt.ts";
import { retryStateOf } from "../call/failure-records.ts";
import type { AttemptResult } from "../call/options.ts";
import type { LiveMember } from "./live-list.ts";
import type { MessageState } from "./message-state.ts";

/** How a message attempt ended, if it did not succeed. */
export interface FailedAttempt {
  /**
   * `failed`: the handler ran and failed. `held`: a guard holds the attempt for longer than this process
   * waits. `aborted`: the consumer stops. `refused`: a guard or the total budget ended it before it
   * started. Only `failed` uses an attempt.
   */
  readonly end: "failed" | "held" | "aborted" | "refused";
  readonly reason: StopReason;
  readonly error: unknown;
  /** `terminal` if no attempt was made. */
  readonly verdict: Verdict;
  /** The wait for the next attempt; undefined if there is none. */
  readonly next: Exclude<NextStep, StopDecision> | undefined;
}

/**
 * It is also the signal of its call. A call adds itself as the listener of its signal before its first
 * attempt, so this is where the call learns about its earlier attempts.
 */
export class MessageAttempt implements CallDestination, LiveMember {
  readonly #state: MessageState;
  readonly #maxHoldMs: number;
  /** Of the signal: the call is ended by `abort`. */
  readonly aborted = false;

  // Mutable state.
  index = -1;
  #destination: CallDestination | undefined;
  #call: Call<unknown> | undefined;
  #policy: Policy | undefined;
  #next: NextStep | undefined;
  #verdict: Verdict = "terminal";
  #failure: FailedAttempt | undefined;
  #cancelHold: Cancel | undefined;
  #isHeldTooLong = false;
  #isAborted = false;

  /** `maxHoldMs`: how long a guard may hold the attempt inside this process. */
  constructor(state: MessageState, maxHoldMs: number) {
    this.#state = state;
    this.#maxHoldMs = maxHoldMs;
  }

  /** Set when the call has rejected. */
  get failure(): FailedAttempt | undefined {
    return this.#failure;
  }

  get signal(): AbortSignal {
    return this as unknown as AbortSignal;
  }

  /** How long the call has been running, in whole ms. */
  elapsedMs(): number {
    const call = this.#call;
    if (call === undefined) return 0;
    return Math.floor(call.config.clock.monotonicMs() - call.started.monotonicMs);
  }

  removeEventListener(): void {}

  addEventListener(_type: string, call: Call<unknown>): void {
    this.#call = call;
    this.#destination = call.destination;
    call.destination = this;
    this.#policy = call.policy;
    const { attempts, startedAt, previousDelayMs, isThrottled } = this.#state;
    const { epochMs, monotonicMs } = call.started;
    const elapsedMs = Math.max(0, epochMs - startedAt);
    if (elapsedMs > 0) {
      keepQueuedSince(call, { epochMs: startedAt, monotonicMs: monotonicMs - elapsedMs });
      call.latest.timeoutMs = nextTimeoutMs(call);
    }
    if (attempts === 0) return;
    call.attempts = attempts;
    (call.latest as { attempt: number }).attempt = attempts + 1;
    const retryState = retryStateOf(call);
    retryState.previousDelayMs = previousDelayMs;
    retryState.isThrottled = isThrottled;
    skipDraws(retryState.random, call.policy, attempts);
  }

  /** Ends the attempt now; it does not count. Does nothing if it has ended. */
  abort(reason: unknown): void {
    const call = this.#call;
    if (call === undefined || call.over) return;
    this.#isAborted = true;
    if (this.#hasStarted(call)) abortAttempt(call.latest, reason);
    giveUp(call, "aborted", { error: reason });
  }

  enter<T>(call: Call<T>): void {
    // The call is marked `once`, so that it is not hedged. Its policy is still the whole one.
    if (this.#policy !== undefined) call.policy = this.#policy;
    this.#inner.enter(call);
    if (!call.over && !this.#hasStarted(call)) this.#limitHold(call);
  }

  #limitHold<T>(call: Call<T>): void {
    this.#cancelHold = call.config.clock.alarm(this.#maxHoldMs, () => {
      if (call.over || this.#hasStarted(call)) return;
      this.#isHeldTooLong = true;
      giveUp(call, "held", NO_RESULT);
    });
  }

  #hasStarted<T>({ attempts }: Call<T>): boolean {
    return attempts > this.#state.attempts;
  }

  leave<T>(attempt: Attempt<T>, outcome: Outcome, verdict: Verdict): void {
    this.#verdict = verdict;
    this.#inner.leave(attempt, outcome, verdict);
  }

  outcomeToDecide<T>(
    attempt: Attempt<T>,
    result: AttemptResult<T>,
    outcome: Outcome,
    verdict: Verdict,
  ): Outcome | false {
    return this.#inner.outcomeToDecide(attempt, result, outcome, verdict);
  }

  /** The call ends here; the broker waits for the next attempt. */
  decide<T>(
    call: Call<T>,
    outcome: Outcome,
    now: number,
    random: Random,
    throttled: boolean,
  ): NextStep {
    this.#next = this.#inner.decide(call, outcome, now, random, throttled);
    if (this.#next.kind === "stop") return this.#next;
    return { kind: "stop", status: "EXHAUSTED", reason: "attempts" };
  }

  recordSuccess<T>(call: Call<T>, value: T): void {
    this.#cancelHold?.();
    this.#inner.recordSuccess(call, value);
  }

  /** Fallbacks are for callers that wait. A message becomes a dead letter instead. */
  fallBack<T>(
    call: Call<T>,
    reason: StopReason,
    result: AttemptResult<T>,
    error: unknown,
  ): boolean {
    this.#cancelHold?.();
    const next = this.#next?.kind === "stop" ? undefined : this.#next;
    const thrown = "error" in result ? result.error : error;
    this.#failure = { end: this.#endOf(call), reason, error: thrown, verdict: this.#verdict, next };
    return false;
  }

  #endOf<T>(call: Call<T>): FailedAttempt["end"] {
    if (this.#isAborted) return "aborted";
    if (this.#isHeldTooLong) return "held";
    return this.#hasStarted(call) ? "failed" : "refused";
  }

  get #inner(): CallDestination {
    if (this.#destination === undefined) throw new Error("a message attempt has no destination");
    return this.#destination;
  }

  get idempotent(): boolean | undefined {
    return this.#inner.idempotent;
  }

  get hasListeners(): boolean {
    return this.#inner.hasListeners;
  }

  labelsOf<T>(call: Call<T>): Pick<CallEvent, "destination" | "key"> {
    return this.#inner.labelsOf(call);
  }

  emit(event: CallEvent): void {
    this.#inner.emit(event);
  }

  reports(reason: StopReason): boolean {
    return this.#inner.reports(reason);
  }

  endpointOf(copy: number): string | undefined {
    return this.#inner.endpointOf(copy);
  }
}

/** A call whose first attempt a guard has held would set it to its own start. */
function keepQueuedSince(call: Call<unknown>, since: ClockReading): void {
  Object.defineProperty(call, "queuedSince", { get: () => since, set: () => undefined });
}

/** The stream continues after the draws of the earlier attempts, as it does in one call. */
function skipDraws(random: Random, policy: Policy, attempts: number): void {
  if (compiledPolicyOf(policy).draws) for (let n = 0; n < attempts; n++) random.next();
}
