/**
 * Fleet admission: the admission of a node that shares a destination's limits with other nodes. In
 * addition to its own guards it obeys the node's shares of the limits, its breaker counts the calls of
 * all nodes, and one claim takes the permits of many attempts at once.
 */
import type { Outcome, Verdict } from "../decide/outcome.ts";
import type { Policy } from "../decide/policy.ts";
import {
  Admission,
  type AdmissionRequest,
  type AttemptKind,
  createPermit,
  maySendTrial,
  NO_DRAW,
  NO_TOKEN,
  type Permit,
  type RetryTickets,
} from "./admission.ts";
import { type Breaker, type CallCounts, tripTogether } from "./breaker.ts";
import { freeSlots, returnSlots, takeSlots } from "./concurrency.ts";
import { rateReadyAt, takeRate } from "./rate.ts";

/** What one node may use of the limits of a destination. */
export interface FleetShare {
  /** Attempts at once; Infinity: no limit. */
  readonly slots: number;
  readonly retrySlots: number;
  /** The reserved tokens, in the order of their instants. */
  readonly rate: readonly ReservedTokens[];
}

/** Tokens of a rate: one at `startAt`, and one every `intervalMs` after it. */
export interface ReservedTokens {
  readonly startAt: number;
  readonly intervalMs: number;
  readonly count: number;
  used: number;
}

/** A node that shares a destination, and has no share of it yet. */
export const NO_SHARE: FleetShare = { slots: 0, retrySlots: 0, rate: [] };

/** A reserved token is usable for at least this long. */
const KEPT_MS = 1000;

const NO_CALLS: CallCounts = { calls: 0, failures: 0, slowCalls: 0 };

/**
 * After the breaker has closed, the other nodes' counts are ignored for this time: their latest
 * reports may contain the failures that had opened it.
 */
const FORGET_MS = 3000;

export class FleetAdmission extends Admission {
  /** Undefined: this node uses the whole limits. */
  share: FleetShare | undefined = undefined;
  /** A share was missing since this was last set to false. */
  lacksShare = false;
  private others: CallCounts = NO_CALLS;
  private generation = 0;
  private closedAt = Number.NEGATIVE_INFINITY;

  /** The calls of other nodes, as reported last. */
  setOthers(others: CallCounts, breaker: Breaker | undefined, now: number): void {
    this.others = others;
    if (breaker !== undefined) this.trip(breaker, now);
  }

  override leave(
    permit: Permit,
    breaker: Breaker | undefined,
    policy: Policy,
    outcome: Outcome,
    verdict: Verdict,
    durationMs: number,
    now: number,
  ): void {
    super.leave(permit, breaker, policy, outcome, verdict, durationMs, now);
    // A node that uses the whole limits has no others to count.
    if (this.share === undefined) return;
    if (breaker !== undefined && verdict !== "success") this.trip(breaker, now);
  }

  override handBack(permit: Permit, breaker: Breaker | undefined, now: number): void {
    super.handBack(permit, breaker, now);
    if (permit.tokenAt === NO_TOKEN) return;
    // The latest one with a used token: none of its instants has passed before those of the others.
    const tokens = this.share?.rate.findLast(({ used }) => used > 0);
    if (tokens !== undefined) tokens.used--;
  }

  protected override take(
    request: AdmissionRequest,
    breaker: Breaker | undefined,
    now: number,
    draw: number,
    isPlanned: boolean,
  ): Permit {
    if (!isPlanned) this.useToken();
    return super.take(request, breaker, now, draw, isPlanned);
  }

  private useToken(): void {
    const tokens = this.share?.rate.find(({ used, count }) => used < count);
    if (tokens !== undefined) tokens.used++;
  }

  /** When the next permit without a token may start; `now`: at once. Infinity: no token is known. */
  startsAt(now: number): number {
    const { share, currentGuards } = this;
    const { rate } = currentGuards;
    if (rate === undefined) return now;
    const ownAt = rateReadyAt(rate, now);
    if (share === undefined) return ownAt;
    return Math.max(ownAt, tokenReadyAt(share.rate, rate.options.burst, now, 0));
  }

  /**
   * Takes the token of a planned permit, immediately before the first byte. So the calls keep the rate at
   * the instants at which they are sent, however late they are. False: there is none now. The retry
   * budgets count only first attempts that are sent, so they count it here.
   */
  start(permit: Permit, now: number): boolean {
    if (permit.tokenAt !== NO_TOKEN) return true;
    if (this.startsAt(now) > now) return false;
    this.planned--;
    permit.tokenAt = now;
    const { rate } = this.currentGuards;
    if (rate !== undefined) takeRate(rate, now);
    this.useToken();
    if (permit.kind === "first") this.tokens.take(permit, false, now, false, permit.patient);
    return true;
  }

  protected override checkRates(now: number, aheadMs: number): void {
    super.checkRates(now, aheadMs);
    const { share, planned } = this;
    const { rate } = this.currentGuards;
    if (share === undefined || rate === undefined) return;
    const readyAt = tokenReadyAt(share.rate, rate.options.burst, now, planned) - aheadMs;
    this.lacksShare ||= readyAt === Number.POSITIVE_INFINITY;
    if (readyAt <= now) return;
    // A node reserves no tokens while another guard holds its calls, so that guard is the cause.
    const isMissing = readyAt === Number.POSITIVE_INFINITY && this.refusal !== undefined;
    this.holdUntil(isMissing ? this.heldBy : "rate", readyAt);
  }

  protected override checkSlot(isRetry: boolean, now: number): void {
    super.checkSlot(isRetry, now);
    const { share, currentGuards: guards } = this;
    if (share === undefined || guards.concurrency === undefined) return;
    const hasSlot = this.inFlight < share.slots;
    if (hasSlot && (!isRetry || this.retriesInFlight < share.retrySlots)) return;
    this.lacksShare = true;
    this.holdForSlot(Number.POSITIVE_INFINITY, now);
  }

  /**
   * Adds planned permits to the batch until it has `most`, or a guard holds the next one. It is the same
   * as to `enter` one by one.
   */
  enterMany(
    batch: PermitBatch,
    request: AdmissionRequest,
    breaker: Breaker | undefined,
    now: number,
    aheadMs: number,
    most: number,
  ): void {
    while (batch.size < most) {
      const left = most - batch.size;
      if (batch.size > 0 && this.takeAlike(batch, request, breaker, now, aheadMs, left) > 0)
        continue;
      const permit = this.enter(request, breaker, now, aheadMs);
      if (permit === undefined) return;
      batch.permits.push(permit);
      batch.size++;
    }
  }

  /**
   * Takes more permits like the last one of the batch at once. Returns how many; 0 if there is none, or if
   * the guards decide for each call alone.
   */
  private takeAlike(
    batch: PermitBatch,
    request: AdmissionRequest,
    breaker: Breaker | undefined,
    now: number,
    aheadMs: number,
    most: number,
  ): number {
    const { adaptiveRate, throttle, concurrency } = this.currentGuards;
    const isOpen = breaker !== undefined && breaker.state !== "CLOSED";
    if (adaptiveRate !== undefined || throttle !== undefined || isOpen) return 0;
    const isRetry = request.kind !== "first";
    const room = Math.min(most, this.freeSlots(isRetry), this.freeTokens(now, aheadMs, most));
    let count = room;
    if (isRetry) count = this.takeTickets(batch, request, now, room);
    if (count <= 0) return 0;
    if (concurrency !== undefined) takeSlots(concurrency, isRetry, now, count);
    this.planned += count;
    this.count(request.kind, count);
    batch.counted += count;
    batch.size += count;
    return count;
  }

  private freeSlots(isRetry: boolean): number {
    const { share, inFlight, retriesInFlight } = this;
    const { concurrency } = this.currentGuards;
    if (concurrency === undefined) return Number.POSITIVE_INFINITY;
    const free = freeSlots(concurrency, isRetry);
    if (share === undefined) return free;
    const ownFree = Math.min(free, share.slots - inFlight);
    return isRetry ? Math.min(ownFree, share.retrySlots - retriesInFlight) : ownFree;
  }

  /** How many tokens of the rate there are within `aheadMs`, at most `most`. */
  private freeTokens(now: number, aheadMs: number, most: number): number {
    const { share, planned } = this;
    const { rate } = this.currentGuards;
    if (rate === undefined) return most;
    const readyAt = (before: number) => {
      const ownAt = rateReadyAt(rate, now, before);
      if (share === undefined) return ownAt;
      return Math.max(ownAt, tokenReadyAt(share.rate, rate.options.burst, now, before));
    };
    let count = 0;
    while (count < most && readyAt(planned + count) - aheadMs <= now) count++;
    return count;
  }

  /** Takes retry tokens for at most `most` retries. */
  private takeTickets(
    { tickets }: PermitBatch,
    request: AdmissionRequest,
    now: number,
    most: number,
  ): number {
    const { throttled } = request;
    const mayTry = maySendTrial(request);
    let count = 0;
    while (count < most && this.tokens.readyAt(now, throttled, mayTry) <= now) {
      const holder: RetryTickets = { ticket: 0, serviceTicket: 0, budget: undefined };
      this.tokens.take(holder, true, now, throttled, mayTry);
      tickets.push(holder);
      count++;
    }
    return count;
  }

  /** The next permit of the batch, which must have one. Those that took a retry token come first. */
  takeFrom(batch: PermitBatch): Permit {
    const { permits, tickets } = batch;
    batch.size--;
    if (batch.counted === 0 || batch.like === undefined) {
      batch.like = permits.shift() as Permit;
      return batch.like;
    }
    batch.counted--;
    const { kind, patient, pass, takenAt, guards } = batch.like;
    const permit = createPermit(kind, patient, pass, takenAt, NO_TOKEN, guards, NO_DRAW);
    return Object.assign(permit, tickets.shift());
  }

  /** The other permits of the batch are not used. */
  handBackAll(batch: PermitBatch, breaker: Breaker | undefined, now: number): void {
    const { permits, counted, tickets } = batch;
    batch.size = 0;
    // The latest first, so that the throttle reuses its random draws in their original order.
    for (let one = permits.pop(); one !== undefined; one = permits.pop()) {
      this.handBack(one, breaker, now);
    }
    if (counted === 0) return;
    const { concurrency } = this.guards;
    batch.counted = 0;
    this.planned -= counted;
    this.count(batch.kind, -counted);
    if (concurrency !== undefined) returnSlots(concurrency, batch.kind !== "first", counted);
    for (const holder of tickets.splice(0)) this.tokens.handBack(holder, true);
  }

  private trip(breaker: Breaker, now: number): void {
    if (breaker.generation !== this.generation) {
      this.generation = breaker.generation;
      this.closedAt = breaker.openUntil > 0 ? now : this.closedAt;
    }
    if (now - this.closedAt >= FORGET_MS) tripTogether(breaker, now, this.others, this.draw);
  }
}

/**
 * When a reserved token may be used, after those of `before` other permits; Infinity: no such token is
 * left.
 */
function tokenReadyAt(
  reserved: readonly ReservedTokens[],
  burst: number,
  now: number,
  before: number,
): number {
  let left = before;
  for (const tokens of reserved) {
    dropExpired(tokens, burst, now);
    const { startAt, intervalMs, count, used } = tokens;
    if (used + left < count) return Math.max(now, Math.ceil(startAt + (used + left) * intervalMs));
    left -= count - used;
  }
  return Number.POSITIVE_INFINITY;
}

/**
 * A token that is older than a burst has expired, as in a bucket that is full. It is kept for a second
 * at least: a claim takes time. The node's own rate guard keeps late tokens apart from each other.
 */
function dropExpired(tokens: ReservedTokens, burst: number, now: number): void {
  const { startAt, intervalMs, count } = tokens;
  const keptMs = Math.max(KEPT_MS, (burst - 1) * intervalMs);
  const expired = Math.ceil((now - startAt - keptMs) / intervalMs);
  tokens.used = Math.max(tokens.used, Math.min(count, expired));
}

// How much of a limit that several nodes share one node asks for. Nodes that need more than an equal part
// get equal parts, and an unused part is available to the others. A ledger grants at most what is left, so
// the sum never exceeds the limit, however old the reports of the others are.

export interface SlotDemand {
  /** The limit of all nodes together. */
  readonly limit: number;
  /** The attempts that this node would like to run at once. */
  readonly demand: number;
  /** The other nodes with a demand, and the sum of their demands. */
  readonly demanding: number;
  readonly othersDemand: number;
  /** The other nodes without a demand. */
  readonly idle: number;
  /** How long this node has had a slot of a limit that is smaller than the number of nodes. */
  readonly heldMs: number;
}

/** Idle nodes may find this share of the limit, so that their next task need not wait. */
const SPARE_SHARE = 1 / 8;

/** A node leaves a slot that others need to them after this time. */
const MAX_HELD_MS = 2000;

/** The number of slots to ask for. */
export function wantedSlots({
  limit,
  demand,
  demanding,
  othersDemand,
  idle,
  heldMs,
}: SlotDemand): number {
  const spare = Math.min(idle, Math.floor(limit * SPARE_SHARE));
  if (demanding === 0) return Math.min(demand, limit - spare);
  if (isScarce(limit, demanding)) return heldMs >= MAX_HELD_MS ? 0 : Math.min(1, demand);
  // Units that cannot be divided go to the node that asks first.
  const equalPart = Math.ceil(limit / (demanding + 1));
  return Math.min(demand, Math.max(equalPart, limit - spare - othersDemand));
}

/** Are there fewer slots than nodes that need one? */
function isScarce(limit: number, demanding: number): boolean {
  return limit <= demanding;
}

/**
 * Can a node use a token of a rate? While there are fewer slots than nodes that need one, only with a slot:
 * tokens of the others would leave none to the node that has it, and nothing would be sent. `held`: the
 * slots of this node.
 */
export function canUseToken(limit: number, held: number, demanding: number): boolean {
  return held > 0 || !isScarce(limit, demanding);
}

/** The number of tokens of a rate to ask for, for the next exchange. */
export function wantedTokens(perSecond: number, demand: number, demanding: number): number {
  if (demand === 0) return 0;
  return Math.max(1, Math.ceil(perSecond / (demanding + 1)));
}

/**
 * The planned permits of one claim of the service. It learns later how many tasks there are, so most permits
 * are only counted, and made when their tasks are known.
 */
export class PermitBatch {
  /** Taken one by one: the first one, and those of guards that decide for each call alone. */
  readonly permits: Permit[] = [];
  readonly kind: AttemptKind;
  /** Permits like the first one. */
  counted = 0;
  /** All permits. */
  size = 0;
  /** Of retries: what each of those that are counted has taken. */
  readonly tickets: RetryTickets[] = [];
  /** The first one, once it is in use. */
  like: Permit | undefined = undefined;

  constructor(kind: AttemptKind) {
    this.kind = kind;
  }
}
