/**
 * Call execution: carries out core's decisions for one wrapped call. It runs attempts, waits between
 * them and ends the call. It makes no retry decisions itself. A destination adds guards, hedges and
 * fallbacks through `CallDestination`.
 *
 * Most calls make one attempt, which succeeds. Such a call is a single object on a short path;
 * everything that only failures need is created when an attempt fails.
 */
import {
  ABORTED,
  type Breaker,
  type Cancel,
  decideUnguarded,
  type HoldReason,
  invalidArgument,
  isRepeatable,
  type Outcome,
  type Permit,
  type Policy,
  RedriveError,
  type StopReason,
  SUCCESS,
  type Verdict,
} from "@redrive/core";
import { abortSignal, createController } from "./attempt-signal.ts";
import type { ClockReading } from "./cached-clock.ts";
import {
  type Attempt,
  type AttemptRace,
  type Call,
  type CallDestination,
  destinationOf,
} from "./call.ts";
import type { CallConfig } from "./call-config.ts";
import { deadlineOf, elapsedMs, historyOf, nextTimeoutMs, requestOf } from "./call-deadline.ts";
import { isOriginalError, rejectionFor, resolvesWithLast, settleCall } from "./call-result.ts";
import { classifyAttempt, isThenable, outcomeOfError, resultOfThrown } from "./classify-attempt.ts";
import { attemptNumbers, emit, emitStillRunning, hasListener } from "./emit-event.ts";
import { recordFailure, recordRetry, retryStateOf } from "./failure-records.ts";
import type { AttemptResult, Operation, RunOptions } from "./options.ts";
import { retainCall } from "./retained-call.ts";
import { type RetryLayer, unmarkSignal } from "./retry-layer.ts";
import type { RetryState } from "./retry-state.ts";
import type { TimeoutList } from "./shared-timer.ts";

/**
 * Implements both a call and an attempt: a call object is also its own first attempt, which is the
 * only one that most calls make. Further attempts are objects of the same class: a second class would
 * cost each call more than the unused fields do. The signal is created when it is read, because most
 * operations never read it and it costs more than the rest of the call.
 */
export class CallExecution<T> implements Call<T>, Attempt<T> {
  /** Set by `retainCall`. */
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

  get idempotencyKey(): string | undefined {
    return this.options.idempotencyKey;
  }

  get deadlineAt(): number {
    return deadlineOf(this.call);
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
    const message = `attempt ${this.attempt} took longer than ${this.timeoutMs} ms`;
    const error = new RedriveError("ATTEMPT_TIMEOUT", message);
    abortSignal(this, error);
    handleError(this, error);
  }

  /** An abort always wins: it ends a running attempt, a wait and the wait for a fallback. */
  handleEvent(): void {
    const error: unknown = this.options.signal?.reason;
    if (!this.over) {
      // Abort before the slot is freed: a call that is let in must not run beside this one.
      if (this.attempts > 0) abortAttempt(this.latest, error);
      endCall(this, error);
      emit(this, { type: "give-up", reason: "aborted", attempts: this.attempts, error });
    }
    this.reject(error);
  }
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
  retainCall(CallExecution<unknown>, config);
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
    result = operation(attempt);
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

/** True if the operation ended after its attempt. */
function isLate<T>(attempt: Attempt<T>): boolean {
  if (attempt.settled) attempt.timeoutMs = 0;
  return attempt.settled;
}

function handleValue<T>(attempt: Attempt<T>, value: T): void {
  if (isLate(attempt)) return;
  if (attempt.call.options.classify === undefined) succeed(attempt, value);
  else handleResult(attempt, { value }, SUCCESS);
}

function handleError<T>(attempt: Attempt<T>, error: unknown): void {
  if (isLate(attempt)) return;
  const { call } = attempt;
  const result = resultOfThrown(error, call);
  handleResult(attempt, result, outcomeOfError(result.error, call.config.clock.now()));
}

function handleResult<T>(attempt: Attempt<T>, given: AttemptResult<T>, seen: Outcome): void {
  const { call } = attempt;
  const [result, outcome, verdict] = classifyAttempt(attempt, given, seen);
  // `classify` may have aborted the call.
  if (attempt.settled) return;
  if (verdict === "success" && "value" in result) succeed(attempt, result.value);
  else {
    settleAttempt(attempt, outcome, verdict);
    if (call.over) return;
    const destination = destinationOf(call);
    const decidable = destination?.outcomeToDecide(attempt, result, outcome, verdict) ?? outcome;
    if (decidable) decideNext(attempt, result, decidable, verdict);
  }
}

function succeed<T>(attempt: Attempt<T>, value: T): void {
  const { call } = attempt;
  settleAttempt(attempt, SUCCESS, "success");
  if (call.over) return;
  endCall(call);
  call.destination?.recordSuccess(call, value);
  if (hasListener(call)) {
    emit(call, { type: "success", ...attemptNumbers(attempt), durationMs: elapsedMs(call) });
  }
  call.resolve(value);
}

/** Ends the attempt: removes its timeout and reports it to the guards. */
function settleAttempt<T>(attempt: Attempt<T>, outcome: Outcome, verdict: Verdict): void {
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
  if (!isStop || !isOriginalError(call, step.reason, result) || hasListener(call)) {
    recordFailure(attempt, result, outcome, verdict, isStop ? undefined : step.delayMs, now);
  }
  // A listener may have aborted the call.
  if (call.over) return;
  if (isStop) giveUp(call, step.reason, result);
  else {
    recordRetry(call, step);
    wait(call, step.delayMs, () => startNextAttempt(call));
  }
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

/** Cancels the wait and the attempts that still run, and removes the abort listener. */
function endCall<T>(call: Call<T>, reason?: unknown): void {
  call.over = true;
  call.cancelWait?.();
  call.options.signal?.removeEventListener("abort", call);
  call.race?.end(reason);
}
