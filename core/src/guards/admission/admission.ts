/**
 * Admission: checks and enters the guards of a destination before an attempt, and leaves them when
 * the attempt ends. The library, the service and the simulator call it, and no other code changes a
 * guard. So the same document, seed and arrivals give the same attempts, holds and refusals in all
 * three.
 *
 * Order: first everything that can refuse or hold without spending (pause, Retry-After gate,
 * breaker, rate, retry budget, concurrency), then the throttle's draw, then everything is taken
 * together. An attempt that is refused or held has spent nothing.
 */

import type { HoldReason } from "../../decide/decision.ts";
import type { Outcome, Verdict } from "../../decide/outcome.ts";
import type { Policy } from "../../policy/policy.ts";
import type { Random } from "../../time/random.ts";
import { steadyAt } from "../../time/steady-time.ts";
import {
  adaptiveRateReadyAt,
  recordAdaptiveRateResponse,
  returnAdaptiveRate,
  takeAdaptiveRate,
} from "../adaptive-rate.ts";
import {
  type Breaker,
  breakerReadyAt,
  countSuccesses,
  enterBreaker,
  leaveBreaker,
} from "../breaker.ts";
import { enterConcurrency, hasSlot, leaveConcurrency, restartRamp } from "../concurrency.ts";
import { breakerOutcomeOf, concurrencyOutcomeOf, isAccepted } from "../guard-outcomes.ts";
import type { Guards } from "../guards.ts";
import { recordLatency } from "../latency.ts";
import { rateReadyAt, returnRate, takeRate } from "../rate.ts";
import { type GateOptions, gateUntil } from "../retry-after-gate.ts";
import type { BudgetShare } from "../shared-budget.ts";
import { enterThrottle, recordThrottleResponse } from "../throttle.ts";
import {
  type AdmissionRequest,
  type AttemptKind,
  maySendTrial,
  type Permit,
  type Refusal,
} from "./permit.ts";
import { RetryTokens } from "./retry-tokens.ts";

export type { AdmissionRequest, AttemptKind, Permit, Refusal } from "./permit.ts";

/** After the throttle has refused a patient call, it decides again after this time. */
export const THROTTLE_RECHECK_MS = 1000;

const NO_DRAW = -1;

export class Admission {
  /** Why the latest `enter` or `check` gave no permit; undefined if it gave one. */
  refusal: Refusal | undefined = undefined;
  /** For a hold: which guard, and until when. Infinity: until something changes. */
  heldBy: HoldReason = "rate";
  heldUntil = 0;
  /** It is held at least until then. An empty budget or a probe may end the hold at any later time. */
  heldAtLeastUntil = 0;
  /** Infinity while a person has paused the destination. */
  pausedUntil = 0;
  /** A Retry-After holds every call until then. */
  gateUntil = 0;
  /** The throttle has refused a patient call and decides again then. */
  throttleUntil = 0;
  /** True if the breaker is the only guard. */
  hasOnlyBreaker: boolean;
  readonly tokens: RetryTokens;
  /** The gate whose end was already followed by a ramp. */
  rampedGate = 0;
  /** Attempts in flight. Also counted without a limit, because a later document may have one. */
  inFlight = 0;
  retriesInFlight = 0;
  private currentGuards: Guards;
  private gate: GateOptions | undefined;
  protected readonly draw: () => number;
  /** Draws of permits that were handed back unused. They are used again, so a seed gives one result. */
  private readonly unusedDraws: number[] = [];
  /** The latest instant seen. */
  private lastSeenAt = 0;
  /** One permit that stays alive: V8 discards compiled code with the last instance of a hidden class. */
  private retainedPermit: Permit | undefined = undefined;
  /** Successes of one instant that the breaker and the latency do not know yet. */
  private pendingSuccesses = 0;
  private steadyAt = -1;
  private steadyBreaker: Breaker | undefined = undefined;

  /**
   * `random` is the destination's own stream. `serviceBudget` is the tenant's share of the retry budget
   * of the whole service.
   */
  constructor(
    guards: Guards,
    gate: GateOptions | undefined,
    random: Random,
    serviceBudget?: BudgetShare,
  ) {
    this.currentGuards = guards;
    this.gate = gate;
    this.draw = () => random.next();
    this.tokens = new RetryTokens(guards.retryBudget, serviceBudget);
    this.hasOnlyBreaker = false;
    this.setGuards(guards, gate);
  }

  get guards(): Guards {
    if (this.pendingSuccesses > 0) this.flushPendingSuccesses();
    return this.currentGuards;
  }

  /** Uses these guards: at first, and after the document has changed. */
  setGuards(guards: Guards, gate: GateOptions | undefined): void {
    this.flushPendingSuccesses();
    const { rate, adaptiveRate, throttle, concurrency, retryBudget } = guards;
    this.currentGuards = guards;
    this.gate = gate;
    this.tokens.budget = retryBudget;
    this.hasOnlyBreaker = !(rate || adaptiveRate || throttle || concurrency || retryBudget || gate);
    if (this.tokens.serviceBudget !== undefined) this.hasOnlyBreaker = false;
    this.steadyAt = -1;
  }

  /** Returns a permit, or undefined with `refusal` set. */
  enter(request: AdmissionRequest, breaker: Breaker | undefined, now: number): Permit | undefined {
    if (this.check(request, breaker, now) !== undefined) return undefined;
    const { throttle } = this.guards;
    const draw = throttle === undefined ? NO_DRAW : (this.unusedDraws.pop() ?? this.draw());
    if (throttle !== undefined && !enterThrottle(throttle, now, draw)) {
      if (request.patient) {
        this.throttleUntil = now + THROTTLE_RECHECK_MS;
        this.holdFirmly("throttle", this.throttleUntil);
      } else this.refusal = "overload";
      return undefined;
    }
    return this.take(request, breaker, now, draw);
  }

  /** The refusal that `enter` would give, as far as it is known without the throttle's draw. */
  check(request: AdmissionRequest, breaker: Breaker | undefined, now: number): Refusal | undefined {
    this.followClock(now);
    this.heldUntil = now;
    this.heldAtLeastUntil = now;
    const isRetry = request.kind !== "first";
    // This retry can never get a slot.
    const isHopeless = isRetry && this.currentGuards.concurrency?.options.maxRetries === 0;
    this.refusal = isHopeless ? "overload" : undefined;
    if (isHopeless) return this.refusal;
    this.holdUntil("pause", this.pausedUntil);
    this.holdFirmly("retry-after", this.gateUntil);
    if (breaker !== undefined) this.checkBreaker(breaker, request, now);
    this.checkRates(now);
    if (isRetry) this.checkTokens(request, now);
    if (request.patient) this.holdFirmly("throttle", this.throttleUntil);
    if (this.refusal === undefined) this.checkSlot(isRetry);
    return this.refusal;
  }

  protected holdUntil(by: HoldReason, until: number): void {
    if (until <= this.heldUntil) return;
    this.refusal ??= "hold";
    this.heldBy = by;
    this.heldUntil = until;
  }

  private holdFirmly(by: HoldReason, until: number): void {
    this.holdUntil(by, until);
    if (until > this.heldAtLeastUntil) this.heldAtLeastUntil = until;
  }

  private checkBreaker(breaker: Breaker, { patient }: AdmissionRequest, now: number): void {
    const readyAt = breakerReadyAt(breaker, now);
    if (readyAt <= now) return;
    if (!patient) this.refusal = "circuit-open";
    else if (breaker.state === "OPEN") this.holdFirmly("circuit-open", readyAt);
    else this.holdUntil("circuit-open", readyAt);
  }

  protected checkRates(now: number): void {
    const { rate, adaptiveRate } = this.currentGuards;
    if (rate !== undefined) this.holdFirmly("rate", rateReadyAt(rate, now));
    if (adaptiveRate !== undefined) this.holdUntil("rate", adaptiveRateReadyAt(adaptiveRate, now));
  }

  private checkTokens(request: AdmissionRequest, now: number): void {
    const readyAt = this.tokens.readyAt(now, request.throttled, maySendTrial(request));
    if (readyAt <= now) return;
    if (request.patient) this.holdUntil("retry-budget", readyAt);
    else if (this.refusal !== "circuit-open") this.refusal = "retry-budget";
  }

  protected checkSlot(isRetry: boolean): void {
    const { concurrency } = this.currentGuards;
    if (concurrency === undefined || hasSlot(concurrency, isRetry)) return;
    this.holdUntil("concurrency", Number.POSITIVE_INFINITY);
  }

  protected take(
    request: AdmissionRequest,
    breaker: Breaker | undefined,
    now: number,
    draw: number,
  ): Permit {
    const { kind, throttled, patient } = request;
    const { rate, adaptiveRate, concurrency } = this.currentGuards;
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
      guards: this.currentGuards,
      draw,
      ticket: 0,
      serviceTicket: 0,
      budget: undefined,
    };
    this.tokens.take(permit, isRetry, now, throttled, maySendTrial(request));
    this.retainedPermit ??= permit;
    return permit;
  }

  private count(kind: AttemptKind, step: 1 | -1): void {
    this.inFlight += step;
    if (kind !== "first") this.retriesInFlight += step;
  }

  /** Nothing was sent: returns everything that was taken. */
  handBack(permit: Permit, breaker: Breaker | undefined, now: number): void {
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
    if (draw !== NO_DRAW) this.unusedDraws.push(draw);
    this.tokens.handBack(permit, isRetry);
  }

  /** An attempt ended: reports the result to every guard. */
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
      const load = concurrencyOutcomeOf(outcome, verdict);
      leaveConcurrency(concurrency, now, kind !== "first", load, durationMs);
    }
    if (breaker !== undefined) this.leaveBreaker(breaker, pass, outcome, verdict, durationMs, now);
    // An aborted attempt has no response, so it says nothing about the server.
    if (verdict === "aborted") return;
    if (verdict === "success") recordLatency(latency, now, durationMs);
    if (adaptiveRate !== undefined)
      recordAdaptiveRateResponse(adaptiveRate, now, verdict === "throttled");
    if (throttle !== undefined) recordThrottleResponse(throttle, now, isAccepted(outcome, verdict));
    // The token of a hedge that wins is not returned: else a bucket for two would pay for any number.
    if (verdict === "success") this.tokens.succeed(permit, kind === "retry", permit.patient);
    else if (verdict !== "terminal") this.tokens.fail(now);
    // A hint on a response that is not retried is ignored.
    if (this.gate === undefined || verdict === "terminal") return;
    this.followClock(now);
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
    const { concurrency, breaker: own } = this.currentGuards;
    const before = breaker.state;
    const health = breakerOutcomeOf(outcome, verdict);
    const isSteady = leaveBreaker(breaker, now, pass, health, durationMs, this.draw);
    this.steadyAt = isSteady && this.hasOnlyBreaker ? now : -1;
    this.steadyBreaker = breaker;
    const closed = before !== "CLOSED" && breaker.state === "CLOSED";
    // If one shard has recovered, the calls to the others need no ramp.
    if (closed && breaker === own && concurrency !== undefined) restartRamp(concurrency);
  }

  /**
   * A first attempt needs no permit if a closed breaker is the only guard. Returns its pass, or 0 if
   * the call must `enter`. It leaves by `leaveOnlyBreaker`.
   */
  enterOnlyBreaker(breaker: Breaker | undefined): number {
    if (!this.hasOnlyBreaker || this.pausedUntil > 0 || this.gateUntil > 0) return 0;
    return breaker?.state === "CLOSED" ? breaker.generation : 0;
  }

  /** A success that took no time, while the breaker was steady, is reported later. */
  leaveOnlyBreaker(
    pass: number,
    breaker: Breaker,
    outcome: Outcome,
    verdict: Verdict,
    durationMs: number,
    now: number,
  ): void {
    const isSteady = this.steadyAt === now && this.steadyBreaker === breaker && durationMs === 0;
    if (isSteady && verdict === "success" && breaker.generation === pass) {
      this.pendingSuccesses++;
      return;
    }
    this.flushPendingSuccesses();
    this.leaveBreaker(breaker, pass, outcome, verdict, durationMs, now);
    if (verdict === "success") recordLatency(this.currentGuards.latency, now, durationMs);
  }

  private flushPendingSuccesses(): void {
    const steady = this.steadyBreaker;
    const pending = this.pendingSuccesses;
    this.pendingSuccesses = 0;
    if (pending === 0 || steady === undefined) return;
    countSuccesses(steady, pending);
    recordLatency(this.currentGuards.latency, this.steadyAt, 0, pending);
  }

  private shiftBack(ms: number): void {
    this.gateUntil = Math.max(0, this.gateUntil - ms);
    this.rampedGate = Math.max(0, this.rampedGate - ms);
    this.throttleUntil = Math.max(0, this.throttleUntil - ms);
  }

  /**
   * Follows the clock. If the clock was set back, the gate and the throttle's recheck move with it.
   * After a gate ends, one call starts first and the others follow one by one.
   */
  private followClock(now: number): void {
    const at = steadyAt(this.lastSeenAt, now);
    if (at < this.lastSeenAt) this.shiftBack(this.lastSeenAt - at);
    this.lastSeenAt = at;
    if (this.gateUntil <= this.rampedGate || this.gateUntil > now) return;
    this.rampedGate = this.gateUntil;
    if (this.currentGuards.concurrency !== undefined) restartRamp(this.currentGuards.concurrency);
  }
}
