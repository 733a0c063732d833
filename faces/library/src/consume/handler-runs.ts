/**
 * Handler runs: runs the handler of a message as one call of the destination, and turns its end into a
 * disposition. The guards treat it like any other attempt. What follows a failure is core's decision; it
 * is returned instead of awaited, because the broker does the waiting.
 */
import {
  admissionRequestOf,
  admit,
  type CallHistory,
  type CallRequest,
  type Cancel,
  type Clock,
  compiledPolicyOf,
  decideUnguarded,
  type HoldReason,
  OPEN_ENTRY,
  type Outcome,
  type Policy,
  type Random,
  RedriveError,
  retryGates,
  type StopDecision,
  type StopReason,
  type Verdict,
} from "@redrive/core";
import {
  type Attempt,
  type Call,
  type CallDestination,
  leftMs,
  type NextStep,
  NO_RESULT,
  nextTimeoutMs,
} from "../call/call.ts";
import type { CallEvent } from "../call/call-event.ts";
import type { AttemptContext, AttemptResult, Classify } from "../call/options.ts";
import { abortAttempt, giveUp, retryStateOf, wait } from "../call/retry.ts";
import type { ClockReading } from "../call/shared-timer.ts";
import type { Destination } from "../destination/destination.ts";
import type { DestinationRuntime } from "../destination/destination-runtime.ts";
import type { Intake, Pause } from "./intake.ts";
import { LiveList, type LiveMember } from "./live-list.ts";
import {
  type ConsumeEventDetails,
  type DeadLetter,
  type Defer,
  type DeferReason,
  DeferRequest,
  type DeliveryRecord,
  type Disposition,
  describeInOneLine,
  isRetry,
  type Message,
  type MessageContext,
  type MessageHandler,
  type MessageState,
  withRecord,
} from "./message.ts";

interface HandlerRunsParts<Body> {
  readonly handler: MessageHandler<Body>;
  readonly destination: Destination;
  readonly clock: Clock;
  readonly intake: Intake;
  readonly maxHoldMs: number;
  readonly deferMs: number;
  readonly idempotent: boolean;
  readonly classify: Classify<unknown> | undefined;
  readonly dispositions: Dispositions;
  /** Undefined: the consumer never pauses. */
  readonly pause: Pause | undefined;
  /** Undefined: nobody listens. */
  readonly emit: ((details: ConsumeEventDetails) => void) | undefined;
}

const HANDLED: Disposition = Object.freeze({ kind: "ack", isDuplicate: false });

/** Without an instant from the guard, it is asked again after this time at the latest. */
const MAX_SHUT_MS = 60_000;

export class HandlerRuns<Body> {
  readonly #parts: HandlerRunsParts<Body>;
  readonly #running = new LiveList<MessageAttempt>();

  constructor(parts: HandlerRunsParts<Body>) {
    this.#parts = parts;
  }

  /** Ends all attempts. They do not count. */
  abortAll(reason: unknown): void {
    for (const attempt of this.#running.all()) attempt.abort(reason);
  }

  /** `done`: called when the message has its disposition. */
  async run(message: Message<Body>, state: MessageState, done?: () => void): Promise<Disposition> {
    const { handler, destination, maxHoldMs } = this.#parts;
    // A suspect never waits: if its delivery is lost again, its handler was running.
    const attempt = new MessageAttempt(message.id, state, state.lost > 0 ? 0 : maxHoldMs, this);
    const operation = (context: AttemptContext) => {
      attempt.running = handler(message, context as MessageContext);
      return attempt.running;
    };
    this.#running.add(attempt);
    try {
      const value = await destination.run(operation, this.#optionsOf(message, attempt));
      return this.#afterSuccess(message, state, attempt, value);
    } catch (error) {
      const failure = attempt.failure ?? misuse(error);
      if (isCutOff(failure)) this.#countOverdue(attempt);
      return this.#afterFailure(message, state, attempt, failure);
    } finally {
      this.#running.remove(attempt);
      if (attempt.isAwaited) this.#parts.intake.takeBack();
      done?.();
    }
  }

  #afterSuccess(
    message: Message<Body>,
    state: MessageState,
    attempt: MessageAttempt,
    value: unknown,
  ): Disposition {
    const { dispositions, emit, pause, intake } = this.#parts;
    const isDeferral = value instanceof DeferRequest;
    if (isRetry(message, state)) intake.recordRetry(false);
    if (!isDeferral) pause?.recordOther();
    if (intake.shutBy !== undefined) this.#afterProbe(attempt, true);
    if (isDeferral) return dispositions.deferBy(message, state, "handler", value.delayMs);
    if (emit !== undefined) {
      const durationMs = attempt.elapsedMs();
      emit({ type: "handled", id: message.id, attempt: state.attempts + 1, durationMs });
    }
    return HANDLED;
  }

  #afterFailure(
    message: Message<Body>,
    state: MessageState,
    attempt: MessageAttempt,
    failure: FailedAttempt,
  ): Disposition {
    const { dispositions, deferMs } = this.#parts;
    switch (failure.end) {
      case "aborted":
        return dispositions.deferBy(message, state, "stop", deferMs / 2);
      case "held":
        return this.#afterHold(message, state, attempt);
      case "refused":
        return dispositions.deadLetter(message, state, failure.reason);
      default:
        return this.#afterAttempt(message, state, attempt, failure);
    }
  }

  /** Guards that hold every message shut the intake; those that hold only retries do not. */
  #afterHold(message: Message<Body>, state: MessageState, attempt: MessageAttempt): Disposition {
    const { dispositions, intake, clock, deferMs } = this.#parts;
    const { until, isOfRetries } = attempt.hold;
    if (!isOfRetries) {
      const isKnown = until > clock.now() && until < Number.POSITIVE_INFINITY;
      if (isKnown) intake.shut("guard", until);
      else intake.shutFor("guard", deferMs, MAX_SHUT_MS);
    }
    return dispositions.defer(message, state, "guard", { until });
  }

  #afterAttempt(
    message: Message<Body>,
    state: MessageState,
    attempt: MessageAttempt,
    failure: FailedAttempt,
  ): Disposition {
    const { dispositions, pause, intake } = this.#parts;
    const { error, isProgramError, verdict } = failure;
    if (isRetry(message, state)) intake.recordRetry(true);
    const isPausable = pause !== undefined && isProgramError;
    const waiting = isPausable ? pause.recordError(error, state.programErrors ?? 0) : undefined;
    const isEnd = verdict === "terminal" && !isPausable;
    if (isEnd) pause?.recordOther();
    if (intake.shutBy !== undefined) this.#afterProbe(attempt, isEnd);
    if (waiting === undefined) {
      return dispositions.afterAttempt(message, state, failure, attempt.elapsedMs());
    }
    const until = intake.shutBy === "errors" ? intake.probeAt : 0;
    const after = waiting > 0 ? { ...state, programErrors: waiting } : state;
    return dispositions.defer(message, after, "program-error", { until, error });
  }

  /** A handler ran while the intake was shut. `isEnd`: it ended as the program wants it to. */
  #afterProbe(attempt: MessageAttempt, isEnd: boolean): void {
    const { intake, pause } = this.#parts;
    // It started before the intake was shut.
    if (intake.limit === 0) return;
    if (intake.shutBy === "errors") {
      if (!isEnd) return;
      pause?.resume();
    }
    const until = attempt.longHoldUntil();
    intake.open();
    if (until !== undefined) intake.shut("guard", until);
  }

  #optionsOf({ id, deadlineAt }: Message<Body>, attempt: MessageAttempt) {
    const { classify, idempotent } = this.#parts;
    return {
      // A handler is not hedged: a second copy would run in the same process.
      once: true,
      patience: "wait",
      idempotencyKey: id,
      idempotent,
      ...(deadlineAt !== undefined && { deadlineAt }),
      ...(classify !== undefined && { classify }),
      signal: attempt.signal,
    } as const;
  }

  /**
   * Called when an attempt has timed out and its handler has never read its signal, so that nothing could
   * have stopped it. Its message has no disposition before it ends, but gives its slot to others.
   */
  onAwaited(attempt: MessageAttempt): void {
    this.#countOverdue(attempt);
    this.#parts.intake.lend();
  }

  /** The handler runs on after its attempt has ended. */
  #countOverdue(attempt: MessageAttempt): void {
    const { running, id, number } = attempt;
    if (running === undefined || attempt.isOverdue) return;
    attempt.isOverdue = true;
    const ended = Promise.resolve(running);
    this.#parts.intake.addOverdue(ended);
    let isOver = false;
    const end = () => {
      isOver = true;
    };
    ended.then(end, end);
    // A handler that honors its signal ends within this turn.
    this.#parts.clock.endOfTurn(() => {
      if (!isOver) this.#parts.emit?.({ type: "still-running", id, attempt: number });
    });
  }
}

/** True if the attempt ended before its handler did. */
function isCutOff({ end, error }: FailedAttempt): boolean {
  const isTimeout = error instanceof RedriveError && error.code === "ATTEMPT_TIMEOUT";
  return isTimeout || end === "aborted";
}

/** The call did not start because of a mistake in the program. A retry would repeat it. */
function misuse(error: unknown): FailedAttempt {
  const verdict = "terminal";
  const rest = { verdict, next: undefined, isProgramError: false } as const;
  return { end: "failed", reason: "not-retryable", error, ...rest };
}

/** What holds an attempt. */
interface Hold {
  /** Epoch ms; Infinity: until something changes. */
  readonly until: number;
  /** First attempts could start. */
  readonly isOfRetries: boolean;
}

/** A retry that waits with all others checks this often whether only retries are held now. */
const RECHECK_MS = 1000;

/**
 * It is also the signal of its call. A call adds itself as the listener of its signal before its first
 * attempt, so this is where the call learns about its earlier attempts.
 */
class MessageAttempt implements CallDestination, LiveMember {
  readonly id: string;
  readonly #state: MessageState;
  readonly #maxHoldMs: number;
  readonly #runs: Pick<HandlerRuns<never>, "onAwaited">;
  /** Of the signal: the call is ended by `abort`. */
  readonly aborted = false;

  // Mutable state.
  index = -1;
  /** What the handler has returned. */
  running: unknown = undefined;
  /** The handler runs on after its timeout, and is counted as such. */
  isOverdue = false;
  /** The attempt has timed out, and waits until its handler ends. */
  isAwaited = false;
  #destination: CallDestination | undefined;
  #call: Call<unknown> | undefined;
  #policy: Policy | undefined;
  #next: NextStep | undefined;
  #verdict: Verdict = "terminal";
  #isProgramError = false;
  #failure: FailedAttempt | undefined;
  #hold: Hold = { until: 0, isOfRetries: false };
  #cancelHold: Cancel | undefined;
  #isHeldTooLong = false;
  #isAborted = false;

  /** `maxHoldMs`: how long a guard may hold the attempt inside this process. */
  constructor(
    id: string,
    state: MessageState,
    maxHoldMs: number,
    runs: Pick<HandlerRuns<never>, "onAwaited">,
  ) {
    this.id = id;
    this.#state = state;
    this.#maxHoldMs = maxHoldMs;
    this.#runs = runs;
  }

  /** Of the attempt, from 1. */
  get number(): number {
    return this.#state.attempts + 1;
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
    if (!call.over && !this.#hasStarted(call)) this.#limitHold(call, this.#maxHoldMs);
  }

  /**
   * A message that waits keeps its slot. That is good while no other could start, because it then keeps its
   * place. A retry that alone is held gives its slot back at once.
   */
  #limitHold<T>(call: Call<T>, leftMs: number): void {
    const hold = holdOf(this.#inner as DestinationRuntime, call);
    this.#hold = hold;
    if (leftMs <= 0 || hold.isOfRetries) {
      this.#isHeldTooLong = true;
      giveUp(call, "held", NO_RESULT);
      return;
    }
    const waitMs = call.attempts > 0 ? Math.min(leftMs, RECHECK_MS) : leftMs;
    this.#cancelHold = call.config.clock.alarm(waitMs, () => {
      if (!call.over && !this.#hasStarted(call)) this.#limitHold(call, leftMs - waitMs);
    });
  }

  /** What holds the attempt, if it `held`. */
  get hold(): Hold {
    return this.#hold;
  }

  /** Until when the guards hold every attempt, if it is for long; epoch ms. */
  longHoldUntil(): number | undefined {
    const call = this.#call;
    if (call === undefined) return undefined;
    const { admission } = (this.#inner as DestinationRuntime).guards;
    const now = call.config.clock.now();
    if (admission.check(FIRST_ATTEMPT, call.breaker, now) === undefined) return undefined;
    const { heldBy, heldUntil } = admission;
    return LONG_HOLDS.includes(heldBy) && heldUntil < Number.POSITIVE_INFINITY
      ? heldUntil
      : undefined;
  }

  #hasStarted<T>({ attempts }: Call<T>): boolean {
    return attempts > this.#state.attempts;
  }

  leave<T>(attempt: Attempt<T>, outcome: Outcome, verdict: Verdict): void {
    this.#inner.leave(attempt, outcome, verdict);
  }

  outcomeToDecide<T>(
    attempt: Attempt<T>,
    result: AttemptResult<T>,
    outcome: Outcome,
    verdict: Verdict,
  ): Outcome | false {
    this.#verdict = verdict;
    this.#isProgramError = verdict === "terminal" && isProgramError(outcome);
    if (!attempt.overdue) {
      return this.#inner.outcomeToDecide(attempt, result, outcome, verdict);
    }
    const { call } = attempt;
    this.isAwaited = true;
    this.#runs.onAwaited(this);
    wait(call, Math.max(0, leftMs(call)), () => giveUp(call, "budget", result));
    return false;
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

  recordSuccess<T>(call: Call<T>, value: T, outcome: Outcome): void {
    this.#cancelHold?.();
    this.#inner.recordSuccess(call, value, outcome);
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
    const isProgramError = this.#isProgramError && !isOfData(thrown);
    const verdict = this.#verdict;
    this.#failure = {
      end: this.#endOf(call),
      reason,
      error: thrown,
      verdict,
      next,
      isProgramError,
    };
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

const FIRST_ATTEMPT = admissionRequestOf(false, true, false);

/** A rate or a concurrency limit admits the next attempt soon. */
const LONG_HOLDS: readonly HoldReason[] = ["circuit-open", "retry-after", "pause"];

/** What holds a call that waits for its guards. */
function holdOf<T>({ guards }: DestinationRuntime, call: Call<T>): Hold {
  const { admission } = guards;
  const { breaker, attempts, retryState, config } = call;
  const now = config.clock.now();
  const isRetry = attempts > 0;
  const request = admissionRequestOf(isRetry, true, isRetry && retryState?.isThrottled === true);
  admission.check(request, breaker, now);
  const { heldUntil: until, retriesInFlight } = admission;
  if (!isRetry) return { until, isOfRetries: false };
  const { retryBudgetUntil = 0 } = retryGates(admission, request, breaker, now);
  const { options } = admission.guards.concurrency ?? {};
  const hasNoSlot =
    options && options.maxRetries < options.max && retriesInFlight >= options.maxRetries;
  return { until, isOfRetries: retryBudgetUntil > now || hasNoSlot === true };
}

/** Credentials belong to the program as well. What the caller has classified is the message's own. */
function isProgramError(outcome: Outcome): boolean {
  if (outcome.verdict !== undefined) return false;
  if (outcome.kind === "status") return outcome.status === 401 || outcome.status === 403;
  return outcome.kind === "fault";
}

/** SQL states of bad data and of a violated constraint (classes 22 and 23). */
const DATA_STATES = /^2[23][\dA-Z]{3}$/;

function isOfData(error: unknown): boolean {
  const { code, cause } = Object(error) as { readonly code?: unknown; readonly cause?: unknown };
  return [code, (Object(cause) as { code?: unknown }).code].some(
    (one) => typeof one === "string" && DATA_STATES.test(one),
  );
}

// Turns core's decisions into dispositions, and reports each of them. This carries decisions out and makes
// none about retrying.

interface DispositionParts {
  readonly policy: Policy;
  readonly clock: Clock;
  readonly random: Random;
  readonly minDelayMs: number;
  readonly deferMs: number;
  readonly maxDeferMs: number;
  readonly maxLost: number;
  readonly idempotent: boolean;
  readonly describeError: (error: unknown) => string;
  readonly emit: (details: ConsumeEventDetails) => void;
}

/** How a message attempt ended, if it did not succeed. */
interface FailedAttempt {
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
  /** The program has a mistake, as far as the error shows; the message may have none. */
  readonly isProgramError: boolean;
}

/** What a deferral may have beside its reason. */
interface DeferDetails {
  /** It makes no sense to come back sooner; epoch ms. Infinity: unknown. */
  readonly until?: number;
  readonly error?: unknown;
}

export class Dispositions {
  readonly #parts: DispositionParts;

  constructor(parts: DispositionParts) {
    this.#parts = parts;
  }

  /** A message without an attempt or time left becomes a dead letter. Undefined: it may start. */
  beforeAttempt(message: Message, state: MessageState, now: number): DeadLetter | undefined {
    const { policy } = this.#parts;
    const request = this.#requestOf(message);
    const decision = admit(policy, request, historyOf(state), OPEN_ENTRY, now);
    return decision.kind === "stop" ? this.deadLetter(message, state, decision.reason) : undefined;
  }

  /**
   * Deliveries were lost. Undefined: the next attempt may start, because the broker has waited.
   * `isImmediate`: it has not.
   */
  afterLoss(message: Message, state: MessageState, isImmediate = false): Disposition | undefined {
    const { policy, clock, random, maxLost, minDelayMs, emit } = this.#parts;
    const { id } = message;
    const { lost, attempts } = state;
    // A loss that used no attempt waits as long as the first attempt would have made it wait.
    const history = { ...historyOf(state), attempt: Math.max(1, attempts) };
    const stream = random.fork(`${id}/${attempts}`);
    const outcome = { kind: "abandoned" } as const;
    const request = this.#requestOf(message);
    const now = clock.now();
    const isLast = attempts > 0 && attempts >= policy.maxAttempts;
    const next = decideUnguarded(policy, request, history, outcome, now, stream);
    const ownMs = next.kind === "retry" ? next.delayMs : 0;
    const delayMs = isImmediate ? Math.max(minDelayMs, ownMs) : 0;
    emit({ type: "lost", id, lost, delayMs });
    if (lost >= maxLost) return this.deadLetter(message, state, "poison");
    const isOver = next.kind === "stop" && (isLast || next.reason !== "attempts");
    if (isOver) return this.deadLetter(message, state, lossReason(next.reason));
    if (!isImmediate) return undefined;
    const previousDelayMs = next.kind === "retry" ? next.ownDelayMs : state.previousDelayMs;
    return { kind: "retry", delayMs, state: { ...state, previousDelayMs } };
  }

  /** The handler ran and failed. */
  afterAttempt(
    message: Message,
    state: MessageState,
    failure: FailedAttempt,
    durationMs: number,
  ): Disposition {
    const { clock, minDelayMs, emit } = this.#parts;
    const { next, error, reason, verdict } = failure;
    const now = clock.now();
    const delayMs =
      next && Math.max(minDelayMs, next.delayMs, this.#waitForOthers(message, state, now));
    const record = this.#recordOf(state, failure, now - durationMs, durationMs, delayMs);
    const { deferrals: _, programErrors: __, ...rest } = state;
    const after: MessageState = {
      ...rest,
      attempts: state.attempts + 1,
      lost: 0,
      isThrottled: verdict === "throttled",
      previousDelayMs: next?.ownDelayMs ?? state.previousDelayMs,
      history: withRecord(state.history, record),
    };
    if (delayMs === undefined) return this.deadLetter(message, after, reason, error);
    emit({ type: "retry", id: message.id, attempt: after.attempts, verdict, error, delayMs });
    return { kind: "retry", delayMs, state: after };
  }

  /**
   * Other processes may have tried the message without this one knowing. It then waits as if they had, but
   * not for longer than it has existed, and not beyond its total budget.
   */
  #waitForOthers(
    { receivesElsewhere = 0 }: Message,
    { attempts, startedAt }: MessageState,
    now: number,
  ): number {
    if (receivesElsewhere <= 0) return 0;
    const { policy } = this.#parts;
    const last = Math.max(1, policy.maxAttempts - 1);
    const { ceilingMs } = compiledPolicyOf(policy);
    const waitMs = Math.min(
      ceilingMs(Math.min(last, attempts + 1 + receivesElsewhere)),
      now - startedAt,
    );
    return now + waitMs < startedAt + policy.totalBudgetMs ? waitMs : 0;
  }

  #recordOf(
    { attempts }: MessageState,
    { error, verdict }: FailedAttempt,
    at: number,
    durationMs: number,
    delayMs: number | undefined,
  ): DeliveryRecord {
    const text = describeInOneLine(this.#parts.describeError, error);
    const wait = delayMs === undefined ? {} : { delayMs };
    return { attempt: attempts + 1, at, durationMs, verdict, error: text, ...wait };
  }

  deadLetter(
    { id }: Message,
    state: MessageState,
    reason: StopReason,
    error?: unknown,
  ): DeadLetter {
    const { attempts } = state;
    this.#parts.emit({ type: "dead-letter", id, attempts, reason, error });
    return { kind: "dead-letter", reason, state, error };
  }

  /** A wait that the handler asked for. */
  deferBy(message: Message, state: MessageState, by: DeferReason, delayMs: number): Defer {
    const { deferMs, minDelayMs } = this.#parts;
    const waitMs = Math.max(minDelayMs, Math.ceil(delayMs) + this.#spreadMs(deferMs));
    const { deferrals: _, ...rest } = state;
    return this.#deferFor(message, rest, by, waitMs, undefined);
  }

  /**
   * No attempt was made. Each deferral in a row is longer than the one before, because a message that
   * waits for a long time must not take the place of others again and again.
   */
  defer(
    message: Message,
    state: MessageState,
    by: DeferReason,
    { until = 0, error }: DeferDetails = {},
  ): Defer {
    const { minDelayMs, clock } = this.#parts;
    const { deferrals = 0 } = state;
    const grownMs = this.#grownMs(message, state);
    const guardMs = until === Number.POSITIVE_INFINITY ? 0 : until - clock.now();
    const leastMs = Math.max(minDelayMs, Math.ceil(grownMs / 2), guardMs);
    const after = { ...state, deferrals: deferrals + 1 };
    return this.#deferFor(message, after, by, leastMs + this.#spreadMs(grownMs), error);
  }

  /** Other processes may have deferred it as well; but then it is at least as old as it would wait. */
  #grownMs({ receivesElsewhere = 0 }: Message, { deferrals = 0, startedAt }: MessageState): number {
    const { deferMs, maxDeferMs, clock } = this.#parts;
    const ageMs = clock.now() - startedAt;
    const ownMs = doubled(deferMs, deferrals);
    const othersMs = Math.min(ageMs, doubled(deferMs, deferrals + receivesElsewhere));
    return Math.min(Math.max(ownMs, othersMs), Math.max(deferMs, maxDeferMs));
  }

  /** The waits of deferred messages are spread, because a guard often holds many at once. */
  #spreadMs(ms: number): number {
    return Math.floor(this.#parts.random.next() * ms);
  }

  #deferFor(
    { id }: Message,
    state: MessageState,
    by: DeferReason,
    delayMs: number,
    error: unknown,
  ): Defer {
    this.#parts.emit({ type: "defer", id, by, delayMs, ...(error !== undefined && { error }) });
    return { kind: "defer", delayMs, by, state };
  }

  #requestOf({ id, deadlineAt }: Message): CallRequest {
    const { idempotent } = this.#parts;
    return { idempotent, idempotencyKey: id, patience: "wait", deadlineAt };
  }
}

function historyOf({ attempts, startedAt, previousDelayMs }: MessageState): CallHistory {
  return { attempt: attempts, startedAt, previousDelayMs };
}

/** Doubled so many times by a shift: `**` may round differently in different engines. */
function doubled(ms: number, times: number): number {
  return ms * (1 << Math.min(times, 20));
}

/** The service uses the same reason for a lost last attempt. */
function lossReason(reason: StopReason): StopReason {
  return reason === "attempts" ? "abandoned" : reason;
}
