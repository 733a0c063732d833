/**
 * Retry: runs one wrapped call, of `retry` or of a destination. It carries out core's decisions: it makes
 * attempts, waits between them and ends the call, but makes no retry decisions itself. A destination adds
 * guards, hedges and fallbacks through `CallDestination`.
 *
 * Most calls make one attempt, which succeeds. Such a call is a single object on a short path;
 * everything that only failures need is created when an attempt fails.
 */

import {
  ABORTED,
  type AttemptRecord,
  assertKey,
  type Breaker,
  type Cancel,
  decideUnguarded,
  type HoldReason,
  invalidArgument,
  isAnswer,
  isRepeatable,
  type Outcome,
  type Permit,
  type Policy,
  RedriveError,
  type StopDecision,
  type StopReason,
  SUCCESS,
  singleAttempt,
  timeoutOutcome,
  type Verdict,
} from "@redrive/core";
import {
  type Attempt,
  type AttemptRace,
  abortSignal,
  anySignalOf,
  type Call,
  type CallDestination,
  classifyAttempt,
  createController,
  createRetryState,
  deadlineOf,
  destinationOf,
  elapsedMs,
  historyOf,
  ignoreAbort,
  isOriginalError,
  leftMs,
  listenToAbort,
  type NextStep,
  NO_RESULT,
  nextTimeoutMs,
  outcomeOfError,
  type RetryState,
  rejectionFor,
  requestOf,
  resolvesWithLast,
  resultOfThrown,
  settleCall,
  timeoutError,
} from "./call.ts";
import { type CallConfig, retryConfigOf } from "./call-config.ts";
import { type CallEvent, type EventDetails, notify } from "./call-event.ts";
import type {
  AttemptContext,
  AttemptResult,
  Operation,
  RetryOptions,
  RunOptions,
} from "./options.ts";
import { outerLayer, type RetryLayer, runInScope, unmarkSignal } from "./retry-layer.ts";
import type { ClockReading, TimeoutList } from "./shared-timer.ts";

const NO_OPTIONS: object = {};

/**
 * Wraps one call without any setup. It is stateless: calls share no guards. Use `destination` for calls that
 * share one dependency.
 *
 * Calls `fn` until it succeeds or core decides to stop. Resolves with its value. Rejects with its own
 * error if nothing was retried, else with a `RedriveError` that has every attempt.
 */
export function retry<T>(
  fn: Operation<T>,
  options: RetryOptions<T> = NO_OPTIONS as RetryOptions<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    startCall(new CallExecution(retryConfigOf(options), fn, options, resolve, reject));
  });
}

/** About 32 years: no caller's deadline passed so long ago, but a duration or epoch seconds seem to have. */
const LONG_AGO_MS = 1e12;

/**
 * Checks the signal, the deadline, the key and the outer retrying layer of a call, then starts its first
 * attempt, unless the call is refused or already aborted.
 */
export function startCall<T>(call: Call<T>): void {
  const { signal, deadlineAt, once } = call.options;
  const outer = outerLayer(signal);
  const isBare = !(signal || outer || once || call.config.needsCheck) && deadlineAt === undefined;
  if (isBare || mayStart(call, outer)) startNextAttempt(call);
}

/** Checks what few calls have. False if the call has ended before its first attempt. */
function mayStart<T>(call: Call<T>, outer: RetryLayer | undefined): boolean {
  const { signal, deadlineAt, once, nested } = call.options;
  if (signal?.aborted) {
    call.reject(signal.reason);
    return false;
  }
  call.outer = outer;
  const { config } = call;
  if (config.needsCheck) {
    assertKey(call.policy, requestOf(call));
    config.needsCheck = config.policy.requireIdempotencyKey;
    retainCall(config);
  }
  // The policy is not the only limit on the call's time.
  if (outer !== undefined || deadlineAt !== undefined) {
    const now = config.clock.now();
    const instant = deadlineAt ?? now;
    if (!(instant > now - LONG_AGO_MS && instant <= Number.MAX_SAFE_INTEGER)) {
      throw invalidArgument("deadlineAt must be epoch ms, not decades ago", instant);
    }
    if (leftMs(call, now) <= 0) {
      giveUp(call, "budget", NO_RESULT);
      return false;
    }
    call.latest.timeoutMs = nextTimeoutMs(call);
  }
  if (signal) listenToAbort(signal, call);
  if (outer?.location === "process") {
    outer.inner ??= new Set();
    outer.inner.add(call);
  }
  if (once) call.policy = singleAttempt(call.policy);
  // An outer layer already retries, so this call makes a single attempt unless its options say not to.
  if (outer?.retries && call.policy.maxAttempts > 1 && nested !== "retry") {
    call.policy = singleAttempt(call.policy);
    emit(call, { type: "yield", to: outer.location });
  }
  // The listener may have aborted the call.
  return !call.over;
}

/**
 * Implements both a call and an attempt: a call object is also its own first attempt, which is the
 * only one that most calls make. Further attempts are objects of the same class: a second class would
 * cost each call more than the unused fields do. The signal is created when it is read, because most
 * operations never read it and it costs more than the rest of the call.
 */
export class CallExecution<T> implements Call<T>, Attempt<T> {
  /** A variable that nobody reads would be removed by minifiers; a property of the class is not. */
  static retained?: Call<unknown>;

  readonly config: CallConfig;
  readonly operation: Operation<T>;
  readonly options: RunOptions<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
  destination: CallDestination | undefined = undefined;

  readonly call: Call<T>;
  attempt = 1;
  copy = 0;
  started: ClockReading;
  timeoutMs: number;
  expiresMs: number | undefined = undefined;
  list: TimeoutList | undefined = undefined;
  index = 0;
  settled = false;
  overdue = false;
  pass = 0;
  permit: Permit | undefined = undefined;
  controller: AbortController | undefined = undefined;

  policy: Policy;
  attempts = 0;
  queuedSince: ClockReading | undefined = undefined;
  over = false;
  retryState: RetryState<T> | undefined = undefined;
  cancelWait: Cancel | undefined = undefined;
  outer: RetryLayer | undefined = undefined;
  inner: Set<RetryLayer> | undefined = undefined;
  latest: Attempt<T> = this;
  breaker: Breaker | undefined = undefined;
  race: AttemptRace | undefined = undefined;

  /** Creates a call or, if `call` is given, a further attempt of that call. */
  constructor(
    config: CallConfig,
    operation: Operation<T>,
    options: RunOptions<T>,
    resolve: (value: T) => void,
    reject: (reason: unknown) => void,
    call?: Call<T>,
  ) {
    this.config = config;
    this.operation = operation;
    this.options = options;
    this.resolve = resolve;
    this.reject = reject;
    this.call = call ?? this;
    this.started = config.timer.clock.read();
    this.timeoutMs = config.timeoutMs;
    this.policy = config.policy;
  }

  get location(): "process" {
    return "process";
  }

  get signal(): AbortSignal {
    return (this.controller ?? createController(this)).signal;
  }

  get anySignal(): AttemptContext["anySignal"] {
    return (...signals) => anySignalOf(this, signals);
  }

  get isOverdue(): boolean {
    return this.latest.overdue || this.race?.hasOverdue() === true;
  }

  get idempotencyKey(): string | undefined {
    return this.options.idempotencyKey;
  }

  get deadlineAt(): number {
    return deadlineOf(this.call);
  }

  get timeoutAt(): number {
    const { clock } = this.config.timer;
    return clock.now() + this.timeoutMs - (clock.monotonicMs() - this.started.monotonicMs);
  }

  get previousError(): unknown {
    const last = this.call.retryState?.lastResult;
    return last && "error" in last ? last.error : undefined;
  }

  get endpoint(): string | undefined {
    return destinationOf(this.call)?.endpointOf(this.copy);
  }

  /** True if an inner layer should leave retrying to this call or to a layer around it. */
  get retries(): boolean {
    const { outer, policy } = this;
    return outer?.retries || (policy.maxAttempts > 1 && isRepeatable(requestOf(this)));
  }

  /** Handles the attempt's timeout. */
  expire(): void {
    if (this.settled) return;
    const error = timeoutError(this);
    endTime(this, error);
    handleResult(this, { error }, timeoutOutcome(this.call.policy, this.timeoutMs));
  }

  /**
   * An abort always wins: it ends a running attempt, a wait and the wait for a fallback. Only the timeout of
   * an outer attempt leaves alone what cannot be stopped.
   */
  handleEvent(): void {
    const error: unknown = this.options.signal?.reason;
    if (!this.over) {
      if (outlives(this, error)) return;
      // Abort before the slot is freed: a call that is let in must not run beside this one.
      if (this.attempts > 0) abortAttempt(this.latest, error);
      endCall(this, error);
      emit(this, { type: "give-up", reason: "aborted", attempts: this.attempts, error });
    }
    this.reject(error);
  }

  /** The outer call has ended. If this one has outlived an abort, it ends now. */
  endWithOuter(): void {
    if (this.options.signal?.aborted) this.handleEvent();
  }
}

/**
 * Ends the time of an attempt. An operation that has never read its signal cannot have been stopped, nor can
 * one that waits for such a call: the attempt is overdue, and its late success is still the result.
 */
function endTime<T>(attempt: Attempt<T>, error: unknown): void {
  attempt.overdue = attempt.controller === undefined;
  if (attempt.overdue) return;
  abortSignal(attempt, error);
  attempt.overdue = [...(attempt.call.inner ?? [])].some((call) => call.isOverdue);
}

/** The time of the outer attempt is over. True if the call goes on, for an operation that cannot be stopped. */
function outlives<T>(call: Call<T>, error: unknown): boolean {
  const { latest, outer } = call;
  const isTimeout = error instanceof RedriveError && error.code === "ATTEMPT_TIMEOUT";
  if (!isTimeout || !outer?.inner) return false;
  // What follows is for the outer call to decide.
  call.policy = singleAttempt(call.policy);
  if (!latest.settled && call.attempts > 0) {
    endTime(latest, error);
    // It had less time than its own policy gives it, so that it says nothing about the destination.
    if (latest.overdue) handleResult(latest, { error }, timeoutOutcome(call.policy, 0));
  }
  return call.isOverdue;
}

/** Starts the next attempt, through the guards if the call has a destination. */
export function startNextAttempt<T>(call: Call<T>): void {
  const { destination } = call;
  if (destination === undefined) launch(call, 0, undefined);
  else destination.enter(call);
}

/** Runs the operation once more. `pass` and `permit` come from the guards. */
export function launch<T>(call: Call<T>, pass: number, permit: Permit | undefined): Attempt<T> {
  const previous = call.latest;
  const isWaiting = previous.attempt > call.attempts;
  const attempt = isWaiting ? previous : nextAttempt(call, call.attempts + 1);
  attempt.pass = pass;
  attempt.permit = permit;
  if (!isWaiting) call.latest = attempt;
  call.attempts = attempt.attempt;
  call.config.timer.add(attempt);
  invoke(attempt, call.operation);
  if (!isWaiting) emitStillRunning(previous);
  return attempt;
}

/** Creates a further attempt, or a hedged copy of the attempt with this number. */
export function nextAttempt<T>(call: Call<T>, number: number): CallExecution<T> {
  const { config, operation, options, resolve, reject } = call;
  retainCall(config);
  const next = new CallExecution(config, operation, options, resolve, reject, call);
  next.timeoutMs = nextTimeoutMs(call);
  next.attempt = number;
  return next;
}

/** The error for an operation that is not a function. */
function misuseOf(operation: unknown): RedriveError {
  return invalidArgument(
    "fn must be a function",
    operation,
    isThenable(operation) ? "a promise: pass () => ..." : undefined,
  );
}

export function invoke<T>(attempt: Attempt<T>, operation: Operation<T>): void {
  let result: T | PromiseLike<T>;
  try {
    result = runInScope(attempt, operation);
    // Other thenables may throw, settle twice or resolve with a promise. Native promises do not.
    if (!(result instanceof Promise) && isThenable(result)) result = Promise.resolve(result);
  } catch (error) {
    handleError(attempt, typeof operation === "function" ? error : misuseOf(operation));
    return;
  }
  if (isThenable(result)) {
    result.then(
      (value) => handleValue(attempt, value),
      (error: unknown) => handleError(attempt, error),
    );
  } else handleValue(attempt, result);
}

function isThenable<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof (value as PromiseLike<T> | undefined)?.then === "function";
}

/** True if the operation ended too late to matter. */
function isLate<T>(attempt: Attempt<T>): boolean {
  if (!attempt.settled) return false;
  attempt.timeoutMs = 0;
  const isAwaited = attempt.overdue && !attempt.call.over;
  attempt.overdue = false;
  // The result replaces the timeout, and the wait that was planned after it.
  if (isAwaited) forgetTimeout(attempt);
  return !isAwaited;
}

function handleValue<T>(attempt: Attempt<T>, value: T): void {
  if (isLate(attempt)) return;
  if (attempt.call.options.classify === undefined) succeed(attempt, value);
  else handleResult(attempt, { value }, SUCCESS);
}

function handleError<T>(attempt: Attempt<T>, error: unknown): void {
  if (isLate(attempt)) return;
  const { call, controller, settled } = attempt;
  const result = resultOfThrown(error, call);
  // The signal of an attempt that is waited for was aborted by its timeout.
  const byAttempt = !settled && controller?.signal.aborted;
  const isAborted = Boolean(byAttempt || call.options.signal?.aborted);
  handleResult(attempt, result, outcomeOfError(result.error, call.config.clock.now(), isAborted));
}

function handleResult<T>(attempt: Attempt<T>, given: AttemptResult<T>, seen: Outcome): void {
  const { call } = attempt;
  const [result, outcome, verdict] = classifyAttempt(attempt, given, seen);
  // `classify` may have aborted the call.
  if (call.over) return;
  if (verdict === "success" && "value" in result) succeed(attempt, result.value, outcome);
  else {
    settleAttempt(attempt, outcome, verdict);
    if (call.over) return;
    const destination = destinationOf(call);
    const decidable = destination?.outcomeToDecide(attempt, result, outcome, verdict) ?? outcome;
    if (decidable) decideNext(attempt, result, decidable, verdict);
  }
}

function succeed<T>(attempt: Attempt<T>, value: T, outcome: Outcome = SUCCESS): void {
  const { call } = attempt;
  settleAttempt(attempt, SUCCESS, "success");
  if (call.over) return;
  endCall(call);
  call.destination?.recordSuccess(call, value, outcome);
  if (hasListener(call)) {
    const status = "status" in outcome && { status: outcome.status };
    const durationMs = elapsedMs(call);
    emit(call, { type: "success", ...attemptNumbers(attempt), durationMs, ...status });
  }
  call.resolve(value);
}

/** Ends the attempt: removes its timeout and reports it to the guards. Of an overdue one, they know. */
function settleAttempt<T>(attempt: Attempt<T>, outcome: Outcome, verdict: Verdict): void {
  if (attempt.settled) return;
  const { call, controller } = attempt;
  attempt.settled = true;
  if (controller) unmarkSignal(controller.signal);
  call.config.timer.remove(attempt);
  call.destination?.leave(attempt, outcome, verdict);
}

/** Aborts an attempt. It tells the guards nothing about the health of the destination. */
export function abortAttempt<T>(attempt: Attempt<T>, reason: unknown): void {
  if (attempt.settled) return;
  abortSignal(attempt, reason);
  settleAttempt(attempt, ABORTED, "aborted");
}

/** Asks core what follows a failed attempt, and carries it out. */
function decideNext<T>(
  attempt: Attempt<T>,
  result: AttemptResult<T>,
  outcome: Outcome,
  verdict: Verdict,
): void {
  const { call } = attempt;
  const { config, policy, attempts } = call;
  const destination = destinationOf(call);
  const now = config.timer.clock.now();
  // A call without attempts left asks no guard and draws no numbers, so it needs no stream.
  const isLast = attempts >= policy.maxAttempts;
  const random = isLast ? config.random : retryStateOf(call).random;
  const step =
    destination === undefined || isLast
      ? decideUnguarded(policy, requestOf(call), historyOf(call, now), outcome, now, random)
      : destination.decide(call, outcome, now, random, verdict === "throttled");
  const isStop = step.kind === "stop";
  if (isStop && resolvesWithLast(call, result) && isAnswer(outcome, verdict)) {
    succeed(attempt, result.value, outcome);
    return;
  }
  if (!isStop || !isOriginalError(call, step.reason, result) || hasListener(call)) {
    recordFailure(attempt, result, outcome, verdict, isStop ? undefined : step.delayMs, now);
  }
  // A listener may have aborted the call.
  if (call.over) return;
  if (isStop) giveUpWhenEnded(call, step.reason, result);
  else {
    recordRetry(call, step);
    wait(call, step.delayMs, () => startWhenEnded(call));
  }
}

/** Starts the next attempt. While an operation that cannot be stopped runs, the call waits for it. */
function startWhenEnded<T>(call: Call<T>): void {
  if (call.isOverdue) giveUpWhenEnded(call, "budget", retryStateOf(call).lastResult ?? NO_RESULT);
  else startNextAttempt(call);
}

/**
 * Gives up, but not before an operation that cannot be stopped has ended or the time of the call is over: a
 * late success is the result. For a call of a single attempt, the timeout of that is the end, unless an outer
 * call would then start another one.
 */
function giveUpWhenEnded<T>(call: Call<T>, reason: StopReason, result: AttemptResult<T>): void {
  const isSingle = call.config.policy.maxAttempts === 1 && !call.outer?.inner;
  if (call.isOverdue && !isSingle) {
    emitStillRunning(call.latest);
    wait(call, Math.max(0, leftMs(call)), () => giveUp(call, reason, result));
  } else giveUp(call, reason, result);
}

/** Does nothing if the call is over: a listener may have aborted it. */
export function wait<T>(call: Call<T>, delayMs: number, then: () => void): void {
  if (!call.over) call.cancelWait = call.config.clock.alarm(delayMs, then);
}

export function giveUp<T>(
  call: Call<T>,
  stopReason: StopReason,
  result: AttemptResult<T>,
  by?: HoldReason,
): void {
  // An error that `classify` declared a success is not a value to resolve with.
  const reason = stopReason === "succeeded" ? "not-retryable" : stopReason;
  endCall(call);
  // An operation that honors its signal ends within this event-loop turn.
  if (hasListener(call)) call.config.clock.endOfTurn(() => emitStillRunning(call.latest));
  const error = resolvesWithLast(call, result) ? undefined : rejectionFor(call, reason, result);
  emit(call, { type: "give-up", reason, attempts: call.attempts, error, ...(by && { by }) });
  const isSettled = destinationOf(call)?.fallBack(call, reason, result, error);
  if (!isSettled) settleCall(call, result, error);
}

/** Ends the calls that have outlived an abort. */
function endInner<T>(call: Call<T>, inner: Set<RetryLayer>): void {
  call.inner = undefined;
  for (const one of inner) one.endWithOuter?.();
}

/** Cancels the wait and the attempts that still run, and removes the abort listener. */
function endCall<T>(call: Call<T>, reason?: unknown): void {
  call.over = true;
  call.cancelWait?.();
  if (call.outer) call.outer.inner?.delete(call);
  if (call.inner) endInner(call, call.inner);
  if (call.options.signal) ignoreAbort(call.options.signal, call);
  call.race?.end(reason);
}

// Events go to the call's own listener and to those of its destination. Without listeners no event is created.

function hasListener<T>(call: Call<T>): boolean {
  return call.options.onEvent !== undefined || call.destination?.hasListeners === true;
}

export function emit<T>(call: Call<T>, details: EventDetails): void {
  if (!hasListener(call)) return;
  const { config, options } = call;
  const destination = destinationOf(call);
  const at = config.clock.now();
  const event = { at, ...destination?.labelsOf(call), ...details } as CallEvent;
  notify(options.onEvent, event);
  destination?.emit(event);
}

/** Emits, once, that an attempt has timed out or was aborted while its operation still runs. */
function emitStillRunning<T>(attempt: Attempt<T>): void {
  if (!attempt.timeoutMs || !(attempt.overdue || attempt.controller?.signal.aborted)) return;
  emit(attempt.call, { type: "attempt-still-running", ...attemptNumbers(attempt) });
  attempt.timeoutMs = 0;
}

/** The attempt's number, and the number of the copy if it is a hedged one. */
function attemptNumbers<T>({ call, attempt, copy }: Attempt<T>): {
  attempt: number;
  copy?: number;
} {
  return destinationOf(call) && copy > 0 ? { attempt, copy } : { attempt };
}

// What a call records about each failed attempt and each scheduled retry. Listeners and the final error get
// the same details.

/** The call's retry state; created at the first failure. */
export function retryStateOf<T>(call: Call<T>): RetryState<T> {
  call.retryState ??= createRetryState(call.config.random, call.options.idempotencyKey);
  return call.retryState;
}

/** Records a failed attempt and emits it. `waitMs` is the wait that follows; undefined at the end. */
export function recordFailure<T>(
  attempt: Attempt<T>,
  result: AttemptResult<T>,
  outcome: Outcome,
  verdict: Verdict,
  waitMs: number | undefined,
  now: number,
): void {
  const { call, started } = attempt;
  const durationMs = Math.floor(call.config.timer.clock.monotonicMs() - started.monotonicMs);
  const details = {
    ...attemptNumbers(attempt),
    durationMs,
    ...failureDetails(result, outcome, verdict),
  };
  const state = retryStateOf(call);
  state.lastResult = result;
  state.records.push({
    startedAt: now - durationMs,
    ...details,
    ...(waitMs !== undefined && { waitMs }),
  });
  emit(call, { type: "attempt-failed", ...details });
}

/** An attempt that has timed out has a result after all, so its timeout is no record of its own. */
function forgetTimeout<T>({ call, attempt, copy }: Attempt<T>): void {
  call.cancelWait?.();
  const { records } = retryStateOf(call);
  const { attempt: number, copy: ofCopy = 0 } = records.at(-1) ?? {};
  if (number === attempt && ofCopy === copy) records.pop();
}

function failureDetails<T>(
  result: AttemptResult<T>,
  outcome: Outcome,
  verdict: Verdict,
): Pick<AttemptRecord, "error" | "status" | "requestId"> & { readonly verdict: Verdict } {
  const status = "status" in outcome ? outcome.status : undefined;
  const { requestId } = outcome;
  return {
    verdict,
    ...("error" in result && { error: result.error }),
    ...(status !== undefined && { status }),
    ...(requestId !== undefined && { requestId }),
  };
}

/** Records that another attempt follows, and emits it. */
function recordRetry<T>(call: Call<T>, step: Exclude<NextStep, StopDecision>): void {
  const { delayMs, ownDelayMs, source } = step;
  retryStateOf(call).previousDelayMs = ownDelayMs;
  emit(call, { type: "retry", attempt: call.attempts + 1, delayMs, source });
}

// One call object stays alive. At a full garbage collection V8 drops a hidden class that has no live
// instance, and all code compiled for it. Programs often have no call in progress at that moment, and their
// next 30,000 calls would cost up to ten times as much.

/**
 * Replaces the retained call with a new one. It holds no reference to a user's values. Only rare
 * paths call this function: even a test for a retained call would cost a fifth of a call on Node 24.
 */
function retainCall(config: CallConfig): void {
  const doNothing = () => undefined;
  CallExecution.retained = new CallExecution<unknown>(config, doNothing, {}, doNothing, doNothing);
}
