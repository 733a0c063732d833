/**
 * Scheduler: decides which lanes to claim from, and when to check again. It stores no tasks, only
 * lanes by the instant at which their earliest task is due and permitted. Its memory grows with the
 * number of destinations and its work with the number of due lanes, so a slow, failing or held
 * destination costs the other destinations nothing.
 */
import { assertRange, type Permit } from "@redrive/core";
import type { ClaimResult } from "../../model/batch.ts";
import type { DestinationLane, DestinationRuntime } from "../destination/destination-runtime.ts";
import { endHold, holdLane } from "../destination/lane-hold.ts";
import { isDueBefore, isReady, siblingOf } from "../destination/waiting-lane.ts";
import { claimCapacity, ONE_SUSPECT } from "./claim-capacity.ts";
import { LaneHeap } from "./lane-heap.ts";
import type { PlannedClaim } from "./planned-claim.ts";

/** Further lanes wait for the next commit. */
const MAX_LANES = 64;

/**
 * A lane is checked this long before its earliest task is due, so that the commit of the claim,
 * including a slow fsync, ends in time. Tasks that are due soon after are claimed in the same
 * commit, so that there is a commit every few milliseconds and not one per task.
 */
const CHECK_AHEAD_MS = 5;
const CLAIM_AHEAD_MS = 8;
const MAX_CLAIM_AHEAD_MS = 1000;

export class Scheduler {
  readonly #heap = new LaneHeap();
  /** Suspects wait for each other and not for other tasks, so their lanes have their own heap. */
  readonly #suspects = new LaneHeap();
  readonly #checkAheadMs: number;
  readonly #claimAheadMs: number;
  /**
   * Tasks that are due later are not recorded: `StoreSync` moves the horizon and then reads them
   * from the store, so memory grows only with what is due soon.
   */
  horizonAt: number = Number.POSITIVE_INFINITY;

  /** `claimAheadMs`: how long before its due instant a task may be claimed. 0 to 1000. */
  constructor(claimAheadMs = CLAIM_AHEAD_MS) {
    assertRange("claimAheadMs", claimAheadMs, 0, MAX_CLAIM_AHEAD_MS);
    this.#claimAheadMs = claimAheadMs;
    this.#checkAheadMs = Math.min(CHECK_AHEAD_MS, claimAheadMs);
  }

  /** A task of the lane is due at that instant. */
  expectDueAt(lane: DestinationLane, dueAt: number): void {
    if (dueAt >= lane.dueAt || dueAt > this.horizonAt) return;
    lane.dueAt = dueAt;
    this.#schedule(lane);
  }

  /**
   * May a new task that is due at `dueAt` start at once, or do older tasks wait for the same permit?
   * A retry that a guard holds does not block it, and neither does a suspect.
   */
  mayStartNow({ lanes }: DestinationRuntime, dueAt: number, now: number): boolean {
    const { first, retry } = lanes;
    if (first.dueAt <= now) return false;
    return retry.dueAt >= Math.min(dueAt, now) || retry.blocked || retry.parked;
  }

  /**
   * Takes permits for tasks that are due now or soon, at most `limit`. With `withSuspect`, one of
   * them may be a suspect. It comes first, so that a busy destination cannot starve it. When it ends,
   * its permit goes to another task, because the next suspect waits until the end is committed. The
   * other lanes share the limit equally, so that a deep lane leaves room for those after it.
   */
  planClaims(now: number, limit: number, withSuspect: boolean): readonly PlannedClaim[] {
    const claims: PlannedClaim[] = [];
    const postponed: DestinationLane[] = [];
    const suspect = withSuspect ? this.#planSuspect(now) : undefined;
    if (suspect !== undefined) claims.push(suspect);
    let left = limit - claims.length;
    while (left > 0 && claims.length < MAX_LANES) {
      const due = this.#takeDue(now, Math.min(left, MAX_LANES - claims.length));
      if (due.length === 0) break;
      for (const [index, next] of due.entries()) {
        const share = Math.floor(left / (due.length - index));
        const claim = this.#planTurn(next, share, now, postponed);
        if (claim === undefined) continue;
        claims.push(claim);
        left -= claim.permits.length;
      }
    }
    for (const lane of postponed) this.#heap.push(lane, now);
    return claims;
  }

  /** The turn of a lane. If it must wait for the commit of its sibling, it is added to `postponed`. */
  #planTurn(
    next: DestinationLane,
    share: number,
    now: number,
    postponed: DestinationLane[],
  ): PlannedClaim | undefined {
    // It was due before its sibling, and has already been claimed in the sibling's turn.
    if (next.isClaimed) return undefined;
    const lane = this.#firstOf(next, now);
    lane.parked = false;
    if (!mustWaitForSibling(lane)) return this.#planClaim(lane, share, now);
    postponed.push(lane);
    return undefined;
  }

  /** A claim of the first due suspect whose destination admits it. */
  #planSuspect(now: number): PlannedClaim | undefined {
    let claim: PlannedClaim | undefined;
    while (claim === undefined) {
      const lane = this.#suspects.take(now);
      if (lane === undefined) return undefined;
      lane.parked = false;
      claim = this.#planClaim(lane, 1, now);
    }
    return claim;
  }

  /** The lanes that are due, in the order of their turns. */
  #takeDue(now: number, max: number): readonly DestinationLane[] {
    const lanes: DestinationLane[] = [];
    while (lanes.length < max) {
      const lane = this.#heap.take(now);
      if (lane === undefined) break;
      lanes.push(lane);
    }
    return lanes;
  }

  /** If both lanes of a destination are ready, the one whose task was due first. */
  #firstOf(lane: DestinationLane, now: number): DestinationLane {
    const sibling = siblingOf(lane);
    if (sibling === undefined || sibling.isClaimed || !isReady(sibling, now)) return lane;
    if (!isDueBefore(sibling, lane)) return lane;
    this.#heap.push(lane, now);
    sibling.stamp++;
    sibling.turnAt = lane.turnAt;
    sibling.turn = lane.turn;
    return sibling;
  }

  /** Due tasks may take every permit; tasks that are due soon take only spare ones. */
  #planClaim(lane: DestinationLane, left: number, now: number): PlannedClaim | undefined {
    const capacity = isSuspect(lane) ? ONE_SUSPECT : claimCapacity(lane.destination.guards);
    const aheadMs = this.#claimAheadMs;
    const ahead = aheadMs === 0 ? 0 : capacity.ahead;
    const available = lane.dueAt <= now ? capacity.due : ahead;
    if (available === 0) {
      this.#push(lane, lane.dueAt);
      return undefined;
    }
    const wanted = Math.min(left, available);
    const permits = this.#takePermits(lane, wanted, now);
    if (permits.length === 0) return undefined;
    lane.isClaimed = true;
    const sibling = siblingOf(lane);
    const isScarce = permits.length < wanted && sibling !== undefined && isReady(sibling, now);
    if (!isScarce) return { lane, permits, ahead, aheadMs };
    // Permits are scarce: no task of this lane may overtake an older task of the other lane.
    const dueBy = lane.lane === "first" ? sibling.dueAt : sibling.dueAt - 1;
    return { lane, permits, ahead: 0, aheadMs: Math.min(0, dueBy - now) };
  }

  #takePermits(lane: DestinationLane, max: number, now: number): Permit[] {
    const permits: Permit[] = [];
    while (permits.length < max) {
      const permit = lane.destination.takePermit(lane.lane !== "first", now);
      if (permit === undefined) break;
      permits.push(permit);
    }
    if (permits.length === 0) this.#park(lane, now);
    else endHold(lane, now);
    return permits;
  }

  #park(lane: DestinationLane, now: number): void {
    const { readyAt, heldBy } = lane.destination;
    holdLane(lane, heldBy, now);
    if (Number.isFinite(readyAt)) {
      if (!lane.parked || lane.parkedUntil !== readyAt) this.#push(lane, readyAt);
      lane.parked = true;
      lane.parkedUntil = readyAt;
    } else {
      lane.stamp++;
      lane.parked = false;
      lane.blocked = true;
    }
  }

  /** The claim was committed. The result says when the next task of the lane is due. */
  recordClaimed({ lane }: PlannedClaim, { nextDueAt }: ClaimResult): void {
    lane.isClaimed = false;
    const isKnown = nextDueAt !== null && nextDueAt <= this.horizonAt;
    lane.dueAt = isKnown ? nextDueAt : Number.POSITIVE_INFINITY;
    this.#schedule(lane);
  }

  /** The claim was not made. */
  recordUnclaimed({ lane }: PlannedClaim): void {
    lane.isClaimed = false;
    this.#schedule(lane);
  }

  /**
   * Something changed at a destination. Blocked lanes are checked again. Lanes that wait for an
   * instant are released if they would be admitted now, for example after the probe of a breaker
   * succeeded or a guard was removed.
   */
  unblock(destination: DestinationRuntime, now: number): void {
    for (const lane of Object.values(destination.lanes)) {
      const isHeld = lane.parked && !destination.wouldAdmit(lane.lane !== "first", now);
      // The guard that holds the lane, and its end, may have changed too.
      if (isHeld) this.#park(lane, now);
      else if (lane.blocked || lane.parked) this.#schedule(lane);
    }
  }

  /** When the next lane is to be checked; Infinity when no lane waits. */
  nextAt(withSuspect: boolean): number {
    const at = this.#heap.nextAt();
    return withSuspect ? Math.min(at, this.#suspects.nextAt()) : at;
  }

  /** A lane of suspects is not checked early, because suspects are not claimed ahead of time. */
  #schedule(lane: DestinationLane): void {
    if (!Number.isFinite(lane.dueAt)) return;
    this.#push(lane, isSuspect(lane) ? lane.dueAt : lane.dueAt - this.#checkAheadMs);
  }

  #push(lane: DestinationLane, at: number): void {
    (isSuspect(lane) ? this.#suspects : this.#heap).push(lane, at);
  }
}

function isSuspect({ lane }: DestinationLane): boolean {
  return lane === "suspect";
}

/**
 * Where each call has its own instant (rates, a throttle), permits are taken one by one. The next
 * permit goes to the lane that is then due first, so a lane waits while its sibling is claimed.
 */
function mustWaitForSibling(lane: DestinationLane): boolean {
  const isOneByOne = claimCapacity(lane.destination.guards).due === 1;
  return isOneByOne && siblingOf(lane)?.isClaimed === true;
}
