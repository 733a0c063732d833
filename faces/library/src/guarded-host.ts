/**
 * Guarded host: what a destination does for its calls. Before each attempt they pass its guards, in
 * the documented order (rate, breaker, concurrency); after each the guards are told how it went.
 * Slow attempts may be hedged, and a call that is given up may fall back.
 */
import {
  admit,
  type BreakerState,
  type Gates,
  type HedgeOptions,
  type HoldDecision,
  hedgeAfterMs,
  isRepeatable,
  type Outcome,
  type StopReason,
  type Verdict,
} from "@redrive/core";
import { type Call, drop, giveUp, launch, proceed, wait } from "./call.ts";
import {
  conclude,
  errorFor,
  historyOf,
  leftMs,
  putOff,
  record,
  requestOf,
  storyOf,
  tell,
} from "./call-state.ts";
import { type CallEvent, type CallEventType, type CallListener, notify } from "./events.ts";
import type { Gatekeeper } from "./gatekeeper.ts";
import { HedgeRace } from "./hedge-race.ts";
import type { Counted, Host } from "./host.ts";
import { NO_ENDING } from "./judgement.ts";
import type { Ending, Fallback, FallbackContext, HandOver } from "./options.ts";

/** Ends at which a substitute serves better than an error; the others are the caller's mistakes. */
const FALLBACK_REASONS: readonly StopReason[] = [
  "attempts",
  "budget",
  "retry-budget",
  "circuit-open",
  "overload",
  "retry-after",
];

/** What a destination's program has wired in. */
export interface HostWiring {
  readonly onExhausted?: Fallback<never>;
  readonly fallback?: Fallback<never>;
  readonly reauthenticate?: () => void | PromiseLike<void>;
}

export class GuardedHost implements Host {
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
  private readonly hedge: HedgeOptions | undefined;
  private readonly wiring: HostWiring;
  private readonly remembers: boolean;
  /** Under way, if it is: calls that ask at once share the answer. */
  private renewing: Promise<void> | undefined = undefined;

  constructor(
    gatekeeper: Gatekeeper,
    idempotent: boolean | undefined,
    hedge: HedgeOptions | undefined,
    wiring: HostWiring,
  ) {
    this.gatekeeper = gatekeeper;
    this.idempotent = idempotent;
    this.hedge = hedge;
    this.wiring = wiring;
    this.remembers = Boolean(wiring.fallback?.remember ?? wiring.onExhausted?.remember);
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
    const { endpoints = [] } = this.hedge ?? {};
    return copy === 0 ? undefined : endpoints[(copy - 1) % endpoints.length];
  }

  enter<T>(call: Call<T>): void {
    const { gatekeeper } = this;
    const { breaker } = call;
    const isRetry = call.made > 0;
    // Where only a closed breaker stands in the way, that is all there is to see to.
    if (!isRetry && gatekeeper.isBare && breaker?.state === "CLOSED" && this.hedge === undefined) {
      this.counts.firsts++;
      launch(call, 0, breaker.generation, 0);
      return;
    }
    const now = call.setting.ticker.turn.latest().epochMs;
    if (gatekeeper.isPlain) this.go(call, now);
    else if (gatekeeper.isShut(breaker, now) || !gatekeeper.takeRates(now)) this.refuse(call, now);
    else if (!gatekeeper.passThrottle(now)) this.turnAway(call, "overload");
    else if (gatekeeper.takeSlot(isRetry)) this.go(call, now);
    else if (!this.waitInLine(call, isRetry)) this.turnAway(call, "overload");
  }

  /** Stands in line for a slot while the budget lasts; false if the line is full. */
  private waitInLine<T>(call: Call<T>, isRetry: boolean): boolean {
    const granted = () => {
      call.cancelWait?.();
      this.go(call, call.setting.ticker.turn.now());
    };
    const leaveLine = this.gatekeeper.lineUp({ isRetry, granted });
    if (leaveLine === undefined) return false;
    wait(call, Math.max(0, leftMs(call)), () => this.turnAway(call, "budget"));
    const { cancelWait } = call;
    call.cancelWait = () => {
      cancelWait?.();
      leaveLine();
    };
    return true;
  }

  /** The last gate is the breaker's; what passes it leaves at once. */
  private go<T>(call: Call<T>, now: number): void {
    const { breaker, drawn } = call;
    const before = breaker?.state;
    const pass = this.gatekeeper.takePass(breaker, now);
    tellBreaker(call, before);
    if (pass === 0) {
      this.gatekeeper.giveSlotBack(now, call.made > 0);
      this.refuse(call, now);
      return;
    }
    call.drawn = 0;
    if (call.made === 0) {
      this.counts.firsts++;
      this.gatekeeper.noteFirst(now);
    } else this.counts.retries++;
    // The race of the attempt before is over, and what it was asked to wait has been waited.
    call.race = undefined;
    dropIfOver(call);
    const attempt = launch(call, 0, pass, drawn);
    if (this.hedge && !attempt.settled) this.startRace(attempt, this.hedge, now);
  }

  /** A gate is shut: core says whether to wait for it. */
  private refuse<T>(call: Call<T>, now: number): void {
    // Whoever was let into a slot that was given back may have aborted this one.
    if (call.over) return;
    // Whoever comes here has paid the retry budget already, and has an attempt left, if only to renew.
    const { retryBudgetUntil: _, ...gates } = this.gatekeeper.entryGates(call.breaker, now);
    const history = { ...historyOf(call, now), attempt: 0 };
    const admission = admit(call.policy, requestOf(call), history, gates, now);
    if (admission.kind === "stop") this.turnAway(call, admission.reason);
    else wait(call, admission.kind === "hold" ? admission.until - now : 1, () => proceed(call));
  }

  holdBack<T>(call: Call<T>, decision: HoldDecision, throttled: boolean, now: number): void {
    const { ownDelayMs, until } = decision;
    putOff(call, ownDelayMs, until - now, "policy");
    wait(call, until - now, () => this.resume(call, throttled));
  }

  /** A hold is over: core says whether the retry may go now, and only then it pays. */
  private resume<T>(call: Call<T>, throttled: boolean): void {
    const now = call.setting.ticker.turn.now();
    const gates = this.gates(call, now, throttled);
    const admission = admit(call.policy, requestOf(call), historyOf(call, now), gates, now);
    if (admission.kind === "stop") this.turnAway(call, admission.reason);
    else if (admission.kind === "hold") this.holdBack(call, admission, throttled, now);
    else if (this.drawRetry(call, now, throttled)) proceed(call);
    else this.turnAway(call, "retry-budget");
  }

  private turnAway<T>(call: Call<T>, reason: StopReason): void {
    this.counts.refused++;
    giveUp(call, reason, call.story?.lastEnding ?? NO_ENDING);
  }

  /** Watches an attempt that may need a copy, where a copy could do no harm. */
  private startRace<T>(attempt: Call<T>, hedge: HedgeOptions, now: number): void {
    const { call } = attempt;
    if (call.options.once || !isRepeatable(requestOf(call))) return;
    const afterMs = hedgeAfterMs(hedge, this.gatekeeper.guards.latency, now);
    if (afterMs === undefined) return;
    const send = (copy: number) => this.sendCopy(call, copy, afterMs);
    call.race = new HedgeRace(attempt, send, hedge.max, afterMs);
  }

  /** Sends a copy of a slow attempt, if the guards let it: a hedge takes a slot and a token. */
  private sendCopy<T>(call: Call<T>, copy: number, afterMs: number): Call<T> | undefined {
    const { gatekeeper } = this;
    const now = call.setting.ticker.turn.now();
    const ticket = gatekeeper.takeTicket(now, false);
    if (ticket === 0) return undefined;
    const hasSlot = gatekeeper.takeSlot(true);
    const pass = hasSlot ? gatekeeper.takePass(call.breaker, now) : 0;
    if (pass === 0) {
      gatekeeper.giveBack(ticket);
      if (hasSlot) gatekeeper.giveSlotBack(now, true);
      return undefined;
    }
    this.counts.hedges++;
    tell(call, { type: "hedge", attempt: call.made, copy, afterMs });
    dropIfOver(call);
    return launch(call, copy, pass, ticket);
  }

  leave<T>(attempt: Call<T>, outcome: Outcome, verdict: Verdict): void {
    const { gatekeeper } = this;
    const { call } = attempt;
    const { breaker } = call;
    const moment = call.setting.ticker.turn.latest();
    if (verdict === "success" && gatekeeper.putsOff(attempt, breaker, moment)) return;
    const before = breaker?.state;
    gatekeeper.leave(attempt, breaker, moment, outcome, verdict, call.options.patience === "wait");
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
    const renewed = isRefused && !call.options.once ? this.renewFor(call) : undefined;
    if (renewed === undefined) return heeded;
    record(attempt, ending, outcome, verdict, 0, call.setting.clock.now());
    this.repeatAfter(call, renewed);
    return false;
  }

  /** New credentials, once per call; undefined where nobody can get any. */
  private renewFor<T>(call: Call<T>): Promise<void> | undefined {
    const { reauthenticate } = this.wiring;
    if (reauthenticate === undefined || call.story?.hasRenewed) return undefined;
    storyOf(call).hasRenewed = true;
    if (this.renewing !== undefined) return this.renewing;
    const renewing = Promise.resolve()
      .then(reauthenticate)
      .finally(() => {
        if (this.renewing === renewing) this.renewing = undefined;
      });
    this.renewing = renewing;
    return renewing;
  }

  /** Waits for new credentials while the budget lasts, then repeats at once. 401 is never simply retried. */
  private repeatAfter<T>(call: Call<T>, renewed: Promise<void>): void {
    wait(call, Math.max(0, leftMs(call)), () => {
      // One that takes longer than a whole call may never come back: the next call asks anew.
      if (this.renewing === renewed) this.renewing = undefined;
      this.turnAway(call, "budget");
    });
    renewed.then(
      () => {
        if (!call.over) tell(call, { type: "reauthenticate", attempt: call.made + 1 });
        if (call.over) return;
        call.cancelWait?.();
        proceed(call);
      },
      (error: unknown) => {
        if (!call.over) giveUp(call, "not-retryable", { error });
      },
    );
  }

  gates<T>(call: Call<T>, now: number, throttled: boolean): Gates {
    return this.gatekeeper.gates(call.breaker, now, throttled);
  }

  drawRetry<T>(call: Call<T>, now: number, throttled: boolean): boolean {
    call.drawn = this.gatekeeper.takeTicket(now, throttled);
    return call.drawn > 0;
  }

  finish<T>(call: Call<T>, reason?: unknown): void {
    if (call.drawn > 0) this.gatekeeper.giveBack(call.drawn);
    call.drawn = 0;
    call.race?.end(reason);
  }

  succeeded<T>(call: Call<T>, value: T): void {
    this.counts.successes++;
    // A call that succeeded has launched what it drew for, so only copies are left to end.
    if (call.race !== undefined) call.race.end();
    if (this.remembers || call.options.fallback !== undefined) this.remember(call, value);
  }

  private remember<T>(call: Call<T>, value: T): void {
    const context = this.contextOf(call);
    for (const fallback of this.fallbacksOf(call)) {
      notify((good: T) => fallback.remember?.(good, context), value);
    }
  }

  conclude<T>(call: Call<T>, reason: StopReason, ending: Ending<T>, error: unknown): boolean {
    this.counts.failures++;
    const fallbacks = this.fallbacksOf(call);
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
    firstAnswer(fallbacks, told, this.contextOf(call))
      .finally(() => signal?.removeEventListener("abort", call))
      .then(call.resolve, (thrown: unknown) => {
        if (thrown === told) conclude(call, ending, error);
        else call.reject(thrown);
      });
    return true;
  }

  /** Those to ask, in their order: a call's own stands in for its destination's. */
  private fallbacksOf<T>({ options }: Call<T>): readonly Fallback<T>[] {
    const { onExhausted, fallback } = this.wiring;
    const all = options.fallback ? [options.fallback] : [onExhausted, fallback];
    return all.filter(Boolean) as Fallback<T>[];
  }

  private contextOf<T>(call: Call<T>): FallbackContext {
    const { setting, options, made: attempts } = call;
    const { name: destination = "", clock } = setting;
    const handOver = handOverOf(call);
    return { destination, key: options.key, attempts, at: clock.now(), handOver };
  }
}

/** Who has nothing to offer throws the error again: then the next is asked, and at last it stands. */
async function firstAnswer<T>(
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

/** Who takes a call over repeats it: so may only be taken what no layer above repeats as well. */
function handOverOf<T>(call: Call<T>): HandOver | undefined {
  const { request, idempotencyKey, method } = call.options;
  if (request === undefined || call.outer?.retries) return undefined;
  const asked = { ...requestOf(call), method: method ?? request.method ?? "POST" };
  return isRepeatable(asked) ? { request, idempotencyKey } : undefined;
}

/** Tells of a breaker that has changed. */
function tellBreaker<T>(call: Call<T>, before: BreakerState | undefined): void {
  const after = call.breaker?.state;
  if (before !== after && before && after) tell(call, { type: "breaker", from: before, to: after });
}

/** Who was told that it would leave may have aborted the call: what leaves then is dropped at once. */
function dropIfOver<T>(call: Call<T>): void {
  if (!call.over) return;
  call.fn = (context) => {
    const reason: unknown = call.options.signal?.reason;
    drop(context as Call<T>, reason);
    throw reason;
  };
}
