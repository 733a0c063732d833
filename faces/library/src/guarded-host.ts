/**
 * Guarded host: what a destination does for its calls. Before each attempt they ask core's
 * `Admission` for a permit; after each attempt the permit is handed back with its result. Slow
 * attempts may be hedged, and a call that is given up may fall back.
 */
import {
  type AdmissionRequest,
  admissionRequestOf,
  admit,
  type BreakerState,
  type CallHistory,
  type Decision,
  decide,
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
import { type Call, giveUp, launch, proceed, wait } from "./call.ts";
import {
  conclude,
  errorFor,
  historyOf,
  leftMs,
  record,
  requestOf,
  storyOf,
  tell,
} from "./call-state.ts";
import { type CallEvent, type CallEventType, type CallListener, notify } from "./events.ts";
import { FALLBACK_REASONS, firstAnswer, handOverOf } from "./fallback-chain.ts";
import type { Gatekeeper } from "./gatekeeper.ts";
import { HedgeRace } from "./hedge-race.ts";
import { type AnyCall, HeldCalls } from "./held-calls.ts";
import type { Counted, Host } from "./host.ts";
import { NO_ENDING } from "./judgement.ts";
import type { Ending, Fallback, FallbackContext } from "./options.ts";
import type { Setting } from "./setting.ts";

/** What a destination's program has wired in. */
export interface HostWiring {
  readonly onExhausted?: Fallback<never>;
  readonly fallback?: Fallback<never>;
  readonly reauthenticate?: () => void | PromiseLike<void>;
}

export class GuardedHost implements Host, WaitingCallHandler<AnyCall> {
  readonly gatekeeper: Gatekeeper;
  readonly idempotent: boolean | undefined;
  readonly listeners: Map<CallEventType | "*", Set<CallListener>> = new Map();
  /** Since the destination was made. */
  readonly counts: Record<Counted, number> = {
    firsts: 0,
    retries: 0,
    hedges: 0,
    successes: 0,
    failures: 0,
    refused: 0,
  };
  readonly held: HeldCalls;
  readonly #hedge: HedgeOptions | undefined;
  readonly #wiring: HostWiring;
  readonly #remembers: boolean;
  /** Under way, if it is: calls that ask at once share the answer. */
  #renewing: Promise<void> | undefined = undefined;

  constructor(
    gatekeeper: Gatekeeper,
    setting: Setting,
    idempotent: boolean | undefined,
    hedge: HedgeOptions | undefined,
    wiring: HostWiring,
  ) {
    this.gatekeeper = gatekeeper;
    this.held = new HeldCalls(gatekeeper.admission, this, setting);
    this.idempotent = idempotent;
    this.#hedge = hedge;
    this.#wiring = wiring;
    this.#remembers = Boolean(wiring.fallback?.remember ?? wiring.onExhausted?.remember);
  }

  get hasListeners(): boolean {
    return this.listeners.size > 0;
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
    const { admission } = this.gatekeeper;
    const { breaker } = call;
    // A first attempt that has only a closed breaker to pass takes nothing else.
    if (call.made === 0 && this.#hedge === undefined) {
      const pass = admission.enterOnlyBreaker(breaker);
      if (pass > 0) {
        this.counts.firsts++;
        launch(call, 0, pass, undefined);
        return;
      }
    }
    const now = call.setting.ticker.turn.latest().epochMs;
    const before = breaker?.state;
    const permit = this.held.queue.enter(applicantFor(call), breaker, now);
    tellBreaker(call, before);
    if (permit !== undefined) this.#go(call, permit, now);
    else if (!call.over) this.#refuse(call, now);
  }

  /** No permit: the call ends, or it waits if core says so. */
  #refuse<T>(call: Call<T>, now: number): void {
    const { admission } = this.gatekeeper;
    const { refusal = "hold", heldBy } = admission;
    if (refusal !== "hold") {
      this.#turnAway(call, refusal);
      return;
    }
    const decision = admit(call.policy, requestOf(call), entryHistory(call, now), admission, now);
    if (decision.kind === "stop") this.#turnAway(call, decision.reason, decision.by);
    else this.#hold(call, heldBy, now);
  }

  /** The call waits for its guards, at most until its time is over. */
  #hold<T>(call: Call<T>, by: HoldReason, now: number): void {
    const { held } = this;
    const entry = held.queue.join(call, applicantFor(call), call.breaker);
    if (entry === undefined) {
      this.#turnAway(call, "overload");
      return;
    }
    wait(call, Math.max(0, leftMs(call)), () => {
      held.remove(entry);
      this.#outOfTime(call, entry.lane.heldBy);
    });
    const { cancelWait } = call;
    call.cancelWait = () => {
      cancelWait?.();
      held.remove(entry);
    };
    tell(call, { type: "hold", attempt: call.made + 1, by });
    if (held.queue.wakeAt <= now) held.wake(now);
    else held.arm(now);
  }

  #outOfTime<T>(call: Call<T>, by: HoldReason): void {
    if (call.made > 0) this.#turnAway(call, "budget");
    else this.#turnAway(call, "held", by);
  }

  mayStart(call: AnyCall, now: number): boolean {
    const history = entryHistory(call, now);
    const decision = admit(call.policy, requestOf(call), history, OPEN_ENTRY, now);
    if (decision.kind === "stop") this.#outOfTime(call, this.gatekeeper.admission.heldBy);
    return decision.kind !== "stop";
  }

  admitted(call: AnyCall, permit: Permit, now: number): void {
    call.cancelWait?.();
    this.#go(call, permit, now);
  }

  refused(call: AnyCall, reason: StopReason): void {
    this.#turnAway(call, reason);
  }

  #go<T>(call: Call<T>, permit: Permit, now: number): void {
    if (call.over) {
      this.#giveBack(call, permit, now);
      return;
    }
    if (call.made === 0) this.counts.firsts++;
    else this.counts.retries++;
    // The race of the attempt before is over, and what it was asked to wait has been waited.
    call.race = undefined;
    const attempt = launch(call, 0, permit.pass, permit);
    if (this.#hedge && !attempt.settled) this.#startRace(attempt, this.#hedge, now);
  }

  /** A listener has aborted the call that was about to leave: it has taken nothing. */
  #giveBack<T>({ breaker }: Call<T>, permit: Permit, now: number): void {
    this.gatekeeper.admission.handBack(permit, breaker, now);
    this.held.wake(now);
  }

  #turnAway<T>(call: Call<T>, reason: StopReason, by?: HoldReason): void {
    this.counts.refused++;
    giveUp(call, reason, call.story?.lastEnding ?? NO_ENDING, by);
  }

  /** Watches an attempt that may need a copy, where a copy could do no harm. */
  #startRace<T>(attempt: Call<T>, hedge: HedgeOptions, now: number): void {
    const { call } = attempt;
    if (call.options.once || !isRepeatable(requestOf(call))) return;
    const afterMs = hedgeAfterMs(hedge, this.gatekeeper.guards.latency, now);
    if (afterMs === undefined) return;
    const send = (copy: number) => this.#sendCopy(call, copy, afterMs);
    call.race = new HedgeRace(attempt, send, hedge.max, afterMs);
  }

  /** Sends a copy of a slow attempt, if the guards allow it: a hedge pays what a retry pays. */
  #sendCopy<T>(call: Call<T>, copy: number, afterMs: number): Call<T> | undefined {
    const now = call.setting.ticker.turn.now();
    const permit = this.gatekeeper.admission.enter(HEDGE_REQUEST, call.breaker, now);
    if (permit === undefined) return undefined;
    this.counts.hedges++;
    tell(call, { type: "hedge", attempt: call.made, copy, afterMs });
    if (!call.over) return launch(call, copy, permit.pass, permit);
    this.#giveBack(call, permit, now);
    return undefined;
  }

  leave<T>(attempt: Call<T>, outcome: Outcome, verdict: Verdict): void {
    const { admission } = this.gatekeeper;
    const { call, permit, pass } = attempt;
    const { breaker } = call;
    const { epochMs: now, ms } = call.setting.ticker.turn.latest();
    const durationMs = ms - attempt.moment.ms;
    const before = breaker?.state;
    if (permit !== undefined) {
      admission.leave(permit, breaker, call.policy, outcome, verdict, durationMs, now);
      this.held.wake(now);
    } else if (breaker !== undefined) {
      admission.leaveOnlyBreaker(pass, breaker, outcome, verdict, durationMs, now);
    }
    tellBreaker(call, before);
  }

  sift<T>(
    attempt: Call<T>,
    ending: Ending<T>,
    outcome: Outcome,
    verdict: Verdict,
  ): Outcome | false {
    const { call } = attempt;
    const { race } = call;
    const heeded = race?.heed(outcome, call.setting.ticker.turn.now()) ?? outcome;
    if (race?.isOn()) return false;
    race?.stop();
    const isRefused = outcome.kind === "status" && outcome.status === 401;
    const renewed = isRefused && !call.options.once ? this.#renewFor(call) : undefined;
    if (renewed === undefined) return heeded;
    record(attempt, ending, outcome, verdict, 0, call.setting.clock.now());
    this.#repeatAfter(call, renewed);
    return false;
  }

  /** New credentials, once per call; undefined where nobody can get any. */
  #renewFor<T>(call: Call<T>): Promise<void> | undefined {
    const { reauthenticate } = this.#wiring;
    if (reauthenticate === undefined || call.story?.hasRenewed) return undefined;
    storyOf(call).hasRenewed = true;
    if (this.#renewing !== undefined) return this.#renewing;
    const renewing = Promise.resolve()
      .then(reauthenticate)
      .finally(() => {
        if (this.#renewing === renewing) this.#renewing = undefined;
      });
    this.#renewing = renewing;
    return renewing;
  }

  /** Waits for new credentials while the budget lasts, then repeats at once. 401 is never simply retried. */
  #repeatAfter<T>(call: Call<T>, renewed: Promise<void>): void {
    wait(call, Math.max(0, leftMs(call)), () => {
      // One that takes longer than a whole call may never come back: the next call asks anew.
      if (this.#renewing === renewed) this.#renewing = undefined;
      this.#turnAway(call, "budget");
    });
    renewed.then(
      () => {
        if (!call.over) tell(call, { type: "reauthenticate", attempt: call.made + 1 });
        if (call.over) return;
        call.cancelWait?.();
        storyOf(call).isRenewed = true;
        proceed(call);
      },
      (error: unknown) => {
        if (!call.over) giveUp(call, "not-retryable", { error });
      },
    );
  }

  decide<T>(
    call: Call<T>,
    outcome: Outcome,
    now: number,
    random: Random,
    throttled: boolean,
  ): Decision {
    const applicant = admissionRequestOf(true, call.options.patience === "wait", throttled);
    const gates = retryGates(this.gatekeeper.admission, applicant, call.breaker, now);
    const history = historyOf(call, now);
    return decide(call.policy, requestOf(call), history, outcome, gates, now, random);
  }

  finish<T>(call: Call<T>, reason?: unknown): void {
    call.race?.end(reason);
  }

  succeeded<T>(call: Call<T>, value: T): void {
    this.counts.successes++;
    if (call.race !== undefined) call.race.end();
    if (this.#remembers || call.options.fallback !== undefined) this.#remember(call, value);
  }

  #remember<T>(call: Call<T>, value: T): void {
    const context = this.#contextOf(call);
    for (const fallback of this.#fallbacksOf(call)) {
      notify((good: T) => fallback.remember?.(good, context), value);
    }
  }

  conclude<T>(call: Call<T>, reason: StopReason, ending: Ending<T>, error: unknown): boolean {
    this.counts.failures++;
    const fallbacks = this.#fallbacksOf(call);
    if (fallbacks.length === 0 || !FALLBACK_REASONS.includes(reason)) return false;
    tell(call, { type: "fallback", reason });
    const told = error ?? errorFor(call, reason, ending);
    const { signal } = call.options;
    // Who was told may have aborted it.
    if (signal?.aborted) {
      call.reject(signal.reason);
      return true;
    }
    signal?.addEventListener("abort", call);
    firstAnswer(fallbacks, told, this.#contextOf(call))
      .finally(() => signal?.removeEventListener("abort", call))
      .then(call.resolve, (thrown: unknown) => {
        if (thrown === told) conclude(call, ending, error);
        else call.reject(thrown);
      });
    return true;
  }

  /** Those to ask, in their order: a call's own stands in for its destination's. */
  #fallbacksOf<T>({ options }: Call<T>): readonly Fallback<T>[] {
    const { onExhausted, fallback } = this.#wiring;
    const all = options.fallback ? [options.fallback] : [onExhausted, fallback];
    return all.filter(Boolean) as Fallback<T>[];
  }

  #contextOf<T>(call: Call<T>): FallbackContext {
    const { setting, options, made: attempts } = call;
    const { name: destination = "", clock } = setting;
    const handOver = handOverOf(call);
    return { destination, key: options.key, attempts, at: clock.now(), handOver };
  }
}

/** Tells of a breaker that has changed. */
function tellBreaker<T>(call: Call<T>, before: BreakerState | undefined): void {
  const after = call.breaker?.state;
  if (before !== after && before && after) tell(call, { type: "breaker", from: before, to: after });
}

/** An attempt with new credentials repeats no failure: it costs what a first attempt costs. */
function applicantFor<T>({ made, story, options }: Call<T>): AdmissionRequest {
  const isFirst = made === 0 || story?.isRenewed === true;
  const throttled = !isFirst && story?.isThrottled === true;
  return admissionRequestOf(!isFirst, options.patience === "wait", throttled);
}

/** Whoever asks to start has an attempt left, if only to use new credentials. */
function entryHistory<T>(call: Call<T>, now: number): CallHistory {
  const history = historyOf(call, now);
  const attempt = Math.min(call.made, call.policy.maxAttempts - 1);
  return { ...history, attempt };
}
