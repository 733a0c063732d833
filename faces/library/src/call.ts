/**
 * Call: carries out the decisions of core for one wrapped call: runs attempts, waits between them,
 * ends when told to. It decides nothing about retrying by itself. What a destination adds (guards,
 * hedges, fallbacks) is its host's business (`host.ts`).
 *
 * What most calls do, one attempt that succeeds, is a single object and no detour; whatever only
 * failures need is made when something fails.
 */
import {
  assertKey,
  assertRange,
  type Breaker,
  type Cancel,
  decide,
  isRepeatable,
  judge,
  OPEN_GATES,
  type Outcome,
  type Policy,
  RedriveError,
  type StopReason,
  SUCCESS,
  singleAttempt,
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
  isBound,
  keeps,
  leftMs,
  listens,
  numberOf,
  putOff,
  record,
  requestOf,
  storyOf,
  tell,
  yieldTo,
} from "./call-state.ts";
import type { HedgeRace } from "./hedge-race.ts";
import type { Host } from "./host.ts";
import { ABORTED, FAULT, isThenable, NO_ENDING, outcomeBy, outcomeOf, sure } from "./judgement.ts";
import { forgetSignal, type Layer, layerAbove } from "./layer.ts";
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
  timeoutMs: number;
  expiresMs: number | undefined = undefined;
  lane: Lane | undefined = undefined;
  place = 0;
  settled = false;
  /** What the breaker gave on entering, and the retry budget for this attempt; 0 for nothing. */
  pass = 0;
  ticket = 0;
  controller: AbortController | undefined = undefined;

  policy: Policy;
  /** Attempts so far. */
  made = 0;
  /** How long after the call itself its first attempt began. */
  lateMs = 0;
  over = false;
  /** Made when something fails. */
  story: Story<T> | undefined = undefined;
  /** Of the latest wait; undefined while the call has never waited for anything. */
  cancelWait: Cancel | undefined = undefined;
  outer: Layer | undefined = undefined;
  /** The latest attempt that is no copy; undefined while it is the first. */
  latest: Call<T> | undefined = undefined;
  /** The host's: its breaker for this call, a ticket drawn and not yet used, and running copies. */
  breaker: Breaker | undefined = undefined;
  drawn = 0;
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

/** Begins the first attempt, unless the call is refused or already aborted. */
export function start<T>(call: Call<T>): void {
  const { signal, deadlineAt, once } = call.options;
  const above = layerAbove(signal);
  const isBare = !(signal || above || once || call.setting.needsKey) && deadlineAt === undefined;
  if (isBare || isAdmitted(call, above)) proceed(call);
}

/** What few calls bring is looked at apart. False if the call has ended before it began. */
function isAdmitted<T>(call: Call<T>, above: Layer | undefined): boolean {
  const { signal, deadlineAt, once } = call.options;
  if (signal?.aborted) {
    call.reject(signal.reason);
    return false;
  }
  if (deadlineAt !== undefined) assertRange("deadlineAt", deadlineAt, 0, Number.MAX_SAFE_INTEGER);
  call.outer = above;
  if (call.setting.needsKey) assertKey(call.policy, requestOf(call));
  if (isBound(call)) {
    if (leftMs(call) <= 0) {
      giveUp(call, "budget", NO_ENDING);
      return false;
    }
    call.timeoutMs = attemptMs(call);
  }
  signal?.addEventListener("abort", call);
  if (once) call.policy = singleAttempt(call.policy);
  if (above?.retries) yieldTo(call, above);
  // Who is told of that may have aborted it.
  return !call.over;
}

/** The next attempt's turn has come. */
export function proceed<T>(call: Call<T>): void {
  if (call.host === undefined) launch(call, 0, 0, 0);
  else call.host.enter(call);
}

/** Runs the function once. `pass` and `ticket` are what the guards gave for it. */
export function launch<T>(call: Call<T>, copy: number, pass: number, ticket: number): Call<T> {
  const isAtOnce = call.cancelWait === undefined && copy === 0;
  const attempt = isAtOnce ? call : nextAttempt(call, copy);
  attempt.pass = pass;
  attempt.ticket = ticket;
  if (copy === 0) call.made = attempt.attempt;
  call.setting.ticker.add(attempt);
  invoke(attempt, call.fn);
  return attempt;
}

function nextAttempt<T>(call: Call<T>, copy: number): Call<T> {
  const { setting, fn, options, resolve, reject, host, made } = call;
  if (made === 0) {
    const moment = setting.ticker.turn.here();
    call.lateMs = moment.ms - call.moment.ms;
    call.moment = moment;
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
    failed(attempt, error);
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
  if (attempt.settled) return;
  if (attempt.call.options.classify === undefined) succeed(attempt, value);
  else judged(attempt, { value }, SUCCESS);
}

function failed<T>(attempt: Call<T>, error: unknown): void {
  if (!attempt.settled) judged(attempt, { error }, outcomeOf(error, attempt.setting.clock.now()));
}

/** A classifier that throws is a mistake in a program: the call ends with what it threw. */
function judged<T>(attempt: Call<T>, given: Ending<T>, seen: Outcome): void {
  const { call } = attempt;
  let [ending, outcome] = [given, seen];
  let verdict: Verdict = "terminal";
  try {
    outcome = outcomeBy(call.options.classify, ending, attempt.attempt, seen);
    verdict = sure(judge(call.policy, outcome));
  } catch (error) {
    [ending, outcome] = [{ error }, FAULT];
  }
  // Who judged it may have aborted the call.
  if (attempt.settled) return;
  if (verdict === "success" && "value" in ending) succeed(attempt, ending.value);
  else {
    settle(attempt, outcome, verdict);
    if (call.over) return;
    const left = call.host?.sift(attempt, ending, outcome, verdict) ?? outcome;
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
  const gates = host?.gates(call, now, throttled) ?? OPEN_GATES;
  // A call without attempts left draws no more, so it needs no stream of its own.
  const random = made < policy.maxAttempts ? storyOf(call).random : setting.random;
  const decision = decide(
    policy,
    requestOf(call),
    historyOf(call, now),
    outcome,
    gates,
    now,
    random,
  );
  const isStop = decision.kind === "stop";
  if (!isStop || !isOwnError(made, decision.reason, ending) || listens(call)) {
    record(attempt, ending, outcome, verdict, waitMsOf(decision, now), now);
  }
  // Who was told of it may have aborted the call.
  if (call.over) return;
  if (isStop) giveUp(call, decision.reason, ending);
  else if (decision.kind === "hold") host?.holdBack(call, decision, throttled, now);
  else if (host && !host.drawRetry(call, now, throttled)) giveUp(call, "retry-budget", ending);
  else {
    const { delayMs, ownDelayMs, source } = decision;
    putOff(call, ownDelayMs, delayMs, source);
    wait(call, delayMs, () => proceed(call));
  }
}

/** Nothing waits for a call that whoever was told of the wait has aborted. */
export function wait<T>(call: Call<T>, delayMs: number, then: () => void): void {
  if (!call.over) call.cancelWait = call.setting.clock.alarm(delayMs, then);
}

export function giveUp<T>(call: Call<T>, told: StopReason, ending: Ending<T>): void {
  // An error that the caller judged a success is still no value to resolve with.
  const reason = told === "succeeded" ? "not-retryable" : told;
  finish(call);
  const error = keeps(call, ending) ? undefined : errorFor(call, reason, ending);
  tell(call, { type: "give-up", reason, attempts: call.made, error });
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
