/**
 * Guarded destination: a destination as this node sees it: its row in the store, its guards, and
 * its lanes. An attempt needs a permit; a permit is a slot, a pass of the breaker, a place in the
 * rate and, for a retry, a ticket of the retry budget, all taken together or not at all.
 *
 * Pause, gate and circuit are the fleet's: they are columns of the row, and a claim is made under
 * the version of the row that this node knows.
 */
import {
  adaptiveRateReadyAt,
  adoptBreaker,
  breakerReadyAt,
  breakerState,
  concurrencyLimit,
  createConcurrency,
  createGuards,
  type Destination,
  type DestinationDocument,
  enterBreaker,
  enterConcurrency,
  enterThrottle,
  type Gates,
  type Guards,
  gatesOf,
  giveBackRate,
  guardOptionsOf,
  healthOf,
  isAccepted,
  judge,
  leaveBreaker,
  leaveConcurrency,
  loadOf,
  noteAccept,
  noteAnswer,
  type Outcome,
  type Policy,
  type Random,
  type RetryBudget,
  rateReadyAt,
  recordLatency,
  resolveDestination,
  restartRamp,
  takeAdaptiveRate,
  takeRate,
} from "@redrive/core";
import { blankDestination, type DestinationRow } from "../store.ts";
import type { Lane } from "../task.ts";
import { askedGate } from "./asked-gate.ts";
import { keepOpen, keepUnchanged } from "./changed-guards.ts";
import { PermitsOut } from "./permits-out.ts";
import { NO_TICKETS, RetryBudgets, type Tickets } from "./retry-tickets.ts";
import { guardsOf, guardsText } from "./saved-guards.ts";
import { lanesOf, type WaitingLane } from "./waiting-lane.ts";

/** Leave to make one attempt. Goes back exactly once: to `leave`, or unused to `giveBack`. */
export interface Permit {
  readonly isRetry: boolean;
  readonly pass: number;
  /** When it was taken, and the tickets of the retry budgets it has: both follow a late start. */
  at: number;
  tickets: Tickets;
}

const DEFAULTS = resolveDestination({}, "service");

/** A throttle that has refused is asked again after this. */
const THROTTLE_PAUSE_MS = 1000;

export class GuardedDestination {
  readonly tenantId: string;
  readonly name: string;
  readonly lanes: Readonly<Record<Lane, WaitingLane>>;
  readonly #random: Random;
  readonly #madeAt: number;

  /** The row as last read or written. */
  row: DestinationRow;
  document: Destination = DEFAULTS;
  #guards: Guards | undefined;
  /** What an earlier process wrote down of its guards, until ours and the row are known. */
  #note: string | undefined;
  /** For `GuardNotes`: are the guards to be written down, and when were they last. */
  isNoteWanted = false;
  notedAt = 0;
  /** Those who keep it over a wait: tasks on their way into the store, and claims. */
  holders = 0;
  #usedAt: number;
  readonly #permits = new PermitsOut();
  readonly #whole: RetryBudget | undefined;
  #budgets: RetryBudgets | undefined;
  /** When a permit that was refused is worth asking for again; Infinity: when something changes. */
  readyAt = 0;
  #gateUntil = 0;
  /** The gate whose lifting has been answered with a ramp. */
  #rampedGate = 0;
  /** Until when the probe of a half-open breaker keeps the others of the fleet out. */
  #probeUntil = 0;

  /** `whole`: the retry budget of the whole service; undefined: it has none. */
  constructor(
    random: Random,
    place: { tenantId: string; name: string },
    now: number,
    whole: RetryBudget | undefined,
  ) {
    this.#whole = whole;
    this.tenantId = place.tenantId;
    this.name = place.name;
    this.#random = random;
    this.row = blankDestination(place.tenantId, place.name);
    this.#madeAt = now;
    this.#usedAt = now;
    this.lanes = lanesOf(this);
  }

  /** Made when they are first asked: ten thousand destinations that only wait cost little. */
  get guards(): Guards {
    this.#guards ??= this.#makeGuards(this.#madeAt);
    return this.#guards;
  }

  #makeGuards(now: number): Guards {
    const options = guardOptionsOf(this.document);
    return this.#note === undefined
      ? createGuards(options, now)
      : guardsOf(options, this.#note, now);
  }

  /** The guards go on from what an earlier process wrote down, unless they are in use already. */
  recall(text: string): void {
    if (this.#guards === undefined) this.#note = text;
  }

  /** To be written down. Until the row is known, what was written down before stays. */
  guardsText(): string {
    return this.#note ?? guardsText(this.guards);
  }

  /**
   * Nobody has used it since, nothing waits here, and one made anew would do the same: it has no
   * document or pause of its own, its circuit is closed and its limit no lower than it began.
   */
  isIdleSince(at: number): boolean {
    const { row } = this;
    if (this.holders > 0 || this.#usedAt > at || this.isNoteWanted) return false;
    if (row.document !== null || row.pausedAt !== null) return false;
    if (row.breakerState !== "CLOSED" || this.#shutUntil() > at) return false;
    if (Object.values(this.lanes).some(({ dueAt }) => Number.isFinite(dueAt))) return false;
    const { breaker, concurrency } = this.#guards ?? {};
    if (breaker !== undefined && breaker.state !== "CLOSED") return false;
    if (concurrency === undefined) return this.#note === undefined;
    const { limit } = createConcurrency(concurrency.options, at).estimate;
    return concurrency.ramp === 0 && concurrency.estimate.limit >= limit;
  }

  /** The destination's retry budget and the service's. */
  get budgets(): RetryBudgets {
    this.#budgets ??= new RetryBudgets(this.guards.retryBudget, this.#whole);
    return this.#budgets;
  }

  /** A permit for one attempt, or undefined with `readyAt` set. */
  take(isRetry: boolean, now: number): Permit | undefined {
    this.#usedAt = now;
    this.#answerLiftedGate(now);
    this.readyAt = this.#readyAt(isRetry, now);
    if (this.readyAt > now) return undefined;
    const { breaker, concurrency, rate, adaptiveRate, throttle } = this.guards;
    if (throttle && !enterThrottle(throttle, now, this.#random.next())) {
      this.readyAt = now + THROTTLE_PAUSE_MS;
      return undefined;
    }
    this.#permits.count(isRetry, 1);
    if (concurrency) enterConcurrency(concurrency, isRetry);
    if (rate) takeRate(rate, now);
    if (adaptiveRate) takeAdaptiveRate(adaptiveRate, now);
    const tickets = (isRetry && this.budgets.take(now, false)) || NO_TICKETS;
    return { isRetry, tickets, at: now, pass: breaker ? this.#enter(now) : 0 };
  }

  /** Could a permit be had now? */
  wouldAdmit(isRetry: boolean, now: number): boolean {
    return this.#readyAt(isRetry, now) <= now;
  }

  #enter(now: number): number {
    const { breaker } = this.guards;
    if (breaker === undefined) return 0;
    const isProbe = breakerState(breaker, now) !== "CLOSED";
    if (isProbe) this.#probeUntil = now + breaker.options.openMs;
    return enterBreaker(breaker, now);
  }

  /** `now` if a permit can be had; otherwise when asking again is worthwhile. */
  #readyAt(isRetry: boolean, now: number): number {
    const { breaker, concurrency, rate, adaptiveRate } = this.guards;
    if (this.row.pausedAt !== null) return Number.POSITIVE_INFINITY;
    let readyAt = Math.max(now, this.#shutUntil());
    if (breaker) readyAt = Math.max(readyAt, breakerReadyAt(breaker, now));
    if (rate) readyAt = Math.max(readyAt, rateReadyAt(rate, now));
    if (adaptiveRate) readyAt = Math.max(readyAt, adaptiveRateReadyAt(adaptiveRate, now));
    if (isRetry) readyAt = Math.max(readyAt, this.budgets.readyAt(now, false));
    if (readyAt > now || concurrency === undefined) return readyAt;
    const { inFlight, retriesInFlight, options } = concurrency;
    const isFull = inFlight >= concurrencyLimit(concurrency);
    const noRetry = isRetry && retriesInFlight >= options.maxRetries;
    return isFull || noRetry ? Number.POSITIVE_INFINITY : now;
  }

  /** The gate that the fleet knows of, or that this node has just been told of. */
  #shutUntil(): number {
    return Math.max(this.row.gateUntil, this.#gateUntil);
  }

  /** After a gate one call finds out, and the rest follow one by one: that is the ramp. */
  #answerLiftedGate(now: number): void {
    const gateUntil = this.#shutUntil();
    if (gateUntil <= this.#rampedGate || gateUntil > now) return;
    this.#rampedGate = gateUntil;
    if (this.guards.concurrency) restartRamp(this.guards.concurrency);
  }

  /**
   * The first byte is about to leave. False if it must not: the commit of the claim took its time,
   * and meanwhile the destination was paused or has asked for time, the breaker has changed its
   * mind, or the budget has been spent. A retry after a throttling answer (`throttled`) may have
   * another price, which is known only now.
   */
  mayLeave(permit: Permit, now: number, throttled: boolean): boolean {
    const { breaker } = this.guards;
    // It was claimed, so the row is the one that we know.
    this.#note = undefined;
    if (this.row.pausedAt !== null || this.#shutUntil() > now) return false;
    if (breaker && breaker.generation !== permit.pass) return false;
    if (!permit.isRetry) {
      this.budgets.noteFirst(now);
      return true;
    }
    return (permit.at === now && !throttled) || this.#redraw(permit, now, throttled);
  }

  #redraw(permit: Permit, now: number, throttled: boolean): boolean {
    this.budgets.giveBack(permit.tickets);
    const tickets = this.budgets.take(now, throttled);
    permit.at = now;
    permit.tickets = tickets ?? NO_TICKETS;
    return tickets !== undefined;
  }

  /** An attempt ended. */
  leave(permit: Permit, now: number, policy: Policy, outcome: Outcome, durationMs: number): void {
    this.#usedAt = now;
    this.#permits.count(permit.isRetry, -1);
    const verdict = judge(policy, outcome);
    const { breaker, concurrency, adaptiveRate, throttle, latency } = this.guards;
    const health = healthOf(outcome, verdict);
    if (concurrency) {
      leaveConcurrency(concurrency, now, permit.isRetry, loadOf(outcome, verdict), durationMs);
    }
    if (breaker) this.#leaveBreaker(permit, now, health, durationMs);
    if (verdict === "success") recordLatency(latency, now, durationMs);
    if (adaptiveRate) noteAnswer(adaptiveRate, now, verdict === "throttled");
    if (throttle && isAccepted(outcome, verdict)) noteAccept(throttle, now);
    if (verdict === "success") this.budgets.noteSuccess(permit.tickets);
    if (verdict === "transient" || verdict === "throttled") this.budgets.noteFailure();
    if (!policy.respectRetryAfter) return;
    const gateUntil = askedGate(outcome, now, policy.maxRetryAfterMs);
    this.#gateUntil = Math.max(this.#gateUntil, gateUntil);
  }

  #leaveBreaker(
    permit: Permit,
    now: number,
    health: "success" | "failure" | "ignored",
    durationMs: number,
  ): void {
    const { breaker, concurrency } = this.guards;
    if (breaker === undefined) return;
    const before = breaker.state;
    leaveBreaker(breaker, now, permit.pass, health, durationMs, this.#random.next());
    const closed = before !== "CLOSED" && breaker.state === "CLOSED";
    if (closed && concurrency) restartRamp(concurrency);
  }

  /** Nothing left: it is as if nobody had asked. */
  giveBack(permit: Permit, now: number): void {
    const { breaker, concurrency, rate } = this.guards;
    this.#permits.count(permit.isRetry, -1);
    if (concurrency) leaveConcurrency(concurrency, now, permit.isRetry, "ignored", 0);
    if (rate) giveBackRate(rate, permit.at);
    if (breaker) leaveBreaker(breaker, now, permit.pass, "ignored", 0, 0);
    this.budgets.giveBack(permit.tickets);
  }

  /** What the guards say now, for `decide`. */
  gates(now: number, throttled: boolean): Gates {
    const gates = gatesOf(this.guards, now, throttled);
    const retryBudgetUntil = this.budgets.readyAt(now, throttled);
    return retryBudgetUntil > now ? { ...gates, retryBudgetUntil } : gates;
  }

  /** The row that is to be written, if what the fleet shares has changed; otherwise null. */
  wantedRow(): DestinationRow | null {
    const { row } = this;
    const gateUntil = this.#shutUntil();
    const columns = this.#breakerColumns();
    const same = columns === null && gateUntil === row.gateUntil;
    return same ? null : { ...row, ...columns, gateUntil, version: row.version + 1 };
  }

  /** Null when the row says it already. While a probe is out, the others are to see it open. */
  #breakerColumns(): Pick<DestinationRow, "breakerState" | "openUntil" | "openCount"> | null {
    const { breaker } = this.guards;
    if (breaker === undefined) return null;
    const { row } = this;
    const { state, openCount } = breaker;
    if (state === "CLOSED") {
      return row.breakerState === "CLOSED"
        ? null
        : { breakerState: "CLOSED", openUntil: 0, openCount };
    }
    const openUntil = state === "OPEN" ? breaker.openUntil : this.#probeUntil;
    const isTold = row.breakerState === "OPEN" && row.openUntil >= openUntil;
    return isTold ? null : { breakerState: "OPEN", openUntil, openCount };
  }

  /** The row was written, by us. */
  wrote(row: DestinationRow): void {
    this.row = row;
  }

  /** Takes over a row that somebody else wrote. */
  adopt(row: DestinationRow, now: number): void {
    const mine = this.row;
    this.row = row;
    // What was written down holds under the document that stood then, and for no later one.
    if (mine.version > 0) this.#note = undefined;
    if (row.document !== mine.document) this.#configure(row.document, now);
    this.#note = undefined;
    const { breaker, concurrency } = this.guards;
    const moved =
      row.breakerState !== mine.breakerState ||
      row.openUntil !== mine.openUntil ||
      row.openCount !== mine.openCount;
    if (breaker && moved) adoptColumns(breaker, row, now);
    const lifted = mine.pausedAt !== null && row.pausedAt === null;
    const closed = mine.breakerState !== "CLOSED" && row.breakerState === "CLOSED";
    if (concurrency && (lifted || closed)) restartRamp(concurrency);
    if (row.gateUntil <= now) this.#rampedGate = Math.max(this.#rampedGate, row.gateUntil);
  }

  /** Follows another document. With a note the guards go on from that. */
  #configure(text: string | null, now: number): void {
    const standing = { guards: this.guards, options: guardOptionsOf(this.document) };
    this.document = resolveDestination(JSON.parse(text ?? "{}") as DestinationDocument, "service");
    const fresh = { guards: this.#makeGuards(now), options: guardOptionsOf(this.document) };
    const guards = this.#note === undefined ? keepUnchanged(standing, fresh) : fresh.guards;
    keepOpen(standing.guards, guards, now);
    this.#permits.tell(guards.concurrency);
    this.#guards = guards;
    this.budgets.own = guards.retryBudget;
  }
}

function adoptColumns(
  breaker: NonNullable<Guards["breaker"]>,
  row: DestinationRow,
  now: number,
): void {
  const { breakerState: state, openUntil, openCount } = row;
  adoptBreaker(breaker, now, { state, openUntil, openCount });
}
