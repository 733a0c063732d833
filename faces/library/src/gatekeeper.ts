/**
 * Gatekeeper: keeps one destination's guards in step with the calls that come and go. It enters and
 * leaves the guards of core, lines up calls that wait for a slot, and counts; whether a call may be
 * repeated is not its business.
 */
import {
  type Breaker,
  breakerReadyAt,
  countSuccesses,
  createBreaker,
  type Destination,
  enterBreaker,
  enterConcurrency,
  enterThrottle,
  type Gates,
  type Guards,
  gatesOf,
  giveBack,
  healthOf,
  isAccepted,
  leaveBreaker,
  leaveConcurrency,
  loadOf,
  noteAccept,
  noteAnswer,
  noteFailure,
  noteFirst,
  noteSuccess,
  type Outcome,
  openUntil,
  type Random,
  recordLatency,
  restartRamp,
  takeAdaptiveRate,
  takeRate,
  takeRetry,
  type Verdict,
} from "@redrive/core";
import { put } from "./bounded.ts";
import type { Moment } from "./turn.ts";

/** What a call holds while an attempt is under way. */
export interface Entry {
  /** What the breaker gave; 0 without one. */
  pass: number;
  /** What the retry budget gave; 0 for what costs it nothing. */
  ticket: number;
  readonly attempt: number;
  readonly copy: number;
  /** When it began. */
  readonly moment: Moment;
}

/** A call that waits for a slot. */
export interface Waiter {
  readonly isRetry: boolean;
  granted(): void;
}

/** Only a failure opens a breaker; drawing for every success would cost more than the rest. */
const EVEN_DRAW = 0.5;

export class Gatekeeper {
  /** The destination's own, for calls without a key. */
  readonly breaker: Breaker | undefined;
  /** One breaker per key: a sick shard must not close the door to its healthy neighbours. */
  readonly breakers: Map<string, Breaker> = new Map();
  /** True if there is nothing to pass but the breaker and the retry budget. */
  readonly isPlain: boolean;
  /** True if not even a retry budget is kept. */
  readonly isBare: boolean;
  private readonly options: Destination;
  private readonly all: Guards;
  private readonly random: Random;
  /**
   * Successes that began and ended in one moment under a steady breaker: the guards are told of them
   * in one go, before anybody looks at these.
   */
  private untold = 0;
  private moment: Moment | undefined = undefined;
  private steady: Breaker | undefined = undefined;
  private readonly waiting: Waiter[] = [];
  private isLettingIn = false;

  constructor(options: Destination, guards: Guards, random: Random) {
    this.options = options;
    this.all = guards;
    this.breaker = guards.breaker;
    this.random = random.fork("guards");
    const { rate, adaptiveRate, throttle, concurrency } = guards;
    this.isPlain = !(rate || adaptiveRate || throttle || concurrency);
    this.isBare = this.isPlain && guards.retryBudget === undefined;
  }

  get guards(): Guards {
    const { steady, moment, untold, all } = this;
    if (untold > 0 && steady && moment) {
      this.untold = 0;
      countSuccesses(steady, untold);
      recordLatency(all.latency, moment.epochMs, 0, untold);
    }
    return all;
  }

  /** The breaker for a key, if there are breakers. */
  breakerOf(key: string, now: number): Breaker | undefined {
    const known = this.breakers.get(key);
    if (known !== undefined || this.options.breaker === undefined) return known;
    const breaker = createBreaker(this.options.breaker, now);
    put(this.breakers, key, breaker);
    return breaker;
  }

  /** What the guards say, with the key's own breaker. */
  gates(breaker: Breaker | undefined, now: number, throttled: boolean): Gates {
    return gatesOf({ ...this.guards, breaker }, now, throttled);
  }

  /** As `gates`, with a half-open breaker whose probes are all under way counted as shut. */
  entryGates(breaker: Breaker | undefined, now: number): Gates {
    const gates = this.gates(breaker, now, false);
    const readyAt = breaker ? breakerReadyAt(breaker, now) : now;
    return readyAt > now ? { ...gates, circuitOpenUntil: readyAt } : gates;
  }

  isShut(breaker: Breaker | undefined, now: number): boolean {
    return breaker !== undefined && openUntil(breaker, now) !== undefined;
  }

  /** Draws a place in the rates; false if there is none now. */
  takeRates(now: number): boolean {
    const { rate, adaptiveRate } = this.guards;
    if (adaptiveRate !== undefined && !takeAdaptiveRate(adaptiveRate, now)) return false;
    return rate === undefined || takeRate(rate, now);
  }

  /** False if the SRE throttle refuses the call here, without troubling the other side. */
  passThrottle(now: number): boolean {
    const { throttle } = this.guards;
    return throttle === undefined || enterThrottle(throttle, now, this.random.next());
  }

  takeSlot(isRetry: boolean): boolean {
    const { concurrency } = this.guards;
    return concurrency === undefined || enterConcurrency(concurrency, isRetry);
  }

  /** Lines a call up for a slot. Returns what takes it out again; undefined if the line is full. */
  lineUp(waiter: Waiter): (() => void) | undefined {
    const { waiting } = this;
    if (waiting.length >= (this.guards.concurrency?.options.queue ?? 0)) return undefined;
    waiting.push(waiter);
    return () => {
      const index = waiting.indexOf(waiter);
      if (index >= 0) waiting.splice(index, 1);
    };
  }

  /** A pass, or 0 if the breaker lets nothing through. */
  takePass(breaker: Breaker | undefined, now: number): number {
    return breaker === undefined ? 1 : enterBreaker(breaker, now);
  }

  /** A ticket for one retry or hedge, or 0 when the budget is empty. */
  takeTicket(now: number, throttled: boolean): number {
    const { retryBudget } = this.all;
    return retryBudget === undefined ? 1 : takeRetry(retryBudget, now, throttled);
  }

  noteFirst(now: number): void {
    const { retryBudget } = this.all;
    if (retryBudget !== undefined) noteFirst(retryBudget, now);
  }

  giveBack(ticket: number): void {
    const { retryBudget } = this.all;
    if (retryBudget !== undefined) giveBack(retryBudget, ticket);
  }

  /** A slot that was taken and not used goes back. */
  giveSlotBack(now: number, isRetry: boolean): void {
    const { concurrency } = this.guards;
    if (concurrency === undefined) return;
    leaveConcurrency(concurrency, now, isRetry, "ignored", 0);
    this.letIn();
  }

  /** A success that the guards may be told of later; true if it is counted for then. */
  putsOff(entry: Entry, breaker: Breaker | undefined, moment: Moment): boolean {
    const isSame = moment === this.moment && breaker === this.steady && moment === entry.moment;
    if (!isSame || entry.pass !== breaker?.generation) return false;
    this.untold++;
    return true;
  }

  /** An attempt is over: every guard learns of it. */
  leave(
    entry: Entry,
    breaker: Breaker | undefined,
    moment: Moment,
    outcome: Outcome,
    verdict: Verdict,
    patient: boolean,
  ): void {
    const { concurrency, latency, adaptiveRate, throttle } = this.guards;
    const { epochMs: now, ms } = moment;
    const durationMs = ms - entry.moment.ms;
    const health = healthOf(outcome, verdict);
    this.moment = undefined;
    if (breaker !== undefined) {
      const before = breaker.state;
      const draw = health === "success" ? EVEN_DRAW : this.random.next();
      const isSteady = leaveBreaker(breaker, now, entry.pass, health, durationMs, draw);
      if (isSteady && this.isBare) this.moment = moment;
      this.steady = breaker;
      // A shard that is well again is no reason to let its neighbours in one by one.
      if (breaker === this.breaker && before !== breaker.state) this.rampUp(breaker);
    }
    if (verdict === "success") recordLatency(latency, now, durationMs);
    this.tellBudget(entry.ticket, verdict, patient);
    if (adaptiveRate) noteAnswer(adaptiveRate, now, verdict === "throttled");
    if (throttle && isAccepted(outcome, verdict)) noteAccept(throttle, now);
    if (concurrency === undefined) return;
    const isRetry = entry.attempt > 1 || entry.copy > 0;
    leaveConcurrency(concurrency, now, isRetry, loadOf(outcome, verdict), durationMs);
    this.letIn();
  }

  private rampUp({ state }: Breaker): void {
    const { concurrency } = this.all;
    if (concurrency && state === "CLOSED") restartRamp(concurrency);
  }

  private tellBudget(ticket: number, verdict: Verdict, patient: boolean): void {
    const { retryBudget } = this.all;
    if (retryBudget === undefined) return;
    if (verdict === "success") noteSuccess(retryBudget, ticket, patient);
    else if (verdict === "transient" || verdict === "throttled") noteFailure(retryBudget);
  }

  /**
   * Slots that came free go to those who have waited longest. Who is let in may be done, or turned
   * away, before this returns: the loop goes on with its slot, however long the line is.
   */
  private letIn(): void {
    if (this.isLettingIn) return;
    this.isLettingIn = true;
    for (let next = this.nextWaiter(); next !== undefined; next = this.nextWaiter()) next.granted();
    this.isLettingIn = false;
  }

  /** Takes a slot for the first in line who may have it: retries have a cap of their own. */
  private nextWaiter(): Waiter | undefined {
    const first = this.waiting[0];
    if (first === undefined) return undefined;
    if (this.takeSlot(first.isRetry)) return this.waiting.shift();
    const index = first.isRetry ? this.waiting.findIndex(({ isRetry }) => !isRetry) : -1;
    return index >= 0 && this.takeSlot(false) ? this.waiting.splice(index, 1)[0] : undefined;
  }
}
