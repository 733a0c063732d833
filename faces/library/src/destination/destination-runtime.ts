/**
 * Destination runtime: what a destination does for its calls. Before each attempt it asks core's
 * `Admission` for a permit, and after the attempt it returns the permit with the result. It hedges
 * slow attempts, renews credentials and runs fallbacks.
 */
import {
  type AdmissionRequest,
  type AdmitDecision,
  admissionRequestOf,
  admit,
  type BreakerState,
  type CallRequest,
  decide,
  type EntryGate,
  HEDGE_REQUEST,
  type HedgeOptions,
  type HoldReason,
  hedgeAfterMs,
  isRepeatable,
  OPEN_ENTRY,
  type Outcome,
  type Permit,
  type Random,
  retryGates,
  type StopReason,
  type Verdict,
  type WaitingCallHandler,
} from "@redrive/core";
import type { Attempt, Call, CallDestination, NextStep } from "../call/call.ts";
import type { CallConfig } from "../call/call-config.ts";
import { historyOf, leftMs, nextTimeoutMs, requestOf } from "../call/call-deadline.ts";
import {
  type CallEvent,
  type CallEventType,
  type CallListener,
  notify,
} from "../call/call-event.ts";
import { giveUp, invoke, launch, nextAttempt, wait } from "../call/call-execution.ts";
import { isNonRetryable, NO_RESULT } from "../call/classify-attempt.ts";
import { emit } from "../call/emit-event.ts";
import { recordFailure, retryStateOf } from "../call/failure-records.ts";
import type { AttemptResult } from "../call/options.ts";
import { FallbackChain, type FallbackWiring } from "./fallback-chain.ts";
import { HedgeRace } from "./hedge-race.ts";
import { type AnyCall, HeldCalls } from "./held-calls.ts";
import type { KeyedGuards } from "./keyed-guards.ts";
import { type Reauthenticate, Reauthentication } from "./reauthentication.ts";
import type { Counts } from "./stats.ts";

/** The functions that a destination was created with. */
export interface RuntimeWiring extends FallbackWiring {
  readonly reauthenticate?: Reauthenticate;
}

export class DestinationRuntime implements CallDestination, WaitingCallHandler<AnyCall> {
  readonly guards: KeyedGuards;
  readonly idempotent: boolean | undefined;
  readonly listeners: Map<CallEventType | "*", Set<CallListener>> = new Map();
  readonly counts: Counts = {
    firsts: 0,
    retries: 0,
    hedges: 0,
    successes: 0,
    failures: 0,
    refused: 0,
  };
  readonly held: HeldCalls;
  readonly #hedge: HedgeOptions | undefined;
  readonly #fallbacks: FallbackChain;
  readonly #reauthentication: Reauthentication;

  constructor(
    guards: KeyedGuards,
    config: CallConfig,
    idempotent: boolean | undefined,
    hedge: HedgeOptions | undefined,
    wiring: RuntimeWiring,
  ) {
    this.guards = guards;
    this.held = new HeldCalls(guards.admission, this, config);
    this.idempotent = idempotent;
    this.#hedge = hedge;
    this.#fallbacks = new FallbackChain(wiring);
    this.#reauthentication = new Reauthentication(wiring.reauthenticate);
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

  mayStart(call: AnyCall, now: number): boolean {
    const decision = entryDecision(call, OPEN_ENTRY, now);
    if (decision.kind === "stop") this.#timeOut(call, this.guards.admission.heldBy);
    return decision.kind !== "stop";
  }

  admitted(call: AnyCall, permit: Permit, now: number): void {
    call.cancelWait?.();
    if (call.latest.attempt > call.attempts) restart(call);
    this.#launch(call, permit, now);
  }

  refused(call: AnyCall, reason: StopReason): void {
    this.#refuse(call, reason);
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

  /** Schedules hedged copies of an attempt, if the call is safe to repeat. */
  #startRace<T>(attempt: Attempt<T>, hedge: HedgeOptions, now: number): void {
    const { call } = attempt;
    if (call.options.once || !isRepeatable(requestOf(call))) return;
    const afterMs = hedgeAfterMs(hedge, this.guards.shared.latency, now);
    if (afterMs === undefined) return;
    const send = (copy: number) => this.#sendCopy(call, copy, afterMs);
    call.race = new HedgeRace(attempt, send, hedge.max, afterMs);
  }

  /** Sends a copy of a slow attempt, if the guards admit it. A copy costs the same as a retry. */
  #sendCopy<T>(call: Call<T>, copy: number, afterMs: number): Attempt<T> | undefined {
    const now = call.config.timer.clock.now();
    const permit = this.guards.admission.enter(HEDGE_REQUEST, call.breaker, now);
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

  recordSuccess<T>(call: Call<T>, value: T): void {
    this.counts.successes++;
    this.#fallbacks.remember(call, value);
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
function entryDecision<T>(call: Call<T>, gate: EntryGate, now: number): AdmitDecision {
  const { policy } = call;
  const attempt = Math.min(call.attempts, policy.maxAttempts - 1);
  return admit(policy, guardedRequestOf(call), { ...historyOf(call, now), attempt }, gate, now);
}
