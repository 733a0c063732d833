/**
 * Guarded call: a call to a destination. Before each attempt it passes the destination's guards, in
 * the documented order (rate, breaker, concurrency); after each it tells them how it went. Slow
 * attempts may be hedged, and a call that is given up may fall back.
 */
import {
  admit,
  type Breaker,
  type BreakerState,
  type CallRequest,
  type Decision,
  type Gates,
  type HoldDecision,
  isRepeatable,
  type Outcome,
  openUntil,
  type StopReason,
  type Verdict,
} from "@redrive/core";
import type { Attempt } from "./attempt.ts";
import { Call } from "./call.ts";
import type { CallEvent } from "./events.ts";
import type { Waiter } from "./gatekeeper.ts";
import type { HedgeRace } from "./hedge-race.ts";
import type { Host } from "./host.ts";
import { ABORTED, NO_ENDING } from "./judgement.ts";
import type { Attempted, Ending, RunOptions } from "./options.ts";
import type { Setting } from "./setting.ts";

/** Ends at which a substitute serves better than an error; the others are the caller's mistakes. */
const FALLBACK_REASONS: readonly StopReason[] = [
  "attempts",
  "budget",
  "retry-budget",
  "circuit-open",
  "overload",
  "retry-after",
];

/** What follows new credentials. */
const AT_ONCE: Decision = { kind: "retry", delayMs: 0, ownDelayMs: 0, source: "policy" };

export class GuardedCall<T> extends Call<T> implements Waiter {
  declare readonly options: RunOptions<T>;
  readonly host: Host;
  private readonly breaker: Breaker | undefined;
  /** Drawn for the next attempt, not yet under way. */
  private ticket = 0;
  private pass = 0;
  private isInLine = false;
  private hasReauthenticated = false;
  private race: HedgeRace<T> | undefined = undefined;

  constructor(
    host: Host,
    setting: Setting,
    fn: Attempted<T>,
    options: RunOptions<T>,
    resolve: (value: T) => void,
    reject: (reason: unknown) => void,
  ) {
    super(setting, fn, options, resolve, reject);
    this.host = host;
    const { key } = options;
    const { gatekeeper } = host;
    this.breaker =
      key === undefined
        ? gatekeeper.guards.breaker
        : gatekeeper.breakerOf(key, setting.ticker.turn.now());
  }

  get isRetry(): boolean {
    return this.made > 0;
  }

  override endpointOf(copy: number): string | undefined {
    const endpoints = this.host.hedge?.endpoints ?? [];
    return copy === 0 ? undefined : endpoints[(copy - 1) % endpoints.length];
  }

  protected override proceed(): void {
    const now = this.setting.ticker.turn.now();
    if (this.host.gatekeeper.isPlain) this.enter(now);
    else this.passGuards(now);
  }

  private passGuards(now: number): void {
    const { gatekeeper } = this.host;
    const isShut = this.breaker !== undefined && openUntil(this.breaker, now) !== undefined;
    if (isShut || !gatekeeper.takeRates(now)) this.refuse(now);
    else if (!gatekeeper.passThrottle(now)) this.turnAway("overload");
    else if (gatekeeper.takeSlot(this.isRetry)) this.enter(now);
    else if (gatekeeper.lineUp(this)) this.waitInLine(now);
    else this.turnAway("overload");
  }

  private waitInLine(now: number): void {
    this.isInLine = true;
    this.wait(Math.max(0, this.deadlineAt - now), () => this.turnAway("budget"));
  }

  /** A slot came free while the call stood in line. */
  granted(): void {
    this.isInLine = false;
    this.stopWaiting();
    this.enter(this.setting.ticker.turn.now());
  }

  private enter(now: number): void {
    const { gatekeeper } = this.host;
    const before = this.breaker?.state;
    this.pass = gatekeeper.takePass(this.breaker, now);
    if (this.pass === 0) {
      gatekeeper.giveSlotBack(now, this.isRetry);
      this.refuse(now);
      return;
    }
    this.tellBreaker(before);
    if (this.made === 0) gatekeeper.noteFirst(now);
    const attempt = this.launch(0);
    if (this.host.hedge !== undefined && !attempt.settled) {
      this.race = this.host.startRace(this, attempt);
    }
  }

  /** A gate is shut: core says whether to wait for it. */
  private refuse(now: number): void {
    // Whoever comes here has paid the retry budget already.
    const { retryBudgetUntil: _, ...gates } = this.host.gatekeeper.entryGates(this.breaker, now);
    const admission = admit(this.policy, this.request(), this.history(now), gates, now);
    if (admission.kind === "stop") this.turnAway(admission.reason);
    else this.wait(admission.kind === "hold" ? admission.until - now : 1, () => this.proceed());
  }

  protected override holdBack(decision: HoldDecision, throttled: boolean, now: number): void {
    const { ownDelayMs, until } = decision;
    this.putOff(ownDelayMs, until - now, "policy");
    this.wait(until - now, () => this.resume(throttled));
  }

  /** A hold is over: core says whether the retry may go now, and only then it pays. */
  private resume(throttled: boolean): void {
    const { policy, setting } = this;
    const now = setting.ticker.turn.now();
    const gates = this.gates(now, throttled);
    const admission = admit(policy, this.request(), this.history(now), gates, now);
    if (admission.kind === "stop") this.turnAway(admission.reason);
    else if (admission.kind === "hold") this.holdBack(admission, throttled, now);
    else if (this.drawRetry(now, throttled)) this.proceed();
    else this.turnAway("retry-budget");
  }

  private turnAway(reason: StopReason): void {
    this.host.counts.refused++;
    this.giveUp(reason, this.lastEnding ?? NO_ENDING);
  }

  protected override began(attempt: Attempt<T>): void {
    attempt.pass = this.pass;
    attempt.ticket = this.ticket;
    this.ticket = 0;
    if (attempt.copy > 0) return;
    if (this.made > 1) this.host.counts.retries++;
    else this.host.counts.firsts++;
  }

  /** Sends a copy of a slow attempt, if the guards let it: a hedge takes a slot and a token. */
  sendCopy(copy: number, afterMs: number): Attempt<T> | undefined {
    const { gatekeeper } = this.host;
    const now = this.setting.ticker.turn.now();
    const ticket = gatekeeper.takeTicket(now, false);
    if (ticket === 0) return undefined;
    const hasSlot = gatekeeper.takeSlot(true);
    const pass = hasSlot ? gatekeeper.takePass(this.breaker, now) : 0;
    if (pass === 0) {
      gatekeeper.giveBack(ticket);
      if (hasSlot) gatekeeper.giveSlotBack(now, true);
      return undefined;
    }
    this.ticket = ticket;
    this.pass = pass;
    this.host.counts.hedges++;
    if (this.listens()) this.tell({ type: "hedge", attempt: this.made, copy, afterMs });
    return this.launch(copy);
  }

  protected override settle(attempt: Attempt<T>, outcome: Outcome, verdict: Verdict): void {
    super.settle(attempt, outcome, verdict);
    const { turn } = this.setting.ticker;
    const before = this.breaker?.state;
    const { gatekeeper } = this.host;
    const patient = this.options.patience === "wait";
    if (verdict === "success" && gatekeeper.isBare) {
      gatekeeper.leaveWell(attempt, this.breaker, turn);
    } else gatekeeper.leave(attempt, this.breaker, turn, outcome, verdict, patient);
    this.tellBreaker(before);
  }

  private tellBreaker(before: BreakerState | undefined): void {
    const after = this.breaker?.state;
    if (before === undefined || after === undefined || before === after) return;
    if (this.listens()) this.tell({ type: "breaker", from: before, to: after });
  }

  protected override ended(
    attempt: Attempt<T>,
    ending: Ending<T>,
    outcome: Outcome,
    verdict: Verdict,
  ): void {
    if (this.race?.isOn()) return;
    this.race?.stop();
    const isRefused = outcome.kind === "status" && outcome.status === 401;
    const renewed = isRefused ? this.reauthenticate() : undefined;
    if (renewed === undefined) {
      super.ended(attempt, ending, outcome, verdict);
      return;
    }
    this.lastEnding = ending;
    this.record(attempt, ending, outcome, verdict, AT_ONCE, this.setting.clock.now());
    this.repeatAfter(renewed);
  }

  /** Once per call, and not where there is nothing to send again. 401 is never simply retried. */
  private reauthenticate(): Promise<void> | undefined {
    if (this.hasReauthenticated || this.options.once) return undefined;
    this.hasReauthenticated = true;
    return this.host.reauthenticate();
  }

  /** Waits for new credentials while the budget lasts, then repeats at once. */
  private repeatAfter(renewed: Promise<void>): void {
    this.wait(Math.max(0, this.leftMs()), () => this.turnAway("budget"));
    renewed.then(
      () => {
        if (this.over) return;
        this.stopWaiting();
        if (this.listens()) this.tell({ type: "reauthenticate", attempt: this.made + 1 });
        this.proceed();
      },
      (error: unknown) => {
        if (!this.over) this.giveUp("not-retryable", { error });
      },
    );
  }

  protected override gates(now: number, throttled: boolean): Gates {
    return this.host.gatekeeper.gates(this.breaker, now, throttled);
  }

  protected override drawRetry(now: number, throttled: boolean): boolean {
    this.ticket = this.host.gatekeeper.takeTicket(now, throttled);
    return this.ticket > 0;
  }

  protected override request(): CallRequest {
    const request = super.request();
    const { idempotent } = this.host;
    return idempotent === undefined ? request : { idempotent, ...request };
  }

  protected override finish(): void {
    super.finish();
    const { gatekeeper } = this.host;
    if (this.isInLine) gatekeeper.leaveLine(this);
    if (this.ticket > 0) gatekeeper.giveBack(this.ticket);
    this.ticket = 0;
    this.race?.end();
  }

  protected override succeeded(value: T): void {
    this.host.counts.successes++;
    if (this.host.remembers || this.options.fallback) this.host.remember(this, value);
  }

  protected override conclude(reason: StopReason, ending: Ending<T>, error: unknown): void {
    this.host.counts.failures++;
    const isCovered = FALLBACK_REASONS.includes(reason) && this.host.hasFallback(this);
    if (isCovered) this.fallBack(reason, ending, error);
    else super.conclude(reason, ending, error);
  }

  private fallBack(reason: StopReason, ending: Ending<T>, error: unknown): void {
    if (this.listens()) this.tell({ type: "fallback", reason });
    const told = error ?? this.errorFor(reason, ending);
    this.host.fallBack(this, told).then(this.resolve, (thrown: unknown) => {
      // A fallback that has nothing to offer throws the error again: then the ending stands.
      if (thrown === told) super.conclude(reason, ending, error);
      else this.reject(thrown);
    });
  }

  protected override cutOff(reason: unknown): void {
    super.cutOff(reason);
    this.race?.end(reason);
  }

  /** A copy that lost: it says nothing about the destination. */
  drop(attempt: Attempt<T>, reason: unknown): void {
    attempt.abort(reason);
    this.settle(attempt, ABORTED, "aborted");
  }

  get attemptsMade(): number {
    return this.made;
  }

  get isOver(): boolean {
    return this.over;
  }

  /** Whether a copy could do no harm. */
  get mayHedge(): boolean {
    return !this.options.once && isRepeatable(this.request());
  }

  protected override listens(): boolean {
    return super.listens() || this.host.hasListeners();
  }

  protected override eventOf(event: object): CallEvent {
    const { key } = this.options;
    return super.eventOf(key === undefined ? event : { key, ...event });
  }

  protected override publish(event: CallEvent): void {
    super.publish(event);
    this.host.emit(event);
  }
}
