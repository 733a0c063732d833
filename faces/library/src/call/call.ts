/**
 * Call and Attempt: the two types that the library runs on, and what can be computed from them. A call is
 * what the caller awaits. It makes attempts until one succeeds or core decides to stop. `CallDestination` is
 * what a call needs from its destination; a call of `retry` has none, so `retry` alone loads no guards, hedges
 * and fallbacks. `retry.ts` implements calls and attempts.
 */
import {
  type AttemptRecord,
  type Breaker,
  type CallHistory,
  type CallRequest,
  type Cancel,
  classifyError,
  classifyOutcome,
  type DelaySource,
  FAULT,
  type HoldReason,
  invalidArgument,
  type Outcome,
  type Permit,
  type Policy,
  type Random,
  RedriveError,
  type RetryDecision,
  remainingMs,
  retryHintOf,
  type StopDecision,
  type StopReason,
  type Verdict,
} from "@redrive/core";
import type { CallConfig } from "./call-config.ts";
import type { CallEvent } from "./call-event.ts";
import type { AttemptContext, AttemptResult, Classify, Operation, RunOptions } from "./options.ts";
import { markCombined, markSignal, type RetryLayer } from "./retry-layer.ts";
import type { ClockReading, TimeoutEntry } from "./shared-timer.ts";

/** One wrapped call, from start to end. */
export interface Call<T> extends RetryLayer {
  readonly isOverdue: boolean;
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
  /** Set to 0 when the operation ends after its attempt, or when it is reported to run on. */
  timeoutMs: number;
  settled: boolean;
  /** It has timed out, and its operation still runs and has never read its signal. */
  overdue: boolean;
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
  /** True while the operation of any of the attempts is overdue. */
  hasOverdue(): boolean;
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

  /** `outcome`: that of a response, which may be an answer such as 404. */
  recordSuccess<T>(call: Call<T>, value: T, outcome: Outcome): void;

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

/** What a call remembers once an attempt has failed. A call that succeeds at once creates none. */
export interface RetryState<T> {
  readonly records: AttemptRecord[];
  /** The call's own random stream. */
  readonly random: Random;
  previousDelayMs: number;
  /** How the latest failed attempt ended. */
  lastResult: AttemptResult<T> | undefined;
  /** Set by a destination: a call renews credentials at most once. */
  hasReauthenticated?: boolean;
  /** Set by a destination: the next attempt uses new credentials. */
  hasNewCredentials?: boolean;
  /** Set by a destination: the next attempt follows a throttling response. */
  isThrottled?: boolean;
}

/** Counts the calls without a key per source of randomness: the number names the call's stream. */
const callCounts = new WeakMap<Random, number>();

/** Each call draws from its own stream, which is named by the call's key. */
export function createRetryState<T>(random: Random, key: string | undefined): RetryState<T> {
  return {
    records: [],
    random: random.fork(key ?? nextStreamName(random)),
    previousDelayMs: 0,
    lastResult: undefined,
  };
}

function nextStreamName(random: Random): string {
  const count = (callCounts.get(random) ?? 0) + 1;
  callCounts.set(random, count);
  return String(count);
}

// The abort signal of an attempt, and the signals that callers pass. That of an attempt is created when the
// operation reads it or when the attempt is aborted, because most operations never do.

/** An operation that reads the signal of an overdue attempt learns that its time is over. */
export function createController<T>(attempt: Attempt<T>): AbortController {
  const controller = new AbortController();
  attempt.controller = controller;
  if (!attempt.settled) markSignal(controller.signal, attempt.call);
  else if (attempt.overdue) controller.abort(timeoutError(attempt));
  return controller;
}

export function timeoutError<T>({ attempt, timeoutMs }: Attempt<T>): RedriveError {
  const message = `attempt ${attempt} took longer than ${timeoutMs} ms`;
  return new RedriveError("ATTEMPT_TIMEOUT", message);
}

/** A signal that is aborted with the attempt or with any of the others. It passes the layer on. */
export function anySignalOf<T>(
  attempt: Attempt<T>,
  others: readonly (AbortSignal | null | undefined)[],
): AbortSignal {
  const all = [attempt.signal, ...others].filter((signal) => signal != null);
  const combined = combinedSignal(all);
  markCombined(combined, () => (attempt.settled ? undefined : attempt.call));
  return combined;
}

/** `AbortSignal.any`, also where the runtime has none (React Native, old browsers). */
function combinedSignal(signals: readonly AbortSignal[]): AbortSignal {
  if (typeof AbortSignal.any === "function") return AbortSignal.any([...signals]);
  const controller = new AbortController();
  for (const signal of signals) {
    const abort = () => controller.abort(signal.reason);
    if (signal.aborted) abort();
    // Listens no longer than until one of them is aborted.
    signal.addEventListener("abort", abort, { once: true, signal: controller.signal });
  }
  return controller.signal;
}

export function abortSignal<T>(attempt: Attempt<T>, reason: unknown): void {
  (attempt.controller ?? createController(attempt)).abort(reason);
}

/** What an abort by the caller ends. */
interface Abortable {
  handleEvent(): void;
}

/** The calls that wait for a signal. Programs pass one signal, such as that of a shutdown, to many calls. */
class SharedListener {
  readonly calls = new Set<Abortable>();

  handleEvent(): void {
    for (const call of [...this.calls]) call.handleEvent();
  }
}

const shared = new Map<AbortSignal, SharedListener>();

/** Ends the call when the signal is aborted. All calls share one listener: Node warns of more than ten. */
export function listenToAbort(signal: AbortSignal, call: Abortable): void {
  // Something else that looks like a signal may want to know the call.
  if (!(signal instanceof AbortSignal)) {
    (signal as AbortSignal).addEventListener("abort", call);
    return;
  }
  let listener = shared.get(signal);
  if (listener === undefined) {
    listener = new SharedListener();
    shared.set(signal, listener);
    signal.addEventListener("abort", listener);
  }
  listener.calls.add(call);
}

export function ignoreAbort(signal: AbortSignal, call: Abortable): void {
  const listener = shared.get(signal);
  if (listener === undefined) {
    signal.removeEventListener("abort", call);
    return;
  }
  listener.calls.delete(call);
  if (listener.calls.size > 0) return;
  shared.delete(signal);
  signal.removeEventListener("abort", listener);
}

// How long a call has run, how much time it has left, and what core needs to know about it to decide.

/** The request that core decides on. Its deadline is the call's or the outer layer's, if earlier. */
export function requestOf<T>(call: Call<T>): CallRequest {
  const { options, outer } = call;
  const { method, idempotent = destinationOf(call)?.idempotent, idempotencyKey } = options;
  const outerAt = outer?.deadlineAt;
  const deadlineAt =
    outerAt === undefined ? options.deadlineAt : Math.min(outerAt, options.deadlineAt ?? outerAt);
  return { method, idempotent, idempotencyKey, deadlineAt };
}

export function historyOf<T>(call: Call<T>, now: number): CallHistory {
  const previousDelayMs = call.retryState?.previousDelayMs ?? 0;
  return { attempt: call.attempts, startedAt: now - elapsedMs(call), previousDelayMs };
}

export function elapsedMs<T>({ config, started, queuedSince = started }: Call<T>): number {
  return Math.floor(config.timer.clock.monotonicMs() - queuedSince.monotonicMs);
}

/** When the whole call must have ended; epoch ms. */
export function deadlineOf<T>(call: Call<T>): number {
  const now = call.config.clock.now();
  return now + leftMs(call, now);
}

/** The time that the whole call has left. */
export function leftMs<T>(call: Call<T>, now: number = call.config.clock.now()): number {
  return remainingMs(call.policy, requestOf(call), historyOf(call, now), now);
}

/** The timeout of an attempt that starts now. */
export function nextTimeoutMs<T>(call: Call<T>): number {
  const timeoutMs = Math.min(call.policy.attemptTimeoutMs, Math.floor(leftMs(call)));
  return Math.max(1, timeoutMs);
}

/**
 * An operation throws it to end its call at once, without a retry. `throw new NonRetryableError(error)` ends
 * the call, which rejects with `error`. A string becomes an
 * `Error`.
 */
export class NonRetryableError extends Error {
  override readonly name: string = "NonRetryableError";

  constructor(error: unknown) {
    const cause: unknown = error === Object(error) ? error : new Error(error as string);
    super((cause as Error).message, { cause });
    markNonRetryable(this);
  }
}

// Classification turns the result of an attempt into core's outcome and verdict. The caller's `classify`
// decides where it returns something; otherwise the properties of the error decide.

/** The result of a call that made no attempt: there is no error. */
export const NO_RESULT: AttemptResult<never> = { error: undefined };

const VERDICTS: readonly unknown[] = ["success", "transient", "throttled", "terminal", "aborted"];

/** An invalid return value must not mean "retry": that could repeat an operation that succeeded. */
function assertOneOf<V>(name: string, allowed: readonly unknown[], value: V): V {
  if (allowed.includes(value)) return value;
  throw invalidArgument(`${name} must return one of ${allowed.join(", ")}`, value);
}

/**
 * Errors that end a call without a retry: each `NonRetryableError`, and the error inside it, for the
 * outer layer. Created with the first one, so bundlers drop this code from programs that have none.
 */
let nonRetryable: WeakMap<object, RetryLayer | true | undefined> | undefined;

function markNonRetryable(error: Error): void {
  nonRetryable ??= new WeakMap();
  nonRetryable.set(error, true);
}

/** True if the operation threw a `NonRetryableError`. */
export function isNonRetryable<T>(result: AttemptResult<T>): boolean | undefined {
  return nonRetryable && "isNonRetryable" in result;
}

/** The result that a thrown value stands for. */
export function resultOfThrown(
  thrown: unknown,
  call: RetryLayer & { readonly outer: RetryLayer | undefined },
): Exclude<AttemptResult<never>, { value: never }> {
  const mark = nonRetryable?.get(thrown as object);
  if (!mark || (mark !== true && mark !== call)) return { error: thrown };
  const error: unknown = mark === true ? (thrown as Error).cause : thrown;
  nonRetryable?.set(error as object, call.outer);
  return { error, isNonRetryable: true };
}

/**
 * The result, outcome and verdict of an attempt. `shouldRetry` comes last, for errors with an attempt
 * left. If `classify` or `shouldRetry` throws, the program has a mistake: the call ends with that
 * error.
 */
export function classifyAttempt<T>(
  attempt: Attempt<T>,
  result: AttemptResult<T>,
  seen: Outcome,
): readonly [AttemptResult<T>, Outcome, Verdict] {
  const { options, policy, attempts } = attempt.call;
  const { classify, shouldRetry } = options;
  try {
    const outcome = classifiedOutcome(classify, result, attempt.attempt, seen);
    const verdict = assertOneOf("classify", VERDICTS, classifyOutcome(policy, outcome));
    const isRetryable = verdict === "transient" || verdict === "throttled";
    const asksCaller =
      shouldRetry && isRetryable && "error" in result && attempts < policy.maxAttempts;
    return !asksCaller ||
      assertOneOf("shouldRetry", [true, false], shouldRetry(result.error, attempt))
      ? [result, outcome, verdict]
      : [result, { ...outcome, verdict: "terminal" }, "terminal"];
  } catch (error) {
    return [{ error }, FAULT, "terminal"];
  }
}

/** `classify` returns a verdict on the outcome that was seen, or an outcome that replaces it. */
function classifiedOutcome<T>(
  classify: Classify<T> | undefined,
  result: AttemptResult<T>,
  attempt: number,
  seen: Outcome,
): Outcome {
  if (isNonRetryable(result)) return { ...seen, verdict: "terminal" };
  const own: Verdict | Outcome | undefined = classify?.(result, attempt);
  if (own === undefined) return seen;
  return typeof own === "object" && own !== null ? own : { ...seen, verdict: own };
}

/**
 * The outcome of a thrown value, with its retry hint. `isAborted`: the call or its attempt was aborted. Our timeout is recognized by its code. An inner
 * call that gave up counts as its cause; if the inner call was not idempotent, the outer one is not
 * repeated either. An error of our service counts by its status, and a store
 * that is not available passes. Our other errors are mistakes in the program.
 */
export function outcomeOfError(error: unknown, now: number, isAborted = true): Outcome {
  if (!(error instanceof RedriveError) || isClassified(error)) {
    const outcome = classifyError(error, isAborted);
    const hint = retryHintOf(error, now, "status" in outcome ? outcome.status : undefined);
    return hint ? { ...outcome, ...hint } : outcome;
  }
  if (error.code !== "GAVE_UP") return FAULT;
  const outcome = outcomeOfError(error.cause, now, isAborted);
  return error.reason === "not-idempotent" ? { ...outcome, verdict: "terminal" } : outcome;
}

function isClassified({ code, status }: RedriveError): boolean {
  return status !== undefined || code === "ATTEMPT_TIMEOUT" || code === "STORE_UNAVAILABLE";
}

// What a failed call resolves or rejects with: the operation's own error if nothing was retried, else an
// error that has every attempt.

/** True if the call resolves with its last value although that value is a failure. */
export function resolvesWithLast<T>(
  call: Call<T>,
  result: AttemptResult<T>,
): result is { readonly value: T } {
  return call.options.keepLast === true && "value" in result;
}

/** Settles the caller's promise after a failure. */
export function settleCall<T>(call: Call<T>, result: AttemptResult<T>, error: unknown): void {
  if (resolvesWithLast(call, result)) call.resolve(result.value);
  else call.reject(error);
}

/** True if the call rejects with what the operation threw: nothing was retried. */
export function isOriginalError<T>(
  call: Call<T>,
  reason: StopReason,
  result: AttemptResult<T>,
): boolean {
  if (!("error" in result)) return false;
  if (reason === "aborted" || isNonRetryable(result)) return true;
  const { error } = result;
  const isTimeout = error instanceof RedriveError && error.code === "ATTEMPT_TIMEOUT";
  return call.attempts === 1 && !isTimeout && !destinationOf(call)?.reports(reason);
}

/** What the call rejects with: the operation's own error, or one that has every attempt. */
export function rejectionFor<T>(
  call: Call<T>,
  reason: StopReason,
  result: AttemptResult<T>,
): unknown {
  const { config, options, attempts, retryState } = call;
  const cause = "error" in result ? result.error : undefined;
  const isLast = options.rejectWith === "last-error" && attempts > 0 && "error" in result;
  if (isLast || isOriginalError(call, reason, result)) return cause;
  const prefix = destinationOf(call) ? `${config.name}: ` : "";
  const count = `${attempts} attempt${attempts === 1 ? "" : "s"}`;
  const detail = cause instanceof Error ? cause.message : reason === "budget" && deadlineText(call);
  const message = `${prefix}gave up after ${count} (${reason})${detail ? `: ${detail}` : ""}`;
  return new RedriveError("GAVE_UP", message, {
    reason,
    attempts: retryState?.records ?? [],
    cause,
  });
}

/** Whose deadline left no time; empty if it is the total budget of the call itself. */
function deadlineText<T>(call: Call<T>): string {
  const { outer, options, config } = call;
  const { deadlineAt } = requestOf(call);
  if (deadlineAt === undefined) return "";
  const isOwn = deadlineAt === options.deadlineAt;
  const around = outer?.location === "caller" ? "the caller of this request" : "the outer call";
  const leftMs = deadlineAt - config.clock.now();
  const state = leftMs > 0 ? `is in ${leftMs} ms` : `passed ${-leftMs} ms ago`;
  return `the deadline of ${isOwn ? "the call" : around} ${state}`;
}
