/**
 * Destination runtime: what a destination does for its calls. Before each attempt it asks core's
 * `Admission` for a permit, and after the attempt it returns the permit with the result. It hedges
 * slow attempts, renews credentials and runs fallbacks.
 */
import {
  type Admission,
  type AdmissionRequest,
  type AdmitDecision,
  admissionRequestOf,
  admit,
  type BreakerState,
  type CallRequest,
  type Cancel,
  decide,
  type EntryGate,
  HEDGE_REQUEST,
  type HedgeOptions,
  type HoldReason,
  hedgeAfterMs,
  isRepeatable,
  mayRunTwice,
  OPEN_ENTRY,
  type Outcome,
  type Permit,
  type Random,
  RedriveError,
  retryGates,
  type StopReason,
  type Verdict,
  type WaitingCallHandler,
  WaitingCalls,
  type WaitingEntry,
} from "@redrive/core";
import {
  type Attempt,
  type AttemptRace,
  type Call,
  type CallDestination,
  historyOf,
  ignoreAbort,
  isNonRetryable,
  leftMs,
  listenToAbort,
  type NextStep,
  NO_RESULT,
  nextTimeoutMs,
  rejectionFor,
  requestOf,
  settleCall,
} from "../call/call.ts";
import type { CallConfig } from "../call/call-config.ts";
import {
  type CallEvent,
  type CallEventType,
  type CallListener,
  notify,
} from "../call/call-event.ts";
import type { AttemptResult, Fallback, FallbackContext, HandOff } from "../call/options.ts";
import {
  abortAttempt,
  emit,
  giveUp,
  invoke,
  launch,
  nextAttempt,
  recordFailure,
  retryStateOf,
  startNextAttempt,
  wait,
} from "../call/retry.ts";
import type { Counts, KeyedGuards } from "./keyed-guards.ts";

/** The functions that a destination was created with. */
interface RuntimeWiring extends FallbackWiring {
  readonly reauthenticate?: Reauthenticate | undefined;
}

const NO_COUNTS: Counts = {
  firsts: 0,
  retries: 0,
  hedges: 0,
  successes: 0,
  failures: 0,
  refused: 0,
};

export class DestinationRuntime implements CallDestination, WaitingCallHandler<AnyCall> {
  readonly guards: KeyedGuards;
  readonly idempotent: boolean | undefined;
  readonly listeners: Map<CallEventType | "*", Set<CallListener>>;
  readonly counts: Counts;
  readonly held: HeldCalls;
  readonly #hedge: HedgeOptions | undefined;
  readonly #fallbacks: FallbackChain;
  readonly #reauthentication: Reauthentication;

  /** `whole`: the destination, if these guards are those of one key. It shares all else. */
  constructor(
    guards: KeyedGuards,
    config: CallConfig,
    idempotent: boolean | undefined,
    hedge: HedgeOptions | undefined,
    wiring: RuntimeWiring,
    whole?: DestinationRuntime,
  ) {
    this.guards = guards;
    this.held = new HeldCalls(guards.admission, this, config);
    this.idempotent = idempotent;
    this.listeners = whole?.listeners ?? new Map();
    this.counts = whole?.counts ?? { ...NO_COUNTS };
    this.#hedge = hedge;
    this.#fallbacks = whole ? whole.#fallbacks : new FallbackChain(wiring);
    this.#reauthentication = whole
      ? whole.#reauthentication
      : new Reauthentication(wiring.reauthenticate);
  }

  get hasListeners(): boolean {
    return this.listeners.size > 0;
  }

  labelsOf<T>({ config, options }: Call<T>): Pick<CallEvent, "destination" | "key"> {
    const { name: destination = "" } = config;
    const { key } = options;
    return key === undefined ? { destination } : { destination, key };
  }

  emit(event: CallEvent): void {
    for (const type of [event.type, "*"] as const) {
      for (const listener of this.listeners.get(type) ?? []) notify(listener, event);
    }
  }

  endpointOf(copy: number): string | undefined {
    const { endpoints = [] } = this.#hedge ?? {};
    return copy === 0 ? undefined : endpoints[(copy - 1) % endpoints.length];
  }

  enter<T>(call: Call<T>): void {
    const { breaker } = call;
    // Fast path: a first attempt whose only guard is a closed breaker.
    if (call.attempts === 0 && this.#hedge === undefined) {
      const pass = this.guards.admission.enterOnlyBreaker(breaker);
      if (pass > 0) {
        this.counts.firsts++;
        launch(call, pass, undefined);
        return;
      }
    }
    const now = call.config.timer.clock.peek().epochMs;
    const before = breaker?.state;
    const permit = this.held.queue.enter(admissionRequestFor(call), breaker, now);
    emitBreakerChange(call, before);
    if (permit !== undefined) this.#launch(call, permit, now);
    else if (!call.over) this.#handleRefusal(call, now);
  }

  /** Without a permit the call ends, or waits if core decides so. */
  #handleRefusal<T>(call: Call<T>, now: number): void {
    const { admission } = this.guards;
    const { refusal = "hold", heldBy } = admission;
    if (refusal !== "hold") {
      this.#refuse(call, refusal);
      return;
    }
    const decision = entryDecision(call, admission, now);
    if (decision.kind === "stop") this.#refuse(call, decision.reason, decision.by);
    else this.#hold(call, heldBy, now);
  }

  /** The call waits for its guards, at most until its deadline. */
  #hold<T>(call: Call<T>, by: HoldReason, now: number): void {
    const { held } = this;
    const entry = held.queue.join(call, admissionRequestFor(call), call.breaker);
    if (entry === undefined) {
      this.#refuse(call, "overload");
      return;
    }
    wait(call, Math.max(0, leftMs(call)), () => {
      held.remove(entry);
      this.#timeOut(call, entry.lane.heldBy);
    });
    const { cancelWait } = call;
    call.cancelWait = () => {
      cancelWait?.();
      held.remove(entry);
    };
    emit(call, { type: "hold", attempt: call.attempts + 1, by });
    if (held.queue.wakeAt <= now) held.wake(now);
    else held.arm(now);
  }

  /** The call has no time left for the attempt that waits. */
  #timeOut<T>(call: Call<T>, by: HoldReason): void {
    if (call.attempts > 0) this.#refuse(call, "budget");
    else this.#refuse(call, "held", by);
  }

  decideEntry(call: AnyCall, now: number, by: HoldReason, usualCallMs?: number): AdmitDecision {
    return entryDecision(call, OPEN_ENTRY, now, by, usualCallMs);
  }

  admitted(call: AnyCall, permit: Permit, now: number): void {
    call.cancelWait?.();
    if (call.latest.attempt > call.attempts) restart(call);
    this.#launch(call, permit, now);
  }

  refused(call: AnyCall, reason: StopReason, _now: number, by?: HoldReason): void {
    this.#refuse(call, reason, by);
  }

  #launch<T>(call: Call<T>, permit: Permit, now: number): void {
    if (call.over) {
      this.#returnPermit(call, permit, now);
      return;
    }
    if (call.attempts === 0) this.counts.firsts++;
    else this.counts.retries++;
    // The race of the previous attempt is over, and the wait it was asked for has passed.
    call.race = undefined;
    const attempt = launch(call, permit.pass, permit);
    if (this.#hedge && !attempt.settled) this.#startRace(attempt, this.#hedge, now);
  }

  /** A listener aborted the call before the attempt started, so the permit is unused. */
  #returnPermit<T>({ breaker }: Call<T>, permit: Permit, now: number): void {
    this.guards.admission.handBack(permit, breaker, now);
    this.held.wake(now);
  }

  #refuse<T>(call: Call<T>, reason: StopReason, by?: HoldReason): void {
    this.counts.refused++;
    giveUp(call, reason, call.retryState?.lastResult ?? NO_RESULT, by);
  }

  /** Schedules hedged copies of an attempt, if the call may take effect twice. */
  #startRace<T>(attempt: Attempt<T>, hedge: HedgeOptions, now: number): void {
    const { call } = attempt;
    if (call.options.once) return;
    if (!mayRunTwice(requestOf(call))) {
      emit(call, { type: "hedge-skipped", attempt: call.attempts });
      return;
    }
    const afterMs = hedgeAfterMs(hedge, this.guards.shared.latency, now);
    if (afterMs === undefined) return;
    const send = (copy: number) => this.#sendCopy(call, copy, afterMs);
    call.race = new HedgeRace(attempt, send, hedge.max, afterMs);
  }

  /** Sends a copy of a slow attempt, if the guards admit it. A copy costs the same as a retry. */
  #sendCopy<T>(call: Call<T>, copy: number, afterMs: number): Attempt<T> | undefined {
    const now = call.config.timer.clock.now();
    const permit = this.held.queue.enter(HEDGE_REQUEST, call.breaker, now);
    if (permit === undefined) return undefined;
    this.counts.hedges++;
    emit(call, { type: "hedge", attempt: call.attempts, copy, afterMs });
    if (!call.over) return launchCopy(call, copy, permit);
    this.#returnPermit(call, permit, now);
    return undefined;
  }

  leave<T>(attempt: Attempt<T>, outcome: Outcome, verdict: Verdict): void {
    const { admission } = this.guards;
    const { call, permit, pass } = attempt;
    const { breaker } = call;
    const { epochMs: now, monotonicMs } = call.config.timer.clock.peek();
    const durationMs = monotonicMs - attempt.started.monotonicMs;
    const before = breaker?.state;
    if (permit !== undefined) {
      admission.leave(permit, breaker, call.policy, outcome, verdict, durationMs, now);
      this.held.wake(now);
    } else if (breaker !== undefined) {
      admission.leaveOnlyBreaker(pass, breaker, outcome, verdict, durationMs, now);
    }
    emitBreakerChange(call, before);
  }

  outcomeToDecide<T>(
    attempt: Attempt<T>,
    result: AttemptResult<T>,
    outcome: Outcome,
    verdict: Verdict,
  ): Outcome | false {
    const { call } = attempt;
    const { race, config } = call;
    // A non-retryable error does not wait for hedged copies.
    if (isNonRetryable(result)) return outcome;
    const decidable = race?.withMaxWait(outcome, config.timer.clock.now()) ?? outcome;
    if (race?.hasRunning()) return false;
    // All attempts have ended, so this only cancels further copies.
    race?.end();
    // A 401 is never simply retried: the attempt is repeated once, with new credentials.
    const isUnauthorized = outcome.kind === "status" && outcome.status === 401;
    const renewal =
      isUnauthorized && !call.options.once ? this.#reauthentication.renew(call) : undefined;
    if (renewal === undefined) return decidable;
    recordFailure(attempt, result, outcome, verdict, 0, config.clock.now());
    this.#reauthentication.repeatAfter(renewal, call, () => this.#refuse(call, "budget"));
    return false;
  }

  decide<T>(
    call: Call<T>,
    outcome: Outcome,
    now: number,
    random: Random,
    throttled: boolean,
  ): NextStep {
    const { policy, options, breaker } = call;
    const state = retryStateOf(call);
    state.isThrottled = throttled;
    state.hasNewCredentials = false;
    const admissionRequest = admissionRequestOf(true, options.patience === "wait", throttled);
    const gates = retryGates(this.guards.admission, admissionRequest, breaker, now);
    const request = guardedRequestOf(call);
    const decision = decide(policy, request, historyOf(call, now), outcome, gates, now, random);
    if (decision.kind !== "hold") return decision;
    const { by: source, until, ownDelayMs } = decision;
    return { kind: "retry", delayMs: until - now, ownDelayMs, source };
  }

  reports(reason: StopReason): boolean {
    return REPORTED_REASONS.includes(reason);
  }

  /** A fallback never stands in with an answer such as 404. */
  recordSuccess<T>(call: Call<T>, value: T, { kind }: Outcome): void {
    this.counts.successes++;
    if (kind === "success") this.#fallbacks.remember(call, value);
  }

  fallBack<T>(
    call: Call<T>,
    reason: StopReason,
    result: AttemptResult<T>,
    error: unknown,
  ): boolean {
    this.counts.failures++;
    return this.#fallbacks.run(call, reason, result, error);
  }
}

/** Reasons that the caller must learn even if nothing was retried. */
const REPORTED_REASONS: readonly StopReason[] = ["circuit-open", "retry-budget", "overload"];

/** The first attempt of a call that a guard has held starts now. The call keeps its own start. */
function restart<T>(call: Call<T>): void {
  const { latest, config } = call;
  call.queuedSince = call.started;
  latest.started = config.timer.clock.read();
  latest.timeoutMs = nextTimeoutMs(call);
}

function launchCopy<T>(call: Call<T>, number: number, permit: Permit): Attempt<T> {
  const copy = nextAttempt(call, call.attempts);
  copy.copy = number;
  copy.pass = permit.pass;
  copy.permit = permit;
  call.config.timer.add(copy);
  invoke(copy, call.operation);
  return copy;
}

/** The request that core decides on, with what only guards need to know. */
function guardedRequestOf<T>(call: Call<T>): CallRequest {
  return { ...requestOf(call), patience: call.options.patience };
}

function emitBreakerChange<T>(call: Call<T>, before: BreakerState | undefined): void {
  const after = call.breaker?.state;
  if (before !== after && before && after) emit(call, { type: "breaker", from: before, to: after });
}

/** An attempt with new credentials does not repeat a failure, so it costs the same as a first one. */
function admissionRequestFor<T>({ attempts, retryState, options }: Call<T>): AdmissionRequest {
  const isRetry = attempts > 0 && !retryState?.hasNewCredentials;
  const throttled = isRetry && retryState?.isThrottled === true;
  return admissionRequestOf(isRetry, options.patience === "wait", throttled);
}

/** A call that asks to start has an attempt left, if only the one with new credentials. */
function entryDecision<T>(
  call: Call<T>,
  gate: EntryGate,
  now: number,
  heldBy?: HoldReason,
  usualCallMs?: number,
): AdmitDecision {
  const { policy } = call;
  const attempt = Math.min(call.attempts, policy.maxAttempts - 1);
  const history = { ...historyOf(call, now), attempt, heldBy };
  return admit(policy, guardedRequestOf(call), history, gate, now, usualCallMs);
}

/** Calls with different result types wait in one queue. */
// biome-ignore lint/suspicious/noExplicitAny: what a call returns does not matter while it waits
type AnyCall = Call<any>;

/**
 * The calls that a destination's guards hold, and the single alarm that wakes them in order. A destination that
 * holds no calls has no alarm.
 */
class HeldCalls {
  readonly queue: WaitingCalls<AnyCall>;
  readonly #config: CallConfig;
  #alarmAt: number = Number.POSITIVE_INFINITY;
  #cancelAlarm: Cancel | undefined = undefined;

  constructor(admission: Admission, handler: WaitingCallHandler<AnyCall>, config: CallConfig) {
    this.queue = new WaitingCalls(admission, handler);
    this.#config = config;
  }

  /** Starts the calls that the guards now admit. Called when a guard may have changed. */
  wake(now: number): void {
    const { queue } = this;
    if (queue.size === 0) return;
    queue.wake(now);
    this.arm(now);
  }

  /** Removes a call that was aborted or has no time left. */
  remove(entry: WaitingEntry<AnyCall>): void {
    const { queue } = this;
    queue.remove(entry);
    if (queue.size === 0) this.#setAlarm(Number.POSITIVE_INFINITY, 0);
  }

  arm(now: number): void {
    const { wakeAt } = this.queue;
    if (wakeAt !== this.#alarmAt) this.#setAlarm(wakeAt, wakeAt - now);
  }

  #setAlarm(at: number, delayMs: number): void {
    this.#cancelAlarm?.();
    this.#cancelAlarm = undefined;
    this.#alarmAt = at;
    if (at === Number.POSITIVE_INFINITY) return;
    const { clock, timer } = this.#config;
    this.#cancelAlarm = clock.alarm(Math.max(0, delayMs), () => {
      this.#alarmAt = Number.POSITIVE_INFINITY;
      this.wake(timer.clock.now());
    });
  }
}

const LOST = "another copy of this call won";

/**
 * An attempt and its hedged copies. The first success wins, and the losers are aborted. A failure counts only if
 * no other attempt still runs.
 */
class HedgeRace<T> implements AttemptRace {
  readonly #send: (copy: number) => Attempt<T> | undefined;
  readonly #maxCopies: number;
  readonly #afterMs: number;
  readonly #attempts: Attempt<T>[];
  #cancel: Cancel;
  #isOver = false;
  /** The end of the longest wait that a failed attempt was asked for; epoch ms. */
  #retryAfterAt = 0;

  /** `send` launches a copy, unless the guards refuse it. */
  constructor(
    first: Attempt<T>,
    send: (copy: number) => Attempt<T> | undefined,
    maxCopies: number,
    afterMs: number,
  ) {
    this.#send = send;
    this.#maxCopies = maxCopies;
    this.#afterMs = afterMs;
    this.#attempts = [first];
    this.#cancel = this.#arm(first.call);
  }

  /** A copy is optional, so it comes after everything else that is due in this turn. */
  #arm({ config: { clock } }: Call<T>): Cancel {
    return clock.alarm(this.#afterMs, () => clock.endOfTurn(() => this.#sendNext(clock.now())));
  }

  /** A destination that has asked for a wait gets no further copy either. */
  #sendNext(now: number): void {
    if (this.#isOver || now < this.#retryAfterAt) return;
    const copy = this.#attempts.length;
    const attempt = this.#send(copy);
    if (attempt === undefined) return;
    this.#attempts.push(attempt);
    // The operation may have ended the whole call before it returned.
    if (attempt.call.over) this.end();
    else if (copy < this.#maxCopies) this.#cancel = this.#arm(attempt.call);
  }

  hasRunning(): boolean {
    return this.#attempts.some((attempt) => !attempt.settled);
  }

  hasOverdue(): boolean {
    return this.#attempts.some((attempt) => attempt.overdue);
  }

  withMaxWait(outcome: Outcome, now: number): Outcome {
    this.#retryAfterAt = Math.max(this.#retryAfterAt, now + (outcome.retryAfterMs ?? 0));
    const retryAfterMs = this.#retryAfterAt - now;
    return retryAfterMs > 0 ? { ...outcome, retryAfterMs } : outcome;
  }

  end(reason: unknown = undefined): void {
    this.#isOver = true;
    this.#cancel();
    for (const attempt of this.#attempts) {
      if (!attempt.settled) abortAttempt(attempt, reason ?? new RedriveError("HEDGE_LOST", LOST));
    }
  }
}

/** Reasons for which a substitute is better than an error. The others are mistakes of the caller. */
const FALLBACK_REASONS: readonly StopReason[] = [
  "attempts",
  "budget",
  "held",
  "retry-budget",
  "circuit-open",
  "overload",
  "retry-after",
];

/** The fallbacks that a destination was created with. */
interface FallbackWiring {
  readonly onExhausted?: Fallback | undefined;
  readonly fallback?: Fallback | undefined;
}

/**
 * Runs the fallbacks of a call that was given up, one after the other. It also passes successful values to the
 * fallbacks that keep them.
 */
class FallbackChain {
  readonly #wiring: FallbackWiring;
  readonly #remembers: boolean;

  constructor(wiring: FallbackWiring) {
    this.#wiring = wiring;
    this.#remembers = Boolean(wiring.fallback?.remember ?? wiring.onExhausted?.remember);
  }

  remember<T>(call: Call<T>, value: T): void {
    if (!this.#remembers && call.options.fallback === undefined) return;
    const context = contextOf(call);
    for (const fallback of this.#fallbacksOf(call)) {
      notify((good: T) => fallback.remember?.(good, context), value);
    }
  }

  /** Runs the fallbacks. False if there are none for this reason; then the caller settles the call. */
  run<T>(call: Call<T>, reason: StopReason, result: AttemptResult<T>, error: unknown): boolean {
    const fallbacks = this.#fallbacksOf(call);
    if (fallbacks.length === 0 || !FALLBACK_REASONS.includes(reason)) return false;
    emit(call, { type: "fallback", reason });
    const given = error ?? rejectionFor(call, reason, result);
    const { signal } = call.options;
    // A listener may have aborted the call.
    if (signal?.aborted) {
      call.reject(signal.reason);
      return true;
    }
    if (signal) listenToAbort(signal, call);
    runFallbacks(fallbacks, given, contextOf(call))
      .finally(() => signal && ignoreAbort(signal, call))
      .then(call.resolve, (thrown: unknown) => {
        if (thrown === given) settleCall(call, result, error);
        else call.reject(thrown);
      });
    return true;
  }

  /** In the order in which they run. A call's own fallback replaces those of its destination. */
  #fallbacksOf<T>({ options }: Call<T>): readonly Fallback<T>[] {
    const { onExhausted, fallback } = this.#wiring;
    const all = options.fallback ? [options.fallback] : [onExhausted, fallback];
    return all.filter(Boolean) as Fallback<T>[];
  }
}

function contextOf<T>(call: Call<T>): FallbackContext {
  const { config, options, attempts } = call;
  const { name: destination = "", clock } = config;
  const handOff = handOffOf(call);
  return { destination, key: options.key, attempts, at: clock.now(), handOff };
}

/** A fallback declines by rethrowing the error; the next one is then tried. */
async function runFallbacks<T>(
  fallbacks: readonly Fallback<T>[],
  error: unknown,
  context: FallbackContext,
): Promise<T> {
  for (const fallback of fallbacks) {
    try {
      return await fallback(error, context);
    } catch (thrown) {
      if (thrown !== error) throw thrown;
    }
  }
  throw error;
}

/** Only calls that no outer layer retries are handed off. */
function handOffOf<T>(call: Call<T>): HandOff | undefined {
  const { request, idempotencyKey, method } = call.options;
  if (request === undefined || call.outer?.retries) return undefined;
  const asked = { ...requestOf(call), method: method ?? request.method ?? "POST" };
  return isRepeatable(asked) ? { request, idempotencyKey } : undefined;
}

type Reauthenticate = () => void | PromiseLike<void>;

/**
 * Renews a destination's credentials after a 401. Calls that need new credentials at the same time share one
 * renewal, and a call renews at most once.
 */
class Reauthentication {
  readonly #reauthenticate: Reauthenticate | undefined;
  #renewal: Promise<void> | undefined = undefined;

  constructor(reauthenticate: Reauthenticate | undefined) {
    this.#reauthenticate = reauthenticate;
  }

  /** Starts or joins a renewal; undefined if the call cannot renew or has already done so. */
  renew<T>(call: Call<T>): Promise<void> | undefined {
    if (this.#reauthenticate === undefined || call.retryState?.hasReauthenticated) return undefined;
    retryStateOf(call).hasReauthenticated = true;
    if (this.#renewal !== undefined) return this.#renewal;
    const renewal = Promise.resolve()
      .then(this.#reauthenticate)
      .finally(() => this.#forget(renewal));
    this.#renewal = renewal;
    return renewal;
  }

  #forget(renewal: Promise<void>): void {
    if (this.#renewal === renewal) this.#renewal = undefined;
  }

  /** Repeats the call at once when the credentials are new, or calls `onTimeout` at its deadline. */
  repeatAfter<T>(renewal: Promise<void>, call: Call<T>, onTimeout: () => void): void {
    wait(call, Math.max(0, leftMs(call)), () => {
      // A renewal that takes longer than a whole call may never end. The next call starts a new one.
      this.#forget(renewal);
      onTimeout();
    });
    renewal.then(
      () => {
        if (!call.over) emit(call, { type: "reauthenticate", attempt: call.attempts + 1 });
        if (call.over) return;
        call.cancelWait?.();
        retryStateOf(call).hasNewCredentials = true;
        startNextAttempt(call);
      },
      (error: unknown) => {
        if (!call.over) giveUp(call, "not-retryable", { error });
      },
    );
  }
}
