/**
 * Admission: checks and enters the guards of a destination before an attempt, and leaves them when
 * the attempt ends. The library, the service and the simulator call it, and no other code changes a
 * guard. So the same document, seed and arrivals give the same attempts, holds and refusals in all
 * three.
 */
import type { Gates, HoldReason } from "../decide/decide.ts";
import type { Outcome, Verdict } from "../decide/outcome.ts";
import type { Policy } from "../decide/policy.ts";
import type { Random } from "../time/clock.ts";
import {
  type Breaker,
  type BreakerOutcome,
  breakerReadyAt,
  countSuccesses,
  enterBreaker,
  leaveBreaker,
  openUntil,
} from "./breaker.ts";
import {
  type ConcurrencyOutcome,
  enterConcurrency,
  hasSlot,
  leaveConcurrency,
  paceReadyAt,
  restartRamp,
  slotReadyAt,
  uncountCall,
} from "./concurrency.ts";
import type { GateOptions, Guards } from "./guards.ts";
import { medianMs, recordLatency, recordUnfinished } from "./latency.ts";
import {
  adaptiveRateReadyAt,
  rateReadyAt,
  recordAdaptiveRateResponse,
  returnAdaptiveRate,
  returnRate,
  takeAdaptiveRate,
  takeRate,
} from "./rate.ts";
import type { BudgetShare } from "./retry-budget.ts";
import {
  budgetReadyAt,
  countFirstAttempt,
  type RetryBudget,
  recordBudgetFailure,
  recordBudgetSuccess,
  returnRetryToken,
  takeRetryToken,
  uncountFirstAttempt,
} from "./retry-budget.ts";
import { steadyAt } from "./sliding-window.ts";
import { enterThrottle, recordThrottleResponse } from "./throttle.ts";

/** After the throttle has refused a patient call, it decides again after this time. */
export const THROTTLE_RECHECK_MS = 1000;

export const NO_DRAW = -1;

/**
 * Order: first everything that can refuse or hold without spending (pause, Retry-After gate,
 * breaker, rate, retry budget, concurrency), then the throttle's draw, then everything is taken
 * together. An attempt that is refused or held has spent nothing.
 */
export class Admission {
  /** Why the latest `enter` or `check` gave no permit; undefined if it gave one. */
  refusal: Refusal | undefined = undefined;
  /** For a hold: which guard, and until when. Infinity: until something changes. */
  heldBy: HoldReason = "rate";
  heldUntil = 0;
  /** It is held at least until then. An empty budget or a probe may end the hold at any later time. */
  heldAtLeastUntil = 0;
  /** The latest `enter` or `check` found no slot. */
  lacksSlot = false;
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
  /** Permits whose token of the rate is taken when they start. */
  protected planned = 0;
  protected currentGuards: Guards;
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

  /**
   * Returns a permit, or undefined with `refusal` set. With `aheadMs`, the permit is planned: `start`
   * takes its token of the rate, and counts it if it is a first attempt. It is then enough that there is
   * a token within this time, after those of the other permits that have not started.
   */
  enter(
    request: AdmissionRequest,
    breaker: Breaker | undefined,
    now: number,
    aheadMs?: number,
  ): Permit | undefined {
    if (this.check(request, breaker, now, aheadMs) !== undefined) return undefined;
    const { throttle } = this.currentGuards;
    const draw = throttle === undefined ? NO_DRAW : (this.unusedDraws.pop() ?? this.draw());
    if (throttle !== undefined && !enterThrottle(throttle, now, draw)) {
      if (request.patient) {
        this.throttleUntil = now + THROTTLE_RECHECK_MS;
        this.holdFirmly("throttle", this.throttleUntil);
      } else this.refusal = "overload";
      return undefined;
    }
    return this.take(request, breaker, now, draw, aheadMs !== undefined);
  }

  /** The refusal that `enter` would give, as far as it is known without the throttle's draw. */
  check(
    request: AdmissionRequest,
    breaker: Breaker | undefined,
    now: number,
    aheadMs = 0,
  ): Refusal | undefined {
    this.followClock(now);
    this.heldUntil = now;
    this.heldAtLeastUntil = now;
    this.lacksSlot = false;
    const isRetry = request.kind !== "first";
    // This retry can never get a slot.
    const isHopeless = isRetry && this.currentGuards.concurrency?.options.maxRetries === 0;
    this.refusal = isHopeless ? "overload" : undefined;
    if (isHopeless) return this.refusal;
    this.holdUntil("pause", this.pausedUntil);
    this.holdFirmly("retry-after", this.gateUntil);
    if (breaker !== undefined) this.checkBreaker(breaker, request, now);
    this.checkRates(now, aheadMs);
    if (isRetry) this.checkTokens(request, now);
    if (request.patient) this.holdFirmly("throttle", this.throttleUntil);
    if (this.refusal === undefined) this.checkSlot(isRetry, now);
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

  protected checkRates(now: number, aheadMs: number): void {
    const { rate, adaptiveRate } = this.currentGuards;
    if (rate !== undefined) {
      this.holdFirmly("rate", rateReadyAt(rate, now, this.planned) - aheadMs);
    }
    if (adaptiveRate !== undefined) this.holdUntil("rate", adaptiveRateReadyAt(adaptiveRate, now));
  }

  private checkTokens(request: AdmissionRequest, now: number): void {
    const readyAt = this.tokens.readyAt(now, request.throttled, maySendTrial(request));
    if (readyAt <= now) return;
    if (request.patient) this.holdUntil("retry-budget", readyAt);
    else if (this.refusal !== "circuit-open") this.refusal = "retry-budget";
  }

  protected checkSlot(isRetry: boolean, now: number): void {
    const { concurrency, latency } = this.currentGuards;
    if (concurrency === undefined) return;
    const isFree = hasSlot(concurrency, isRetry);
    const readyAt = isFree ? now : slotReadyAt(concurrency, isRetry, now, latency);
    const pacedAt = concurrency.paceAt > now ? paceReadyAt(concurrency, now) : now;
    if (!isFree || pacedAt > now) this.holdForSlot(Math.max(readyAt, pacedAt), now);
  }

  protected holdForSlot(until: number, now: number): void {
    this.lacksSlot = until > now;
    this.holdUntil("concurrency", until);
  }

  protected take(
    request: AdmissionRequest,
    breaker: Breaker | undefined,
    now: number,
    draw: number,
    isPlanned: boolean,
  ): Permit {
    const { kind, throttled, patient } = request;
    const { rate, adaptiveRate, concurrency } = this.currentGuards;
    const isRetry = kind !== "first";
    const isUsual = breaker === undefined || breaker.state === "CLOSED";
    if (concurrency !== undefined) enterConcurrency(concurrency, isRetry, now, isUsual);
    if (isPlanned) this.planned++;
    else if (rate !== undefined) takeRate(rate, now);
    if (adaptiveRate !== undefined) takeAdaptiveRate(adaptiveRate, now);
    this.count(kind, 1);
    const pass = breaker === undefined ? 0 : enterBreaker(breaker, now);
    const tokenAt = isPlanned ? NO_TOKEN : now;
    const permit = createPermit(kind, patient, pass, now, tokenAt, this.currentGuards, draw);
    if (isRetry || !isPlanned) {
      this.tokens.take(permit, isRetry, now, throttled, maySendTrial(request));
    }
    this.retainedPermit ??= permit;
    return permit;
  }

  protected count(kind: AttemptKind, step: number): void {
    this.inFlight += step;
    if (kind !== "first") this.retriesInFlight += step;
  }

  /** Nothing was sent: returns everything that was taken. */
  handBack(permit: Permit, breaker: Breaker | undefined, now: number): void {
    const { kind, pass, takenAt, tokenAt, draw, guards } = permit;
    const { rate, adaptiveRate, concurrency } = this.guards;
    const isRetry = kind !== "first";
    this.count(kind, -1);
    if (concurrency !== undefined) {
      leaveConcurrency(concurrency, now, isRetry, "ignored", 0);
      uncountCall(concurrency);
    }
    if (tokenAt === NO_TOKEN) this.planned--;
    else if (rate !== undefined && rate === guards.rate) returnRate(rate, tokenAt, now);
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
    // An attempt that was aborted or cut short has no response: it says only that a response takes longer.
    if (verdict !== "success" && saysNothing(outcome, verdict)) {
      recordUnfinished(latency, now, durationMs);
      return;
    }
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
    if (closed && breaker === own && concurrency !== undefined) restartRamp(concurrency, now);
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
    if (this.currentGuards.concurrency !== undefined) {
      restartRamp(this.currentGuards.concurrency, now);
    }
  }
}

// The request for an attempt, the permit for it, and the reasons to refuse one.

/** A hedge is an attempt like a retry: it takes a slot, a rate token and a retry token. */
export type AttemptKind = "first" | "retry" | "hedge";

/** The right to make one attempt. Returned exactly once: with `leave`, or unused with `handBack`. */
export interface Permit extends RetryTickets {
  readonly kind: AttemptKind;
  /** As in the request. */
  readonly patient: boolean;
  /** The breaker's pass; 0 without a breaker. */
  readonly pass: number;
  /** When it was taken; the service sets it to the instant of the first byte. */
  at: number;
  /** When it was taken: `handBack` returns only what time has not refilled since then. */
  readonly takenAt: number;
  /** When its token of the rate was taken; `NO_TOKEN`: `start` takes it. */
  tokenAt: number;
  /** The guards that it was taken from. A guard that replaced one of them does not know the permit. */
  readonly guards: Guards;
  /** The throttle's draw; -1 if there was none. */
  readonly draw: number;
}

export function createPermit(
  kind: AttemptKind,
  patient: boolean,
  pass: number,
  at: number,
  tokenAt: number,
  guards: Guards,
  draw: number,
): Permit {
  return {
    kind,
    patient,
    pass,
    at,
    takenAt: at,
    tokenAt,
    guards,
    draw,
    ticket: 0,
    serviceTicket: 0,
    budget: undefined,
  };
}

/** The permit has no token of the rate yet. */
export const NO_TOKEN = -1;

/** The kind of attempt that asks for a permit. One object serves all calls of a kind. */
export interface AdmissionRequest {
  readonly kind: AttemptKind;
  /** Waits for a guard instead of failing fast. */
  readonly patient: boolean;
  /** A retry after a throttling response, which may have another cost. */
  readonly throttled: boolean;
}

/** Why there is no permit: a guard holds the attempt, or refuses it for this reason. */
export type Refusal = "hold" | "circuit-open" | "retry-budget" | "overload";

/** Trial retries are for calls that would otherwise wait forever. No call waits for a hedge. */
export function maySendTrial({ kind, patient }: AdmissionRequest): boolean {
  return patient && kind !== "hedge";
}

const BOTH = [false, true];

/** One object for each kind of attempt, so a request for a permit allocates nothing. */
const REQUESTS: readonly AdmissionRequest[] = (["first", "retry"] as const).flatMap((kind) =>
  BOTH.flatMap((patient) => BOTH.map((throttled) => ({ kind, patient, throttled }))),
);

/** The request for a first attempt or a retry. `throttled` matters only for retries. */
export function admissionRequestOf(
  isRetry: boolean,
  patient: boolean,
  throttled: boolean,
): AdmissionRequest {
  return REQUESTS[+isRetry * 4 + +patient * 2 + +throttled] as AdmissionRequest;
}

/** A hedge never waits. */
export const HEDGE_REQUEST: AdmissionRequest = { kind: "hedge", patient: false, throttled: false };

// Changes to a destination's guards from outside its calls: another document, the end of a pause, and the
// check just before the first byte of an attempt that was claimed earlier. Only the service needs these.

/** Replaces the guards after the document has changed. Attempts in flight keep their slots. */
export function replaceGuards(
  admission: Admission,
  guards: Guards,
  gate: GateOptions | undefined,
): void {
  admission.setGuards(guards, gate);
  if (guards.concurrency === undefined) return;
  guards.concurrency.inFlight = admission.inFlight;
  guards.concurrency.retriesInFlight = admission.retriesInFlight;
}

/** A pause ended, or another node closed the breaker: calls follow one by one. */
export function rampUp({ guards }: Admission, now: number): void {
  if (guards.concurrency !== undefined) restartRamp(guards.concurrency, now);
}

/** The gate that ended at that instant was already followed by a ramp, here or on another node. */
export function skipGateRamp(admission: Admission, liftedAt: number): void {
  admission.rampedGate = Math.max(admission.rampedGate, liftedAt);
}

/**
 * Checks a permit just before the first byte, some time after it was taken. False if the attempt must
 * not be sent: a gate has closed, the breaker has changed, or the retry tokens at the current cost are
 * gone. The caller must then hand the permit back.
 */
export function recheckPermit(
  admission: Admission,
  permit: Permit,
  breaker: Breaker | undefined,
  request: AdmissionRequest,
  now: number,
): boolean {
  const { tokens } = admission;
  const { kind, throttled } = request;
  const mayTry = maySendTrial(request);
  if (admission.pausedUntil > now || admission.gateUntil > now) return false;
  if (breaker !== undefined && breaker.generation !== permit.pass) return false;
  if (kind === "first" || (permit.at === now && !throttled)) return true;
  tokens.handBack(permit, true);
  permit.at = now;
  permit.ticket = 0;
  permit.serviceTicket = 0;
  permit.budget = undefined;
  if (tokens.readyAt(now, throttled, mayTry) > now) return false;
  tokens.take(permit, true, now, throttled, mayTry);
  return true;
}

/**
 * The state of a destination's guards as `decide` reads it, for a retry that is not due yet. `admit` reads
 * the admission itself. Reading spends nothing.
 */
export function retryGates(
  admission: Admission,
  request: AdmissionRequest,
  breaker: Breaker | undefined,
  now: number,
): Gates {
  const { guards, tokens, gateUntil, pausedUntil } = admission;
  const { concurrency, latency } = guards;
  const gates: { -readonly [gate in keyof Gates]: Gates[gate] } = {};
  const circuitOpenUntil = breaker && openUntil(breaker, now);
  if (circuitOpenUntil !== undefined) gates.circuitOpenUntil = circuitOpenUntil;
  const retryBudgetUntil = tokens.readyAt(now, request.throttled, maySendTrial(request));
  if (retryBudgetUntil > now) gates.retryBudgetUntil = retryBudgetUntil;
  if (gateUntil > now) gates.retryAfterUntil = gateUntil;
  if (pausedUntil > now) gates.pausedUntil = pausedUntil;
  if (concurrency?.options.maxRetries === 0) gates.refusesRetries = true;
  const estimatedCallMs = medianMs(latency, now);
  if (estimatedCallMs !== undefined) gates.estimatedCallMs = estimatedCallMs;
  return gates;
}

// The tokens that attempts take from the retry budget of their destination and from the budget of the whole
// service, both or neither. The service's budget limits retries when many destinations fail at once. The
// tenants of the service share it.

/** The tickets of one attempt: one from each budget that is on, 0 from one that is off. */
export interface RetryTickets {
  ticket: number;
  serviceTicket: number;
  /** The budget that gave `ticket`. A budget that replaced it does not know the ticket. */
  budget: RetryBudget | undefined;
}

export class RetryTokens {
  /** The destination's budget; replaced when its document changes. */
  budget: RetryBudget | undefined;
  readonly serviceBudget: BudgetShare | undefined;

  /** `serviceBudget`: the tenant's share of the service's budget. */
  constructor(own: RetryBudget | undefined, serviceBudget: BudgetShare | undefined) {
    this.budget = own;
    this.serviceBudget = serviceBudget;
  }

  /** `now` if a retry may be sent; otherwise when to check again. */
  readyAt(now: number, throttled: boolean, patient: boolean): number {
    const { budget: own, serviceBudget } = this;
    const ownAt = own ? budgetReadyAt(own, now, throttled, patient) : now;
    return serviceBudget ? Math.max(ownAt, serviceBudget.readyAt(now, throttled, patient)) : ownAt;
  }

  /** Counts a first attempt, or takes a token for a retry or hedge. `readyAt` has allowed it. */
  take(
    holder: RetryTickets,
    isRetry: boolean,
    now: number,
    throttled: boolean,
    patient: boolean,
  ): void {
    const { budget: own, serviceBudget } = this;
    holder.budget = own;
    holder.ticket = 0;
    if (own) {
      holder.ticket = isRetry
        ? takeRetryToken(own, now, throttled, patient)
        : countFirstAttempt(own, now);
    }
    holder.serviceTicket = serviceBudget?.take(isRetry, now, throttled, patient) ?? 0;
  }

  /** The attempt was never sent. */
  handBack({ ticket, serviceTicket, budget }: RetryTickets, isRetry: boolean): void {
    if (ticket === 0 && serviceTicket === 0) return;
    if (budget && budget === this.budget) {
      (isRetry ? returnRetryToken : uncountFirstAttempt)(budget, ticket);
    }
    this.serviceBudget?.handBack(serviceTicket, isRetry);
  }

  /** The attempt succeeded. `isRefunded`: it was a retry, and its token may be returned. */
  succeed(
    { ticket, serviceTicket, budget }: RetryTickets,
    isRefunded: boolean,
    patient: boolean,
  ): void {
    if (budget && budget === this.budget) {
      recordBudgetSuccess(budget, isRefunded ? ticket : 0, patient);
    }
    this.serviceBudget?.succeed(isRefunded ? serviceTicket : 0, patient);
  }

  fail(now: number): void {
    if (this.budget) recordBudgetFailure(this.budget);
    this.serviceBudget?.fail(now);
  }
}

// What an outcome says about the destination's health. A refused request is not a sign of a failing
// destination. A bug in the caller's program, an error that nobody has classified (a card that was declined)
// and an attempt that had too little time say nothing at all.

/** How the breaker counts an outcome. */
export function breakerOutcomeOf(outcome: Outcome, verdict: Verdict): BreakerOutcome {
  if (verdict === "success") return "success";
  if (saysNothing(outcome, verdict)) return "ignored";
  // Nobody has said that this error is a failure of the destination.
  if (outcome.kind === "thrown" && outcome.verdict === undefined) return "ignored";
  // An answer about this call, such as that an earlier one with its key still runs.
  if (outcome.kind === "status" && outcome.status === 409) return "success";
  if (verdict === "transient" || verdict === "throttled") return "failure";
  return finalHealth(outcome);
}

/** Whether every guard ignores the outcome. */
function saysNothing(outcome: Outcome, verdict: Verdict): boolean {
  return verdict === "aborted" || outcome.cutShort === true;
}

/** Among outcomes that are not retried, a response below 500 shows that the destination works. */
function finalHealth(outcome: Outcome): BreakerOutcome {
  switch (outcome.kind) {
    case "status":
      return outcome.status >= 500 ? "failure" : "success";
    case "grpc":
      return "success";
    case "error":
      return "failure";
    default:
      return "ignored";
  }
}

/** How the concurrency limit counts an outcome: only overload and timeouts are signs of too many calls. */
export function concurrencyOutcomeOf(outcome: Outcome, verdict: Verdict): ConcurrencyOutcome {
  if (verdict === "success") return "success";
  if (saysNothing(outcome, verdict)) return "ignored";
  if (verdict === "throttled") return "dropped";
  if (outcome.kind === "status") return outcome.status === 503 ? "dropped" : "ignored";
  return outcome.kind === "error" && outcome.errorClass === "timeout" ? "dropped" : "ignored";
}

/** Whether the throttle counts a call as accepted: any response, even a failed one, except a refusal for overload. */
export function isAccepted(outcome: Outcome, verdict: Verdict): boolean {
  if (breakerOutcomeOf(outcome, verdict) === "success") return true;
  return outcome.kind === "status" && concurrencyOutcomeOf(outcome, verdict) === "ignored";
}

/** Until when a response holds every call of its destination; 0 if it does not. */
export function gateUntil(
  { maxGateMs }: GateOptions,
  { respectRetryAfter, maxRetryAfterMs }: Policy,
  outcome: Outcome,
  now: number,
): number {
  const { retryAfterMs } = outcome;
  const isAsked = outcome.kind === "status" && (outcome.status === 429 || outcome.status === 503);
  if (!respectRetryAfter || !isAsked || retryAfterMs === undefined || retryAfterMs <= 0) return 0;
  return now + Math.min(retryAfterMs, maxRetryAfterMs, maxGateMs);
}
