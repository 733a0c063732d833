/**
 * Admission: the one place that queries, enters and leaves the guards of a destination. The library,
 * the service and the simulator call it, and nothing else steps a guard. So one document, one seed
 * and the same arrivals give the same attempts, holds and refusals in all three.
 *
 * Order: first everything that can refuse or hold without spending (pause, Retry-After gate,
 * breaker, rate, retry budget, concurrency), then the throttle's draw, then everything is taken
 * together. An attempt that is refused or held has spent nothing.
 */
import {
  adaptiveRateReadyAt,
  noteAnswer,
  returnAdaptiveRate,
  takeAdaptiveRate,
} from "./adaptive-rate.ts";
import {
  type Breaker,
  breakerReadyAt,
  countSuccesses,
  enterBreaker,
  leaveBreaker,
} from "./breaker.ts";
import { enterConcurrency, hasSlot, leaveConcurrency, restartRamp } from "./concurrency.ts";
import type { HoldReason } from "./decision.ts";
import type { Guards } from "./guards.ts";
import { healthOf, isAccepted, loadOf } from "./health.ts";
import { recordLatency } from "./latency.ts";
import type { Outcome, Verdict } from "./outcome.ts";
import {
  type Applicant,
  type AttemptKind,
  mayTryOut,
  type Permit,
  type Refusal,
} from "./permit.ts";
import type { Policy } from "./policy.ts";
import type { Random } from "./random.ts";
import { rateReadyAt, returnRate, takeRate } from "./rate.ts";
import { type GateOptions, gateUntil } from "./retry-after-gate.ts";
import type { RetryBudget } from "./retry-budget.ts";
import { RetryTokens } from "./retry-tokens.ts";
import { steadyAt } from "./steady.ts";
import { enterThrottle, recordAnswer } from "./throttle.ts";

export type { Applicant, AttemptKind, Permit, Refusal } from "./permit.ts";

/** A throttle that has refused a patient call is asked again after this. */
export const THROTTLE_REST_MS = 1000;

const NO_DRAW = -1;

export class Admission {
  /** Why the latest `enter` or `check` gave nothing; undefined if it gave a permit. */
  refusal: Refusal | undefined = undefined;
  /** For a hold: which guard, and until when. Infinity: until something changes. */
  heldBy: HoldReason = "rate";
  heldUntil = 0;
  /** Until then it is held whatever happens. An empty budget or a probe may change earlier. */
  heldAtLeastUntil = 0;
  /** Infinity while a person has paused the destination. */
  pausedUntil = 0;
  /** A Retry-After holds every call until then. */
  gateUntil = 0;
  /** The throttle has refused a patient call and is asked again then. */
  throttleUntil = 0;
  /** True if the breaker is the only guard. */
  isBare: boolean;
  readonly tokens: RetryTokens;
  /** The gate whose end was followed by a ramp. */
  rampedGate = 0;
  /** Attempts under way. Counted also without a limit: a later document may have one. */
  inFlight = 0;
  retriesInFlight = 0;
  private own: Guards;
  private gate: GateOptions | undefined;
  private readonly draw: () => number;
  /** Draws of permits that were handed back unused. They are used again, so that one seed gives one history. */
  private readonly unused: number[] = [];
  /** The latest instant seen. */
  private at = 0;
  /** One permit that stays alive: V8 drops compiled code with the last instance of a shape. */
  private kept: Permit | undefined = undefined;
  /** Successes of one instant that the breaker and the latency have not been told of. */
  private untold = 0;
  private steadyAt = -1;
  private steady: Breaker | undefined = undefined;

  /** `random` is the destination's own stream. `whole`: the retry budget of the whole service. */
  constructor(guards: Guards, gate: GateOptions | undefined, random: Random, whole?: RetryBudget) {
    this.own = guards;
    this.gate = gate;
    this.draw = () => random.next();
    this.tokens = new RetryTokens(guards.retryBudget, whole);
    this.isBare = false;
    this.setGuards(guards, gate);
  }

  get guards(): Guards {
    if (this.untold > 0) this.tellUntold();
    return this.own;
  }

  /** Goes on with these guards: at first, and after the document has changed. */
  setGuards(guards: Guards, gate: GateOptions | undefined): void {
    this.tellUntold();
    const { rate, adaptiveRate, throttle, concurrency, retryBudget } = guards;
    this.own = guards;
    this.gate = gate;
    this.tokens.own = retryBudget;
    this.isBare = !(rate || adaptiveRate || throttle || concurrency || retryBudget || gate);
    if (this.tokens.whole !== undefined) this.isBare = false;
    this.steadyAt = -1;
  }

  /** A permit, or undefined with `refusal` set. */
  enter(applicant: Applicant, breaker: Breaker | undefined, now: number): Permit | undefined {
    if (this.check(applicant, breaker, now) !== undefined) return undefined;
    const { throttle } = this.guards;
    const draw = throttle === undefined ? NO_DRAW : (this.unused.pop() ?? this.draw());
    if (throttle !== undefined && !enterThrottle(throttle, now, draw)) {
      if (applicant.patient) {
        this.throttleUntil = now + THROTTLE_REST_MS;
        this.holdFirmly("throttle", this.throttleUntil);
      } else this.refusal = "overload";
      return undefined;
    }
    return this.take(applicant, breaker, now, draw);
  }

  /** What `enter` would be refused for, as far as that is known without the throttle's draw. */
  check(applicant: Applicant, breaker: Breaker | undefined, now: number): Refusal | undefined {
    this.follow(now);
    this.heldUntil = now;
    this.heldAtLeastUntil = now;
    const isRetry = applicant.kind !== "first";
    // A retry that can never have a slot.
    const isHopeless = isRetry && this.own.concurrency?.options.maxRetries === 0;
    this.refusal = isHopeless ? "overload" : undefined;
    if (isHopeless) return this.refusal;
    this.holdUntil("pause", this.pausedUntil);
    this.holdFirmly("retry-after", this.gateUntil);
    if (breaker !== undefined) this.checkBreaker(breaker, applicant, now);
    this.checkRates(now);
    if (isRetry) this.checkTokens(applicant, now);
    if (applicant.patient) this.holdFirmly("throttle", this.throttleUntil);
    if (this.refusal === undefined) this.checkSlot(isRetry);
    return this.refusal;
  }

  private holdUntil(by: HoldReason, until: number): void {
    if (until <= this.heldUntil) return;
    this.refusal ??= "hold";
    this.heldBy = by;
    this.heldUntil = until;
  }

  private holdFirmly(by: HoldReason, until: number): void {
    this.holdUntil(by, until);
    if (until > this.heldAtLeastUntil) this.heldAtLeastUntil = until;
  }

  private checkBreaker(breaker: Breaker, { patient }: Applicant, now: number): void {
    const readyAt = breakerReadyAt(breaker, now);
    if (readyAt <= now) return;
    if (!patient) this.refusal = "circuit-open";
    else if (breaker.state === "OPEN") this.holdFirmly("circuit-open", readyAt);
    else this.holdUntil("circuit-open", readyAt);
  }

  private checkRates(now: number): void {
    const { rate, adaptiveRate } = this.own;
    if (rate !== undefined) this.holdFirmly("rate", rateReadyAt(rate, now));
    if (adaptiveRate !== undefined) this.holdUntil("rate", adaptiveRateReadyAt(adaptiveRate, now));
  }

  private checkTokens(applicant: Applicant, now: number): void {
    const readyAt = this.tokens.readyAt(now, applicant.throttled, mayTryOut(applicant));
    if (readyAt <= now) return;
    if (applicant.patient) this.holdUntil("retry-budget", readyAt);
    else if (this.refusal !== "circuit-open") this.refusal = "retry-budget";
  }

  private checkSlot(isRetry: boolean): void {
    const { concurrency } = this.own;
    if (concurrency === undefined || hasSlot(concurrency, isRetry)) return;
    this.holdUntil("concurrency", Number.POSITIVE_INFINITY);
  }

  private take(
    applicant: Applicant,
    breaker: Breaker | undefined,
    now: number,
    draw: number,
  ): Permit {
    const { kind, throttled, patient } = applicant;
    const { rate, adaptiveRate, concurrency } = this.own;
    const isRetry = kind !== "first";
    if (concurrency !== undefined) enterConcurrency(concurrency, isRetry);
    if (rate !== undefined) takeRate(rate, now);
    if (adaptiveRate !== undefined) takeAdaptiveRate(adaptiveRate, now);
    this.count(kind, 1);
    const pass = breaker === undefined ? 0 : enterBreaker(breaker, now);
    const permit: Permit = {
      kind,
      patient,
      pass,
      at: now,
      takenAt: now,
      guards: this.own,
      draw,
      ticket: 0,
      wholeTicket: 0,
      budget: undefined,
    };
    this.tokens.take(permit, isRetry, now, throttled, mayTryOut(applicant));
    this.kept ??= permit;
    return permit;
  }

  private count(kind: AttemptKind, step: 1 | -1): void {
    this.inFlight += step;
    if (kind !== "first") this.retriesInFlight += step;
  }

  /** Nothing was sent: everything that was taken is returned. */
  giveBack(permit: Permit, breaker: Breaker | undefined, now: number): void {
    const { kind, pass, takenAt, draw, guards } = permit;
    const { rate, adaptiveRate, concurrency } = this.guards;
    const isRetry = kind !== "first";
    this.count(kind, -1);
    if (concurrency !== undefined) leaveConcurrency(concurrency, now, isRetry, "ignored", 0);
    if (rate !== undefined && rate === guards.rate) returnRate(rate, takenAt, now);
    if (adaptiveRate !== undefined && adaptiveRate === guards.adaptiveRate) {
      returnAdaptiveRate(adaptiveRate, takenAt, now);
    }
    if (breaker !== undefined) leaveBreaker(breaker, now, pass, "ignored", 0, this.draw);
    if (draw !== NO_DRAW) this.unused.push(draw);
    this.tokens.giveBack(permit, isRetry);
  }

  /** An attempt ended: every guard learns how. */
  leave(
    permit: Permit,
    breaker: Breaker | undefined,
    policy: Policy,
    outcome: Outcome,
    verdict: Verdict,
    durationMs: number,
    now: number,
  ): void {
    const { concurrency, latency, adaptiveRate, throttle } = this.guards;
    const { kind, pass } = permit;
    this.count(kind, -1);
    if (concurrency !== undefined) {
      const load = loadOf(outcome, verdict);
      leaveConcurrency(concurrency, now, kind !== "first", load, durationMs);
    }
    if (breaker !== undefined) this.leaveBreaker(breaker, pass, outcome, verdict, durationMs, now);
    // An attempt that was cut off has no response: it says nothing about the other side.
    if (verdict === "aborted") return;
    if (verdict === "success") recordLatency(latency, now, durationMs);
    if (adaptiveRate !== undefined) noteAnswer(adaptiveRate, now, verdict === "throttled");
    if (throttle !== undefined) recordAnswer(throttle, now, isAccepted(outcome, verdict));
    // A hedge that wins keeps its token: otherwise a bucket for two would pay for any number.
    if (verdict === "success") this.tokens.succeed(permit, kind === "retry", permit.patient);
    else if (verdict !== "terminal") this.tokens.fail();
    // A hint on a response that is not retried is ignored.
    if (this.gate === undefined || verdict === "terminal") return;
    this.follow(now);
    this.gateUntil = Math.max(this.gateUntil, gateUntil(this.gate, policy, outcome, now));
  }

  private leaveBreaker(
    breaker: Breaker,
    pass: number,
    outcome: Outcome,
    verdict: Verdict,
    durationMs: number,
    now: number,
  ): void {
    const { concurrency, breaker: own } = this.own;
    const before = breaker.state;
    const health = healthOf(outcome, verdict);
    const isSteady = leaveBreaker(breaker, now, pass, health, durationMs, this.draw);
    this.steadyAt = isSteady && this.isBare ? now : -1;
    this.steady = breaker;
    const closed = before !== "CLOSED" && breaker.state === "CLOSED";
    // One shard that has recovered is no reason to admit calls to the others one by one.
    if (closed && breaker === own && concurrency !== undefined) restartRamp(concurrency);
  }

  /**
   * A first attempt that has only a closed breaker to pass needs no permit: its pass, or 0 if it
   * must `enter`. It leaves by `leaveBare`.
   */
  enterBare(breaker: Breaker | undefined): number {
    if (!this.isBare || this.pausedUntil > 0 || this.gateUntil > 0) return 0;
    return breaker?.state === "CLOSED" ? breaker.generation : 0;
  }

  /** A success that took no time, at an instant at which the breaker was steady, is told later. */
  leaveBare(
    pass: number,
    breaker: Breaker,
    outcome: Outcome,
    verdict: Verdict,
    durationMs: number,
    now: number,
  ): void {
    const isSteady = this.steadyAt === now && this.steady === breaker && durationMs === 0;
    if (isSteady && verdict === "success" && breaker.generation === pass) {
      this.untold++;
      return;
    }
    this.tellUntold();
    this.leaveBreaker(breaker, pass, outcome, verdict, durationMs, now);
    if (verdict === "success") recordLatency(this.own.latency, now, durationMs);
  }

  private tellUntold(): void {
    const steady = this.steady;
    const untold = this.untold;
    this.untold = 0;
    if (untold === 0 || steady === undefined) return;
    countSuccesses(steady, untold);
    recordLatency(this.own.latency, this.steadyAt, 0, untold);
  }

  private shiftBack(ms: number): void {
    this.gateUntil = Math.max(0, this.gateUntil - ms);
    this.rampedGate = Math.max(0, this.rampedGate - ms);
    this.throttleUntil = Math.max(0, this.throttleUntil - ms);
  }

  /**
   * Follows the clock; one that was set back takes the gate and the throttle's rest along. After a
   * gate lifts, one call goes first and the others follow one by one.
   */
  private follow(now: number): void {
    const at = steadyAt(this.at, now);
    if (at < this.at) this.shiftBack(this.at - at);
    this.at = at;
    if (this.gateUntil <= this.rampedGate || this.gateUntil > now) return;
    this.rampedGate = this.gateUntil;
    if (this.own.concurrency !== undefined) restartRamp(this.own.concurrency);
  }
}
