/**
 * Call: carries out the decisions of core for one wrapped call: runs attempts, waits between them,
 * ends when told to. It decides nothing about retrying by itself. What a destination adds (guards,
 * hedges, fallbacks) is its host's business (`host.ts`).
 *
 * What most calls do, one attempt that succeeds, is a single object and no detour; whatever only
 * failures need is made when something fails.
 */
import {
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
import { abort, makeController } from "./attempt-signal.ts";
import {
  attemptMs,
  conclude,
  elapsedMs,
  endAt,
  errorFor,
  historyOf,
  isLate,
  keeps,
  listens,
  numberOf,
  putOff,
  record,
  requestOf,
  storyOf,
  tell,
  tellRunning,
} from "./call-state.ts";
import type { HedgeRace } from "./hedge-race.ts";
import type { Host } from "./host.ts";
import { ABORTED, endingOf, isThenable, judgementOf, outcomeOf } from "./judgement.ts";
import { keepCall } from "./kept-call.ts";
import { forgetSignal, type Layer } from "./layer.ts";
import type { AttemptContext, Attempted, Ending, RunOptions } from "./options.ts";
import type { Setting } from "./setting.ts";
import { isOwnError, type Story, waitMsOf } from "./story.ts";
import type { Lane, Timed } from "./ticker.ts";
import type { Moment } from "./turn.ts";

/**
 * A call, and one attempt of it: a call is its own first attempt, which is all that most calls make.
 * Further attempts are of the same class, since a class of their own would cost each call more than
 * the fields they leave unused. What the function is given as its context is the attempt. Its signal
 * is made only when read: most functions never look at it, and it costs more than the rest.
 */
export class Call<T> implements AttemptContext, Layer, Timed {
  readonly setting: Setting;
  fn: Attempted<T>;
  readonly options: RunOptions<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
  /** The destination, if the call is made to one. */
  readonly host: Host | undefined;

  /** The call that this is an attempt of: itself, for the first. */
  readonly call: Call<T>;
  attempt = 1;
  /** 0 is the original, 1 and up are hedged copies. */
  copy = 0;
  /** When it began. */
  moment: Moment;
  /** 0 once its function has ended after it. */
  timeoutMs: number;
  expiresMs: number | undefined = undefined;
  lane: Lane | undefined = undefined;
  place = 0;
  settled = false;
  /** The breaker's pass, and the permit of the destination's guards; none without guards. */
  pass = 0;
  permit: Permit | undefined = undefined;
  controller: AbortController | undefined = undefined;

  policy: Policy;
  /** Attempts so far. */
  made = 0;
  /** When the call itself began, if its first attempt had to wait. */
  begun: Moment | undefined = undefined;
  over = false;
  /** Made when something fails. */
  story: Story<T> | undefined = undefined;
  /** Of the latest wait; undefined while the call has never waited for anything. */
  cancelWait: Cancel | undefined = undefined;
  outer: Layer | undefined = undefined;
  /** The latest attempt that is no copy; undefined while it is the first. */
  latest: Call<T> | undefined = undefined;
  /** The host's: its breaker for this call, and running copies. */
  breaker: Breaker | undefined = undefined;
  race: HedgeRace<T> | undefined = undefined;

  constructor(
    setting: Setting,
    fn: Attempted<T>,
    options: RunOptions<T>,
    resolve: (value: T) => void,
    reject: (reason: unknown) => void,
    host?: Host,
    call?: Call<T>,
  ) {
    this.setting = setting;
    this.fn = fn;
    this.options = options;
    this.resolve = resolve;
    this.reject = reject;
    this.host = host;
    this.call = call ?? this;
    this.moment = setting.ticker.turn.here();
    this.timeoutMs = setting.timeoutMs;
    this.policy = setting.policy;
  }

  get where(): "process" {
    return "process";
  }

  get signal(): AbortSignal {
    return (this.controller ?? makeController(this)).signal;
  }

  get idempotencyKey(): string | undefined {
    return this.options.idempotencyKey;
  }

  /** When the whole call must have ended; epoch ms. */
  get deadlineAt(): number {
    return endAt(this.call);
  }

  get previousError(): unknown {
    const last = this.call.story?.lastEnding;
    return last && "error" in last ? last.error : undefined;
  }

  get endpoint(): string | undefined {
    return this.host?.endpointOf(this.copy);
  }

  /** True if a layer below this one should leave retrying to it, or to one further above. */
  get retries(): boolean {
    const { outer, policy } = this;
    return outer?.retries || (policy.maxAttempts > 1 && isRepeatable(requestOf(this)));
  }

  /** Its time is up. */
  expire(): void {
    if (this.settled) return;
    const message = `attempt ${this.attempt} took longer than ${this.timeoutMs} ms`;
    const error = new RedriveError("ATTEMPT_TIMEOUT", message);
    abort(this, error);
    failed(this, error);
  }

  /** Abort always wins: what runs is cut off, what waits is woken, a fallback is no longer awaited. */
  handleEvent(): void {
    const error: unknown = this.options.signal?.reason;
    if (!this.over) {
      // First the abort, then the slot: who is let in must not meet the one that goes.
      if (this.made > 0) drop(this.latest ?? this, error);
      finish(this, error);
      tell(this, { type: "give-up", reason: "aborted", attempts: this.made, error });
    }
    this.reject(error);
  }
}

/** The next attempt's turn has come. */
export function proceed<T>(call: Call<T>): void {
  if (call.host === undefined) launch(call, 0, 0, undefined);
  else call.host.enter(call);
}

/** Runs the function once. `pass` and `permit` are what the guards gave for it. */
export function launch<T>(
  call: Call<T>,
  copy: number,
  pass: number,
  permit: Permit | undefined,
): Call<T> {
  const previous = call.latest ?? call;
  const isAtOnce = call.cancelWait === undefined && copy === 0;
  const attempt = isAtOnce ? call : nextAttempt(call, copy);
  attempt.pass = pass;
  attempt.permit = permit;
  if (copy === 0) call.made = attempt.attempt;
  call.setting.ticker.add(attempt);
  invoke(attempt, call.fn);
  if (attempt !== previous && copy === 0) tellRunning(previous);
  return attempt;
}

function nextAttempt<T>(call: Call<T>, copy: number): Call<T> {
  const { setting, fn, options, resolve, reject, host, made } = call;
  keepCall(Call<unknown>, setting);
  if (made === 0) {
    call.begun = call.moment;
    call.moment = setting.ticker.turn.here();
    call.timeoutMs = attemptMs(call);
    return call;
  }
  const next = new Call(setting, fn, options, resolve, reject, host, call);
  next.timeoutMs = attemptMs(call);
  next.attempt = copy > 0 ? made : made + 1;
  next.copy = copy;
  if (copy === 0) call.latest = next;
  return next;
}

function invoke<T>(attempt: Call<T>, fn: Attempted<T>): void {
  let result: T | PromiseLike<T>;
  try {
    result = fn(attempt);
    // Another kind of promise may throw, or answer twice, at once or with a promise: ours do not.
    if (!(result instanceof Promise) && isThenable(result)) result = Promise.resolve(result);
  } catch (error) {
    const isMisuse = typeof fn !== "function";
    failed(attempt, isMisuse ? invalidArgument("fn must be a function", fn) : error);
    return;
  }
  if (isThenable(result)) {
    result.then(
      (value) => returned(attempt, value),
      (error: unknown) => failed(attempt, error),
    );
  } else returned(attempt, result);
}

function returned<T>(attempt: Call<T>, value: T): void {
  if (isLate(attempt)) return;
  if (attempt.call.options.classify === undefined) succeed(attempt, value);
  else judged(attempt, { value }, SUCCESS);
}

function failed<T>(attempt: Call<T>, error: unknown): void {
  if (isLate(attempt)) return;
  const ending = endingOf(error, attempt.call);
  judged(attempt, ending, outcomeOf(ending.error, attempt.setting.clock.now()));
}

function judged<T>(attempt: Call<T>, given: Ending<T>, seen: Outcome): void {
  const { call } = attempt;
  const [ending, outcome, verdict] = judgementOf(attempt, given, seen);
  // Who judged it may have aborted the call.
  if (attempt.settled) return;
  if (verdict === "success" && "value" in ending) succeed(attempt, ending.value);
  else {
    settle(attempt, outcome, verdict);
    if (call.over) return;
    // A stop waits for no other copy.
    const host = "isStop" in ending ? undefined : call.host;
    const left = host?.sift(attempt, ending, outcome, verdict) ?? outcome;
    if (left) ended(attempt, ending, left, verdict);
  }
}

function succeed<T>(attempt: Call<T>, value: T): void {
  const { call } = attempt;
  settle(attempt, SUCCESS, "success");
  if (call.over) return;
  stop(call);
  call.host?.succeeded(call, value);
  if (listens(call)) {
    tell(call, { type: "success", ...numberOf(attempt), durationMs: elapsedMs(call) });
  }
  call.resolve(value);
}

/** An attempt is no longer under way. */
function settle<T>(attempt: Call<T>, outcome: Outcome, verdict: Verdict): void {
  const { setting, host, controller } = attempt;
  attempt.settled = true;
  if (controller) forgetSignal(controller.signal);
  setting.ticker.remove(attempt);
  host?.leave(attempt, outcome, verdict);
}

/** An attempt is cut off: it says nothing about the other side. */
export function drop<T>(attempt: Call<T>, reason: unknown): void {
  if (attempt.settled) return;
  abort(attempt, reason);
  settle(attempt, ABORTED, "aborted");
}

/** The attempt failed: what now? */
export function ended<T>(
  attempt: Call<T>,
  ending: Ending<T>,
  outcome: Outcome,
  verdict: Verdict,
): void {
  const { call } = attempt;
  const { setting, policy, host, made } = call;
  const now = setting.ticker.turn.now();
  const throttled = verdict === "throttled";
  // A call without attempts left looks at no gate and draws no more: it needs no stream of its own.
  const isLast = made >= policy.maxAttempts;
  const random = isLast ? setting.random : storyOf(call).random;
  const decision =
    host === undefined || isLast
      ? decideUnguarded(policy, requestOf(call), historyOf(call, now), outcome, now, random)
      : host.decide(call, outcome, now, random, throttled);
  const isStop = decision.kind === "stop";
  if (!isStop || !isOwnError(made, decision.reason, ending) || listens(call)) {
    record(attempt, ending, outcome, verdict, waitMsOf(decision, now), now);
  }
  // Who was told of it may have aborted the call.
  if (call.over) return;
  if (isStop) giveUp(call, decision.reason, ending);
  else {
    const delayMs = waitMsOf(decision, now) ?? 0;
    putOff(call, decision, delayMs, throttled);
    wait(call, delayMs, () => proceed(call));
  }
}

/** Nothing waits for a call that whoever was told of the wait has aborted. */
export function wait<T>(call: Call<T>, delayMs: number, then: () => void): void {
  if (!call.over) call.cancelWait = call.setting.clock.alarm(delayMs, then);
}

export function giveUp<T>(
  call: Call<T>,
  told: StopReason,
  ending: Ending<T>,
  by?: HoldReason,
): void {
  // An error that the caller judged a success is still no value to resolve with.
  const reason = told === "succeeded" ? "not-retryable" : told;
  finish(call);
  // A function that heeds its signal ends within this turn.
  if (listens(call)) call.setting.clock.endOfTurn(() => tellRunning(call.latest ?? call));
  const error = keeps(call, ending) ? undefined : errorFor(call, reason, ending);
  tell(call, { type: "give-up", reason, attempts: call.made, error, ...(by && { by }) });
  if (!call.host?.conclude(call, reason, ending, error)) conclude(call, ending, error);
}

/** No wait, no listener. */
function stop<T>(call: Call<T>): void {
  call.over = true;
  call.cancelWait?.();
  call.options.signal?.removeEventListener("abort", call);
}

/** Nothing more will happen, and nothing came of it. */
function finish<T>(call: Call<T>, reason?: unknown): void {
  stop(call);
  call.host?.finish(call, reason);
}
