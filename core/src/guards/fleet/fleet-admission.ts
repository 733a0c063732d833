/**
 * Fleet admission: the admission of a node that shares a destination's limits with other nodes. In
 * addition to its own guards it obeys the node's shares of the limits, and its breaker counts the calls
 * of all nodes.
 */

import type { Outcome, Verdict } from "../../decide/outcome.ts";
import type { Policy } from "../../policy/policy.ts";
import { Admission } from "../admission/admission.ts";
import type { AdmissionRequest, Permit } from "../admission/permit.ts";
import { type Breaker, type CallCounts, tripTogether } from "../breaker.ts";

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
    // The latest one with a used token: none of its instants has passed before those of the others.
    const tokens = this.share?.rate.findLast(({ used }) => used > 0);
    if (tokens !== undefined) tokens.used--;
  }

  protected override take(
    request: AdmissionRequest,
    breaker: Breaker | undefined,
    now: number,
    draw: number,
  ): Permit {
    const tokens = this.share?.rate.find(({ used, count }) => used < count);
    if (tokens !== undefined) tokens.used++;
    return super.take(request, breaker, now, draw);
  }

  protected override checkRates(now: number): void {
    super.checkRates(now);
    const { share } = this;
    const { rate } = this.guards;
    if (share === undefined || rate === undefined) return;
    const readyAt = tokenReadyAt(share.rate, rate.options.burst, now);
    this.lacksShare ||= readyAt === Number.POSITIVE_INFINITY;
    if (readyAt > now) this.holdUntil("rate", readyAt);
  }

  protected override checkSlot(isRetry: boolean): void {
    super.checkSlot(isRetry);
    const { share, guards } = this;
    if (share === undefined || guards.concurrency === undefined) return;
    const hasSlot = this.inFlight < share.slots;
    if (hasSlot && (!isRetry || this.retriesInFlight < share.retrySlots)) return;
    this.lacksShare = true;
    this.holdUntil("concurrency", Number.POSITIVE_INFINITY);
  }

  private trip(breaker: Breaker, now: number): void {
    if (breaker.generation !== this.generation) {
      this.generation = breaker.generation;
      this.closedAt = breaker.openUntil > 0 ? now : this.closedAt;
    }
    if (now - this.closedAt >= FORGET_MS) tripTogether(breaker, now, this.others, this.draw);
  }
}

/** When the next reserved token may be used; Infinity: none is left. */
function tokenReadyAt(reserved: readonly ReservedTokens[], burst: number, now: number): number {
  for (const tokens of reserved) {
    dropExpired(tokens, burst, now);
    const { startAt, intervalMs, count, used } = tokens;
    if (used < count) return Math.max(now, Math.ceil(startAt + used * intervalMs));
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
