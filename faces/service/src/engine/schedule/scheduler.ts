/**
 * Scheduler: which lanes to claim from, and when to look again. It keeps no tasks, only lanes by
 * the instant at which their earliest task is due and permitted, so its memory grows with
 * destinations and its work with what is due: a destination that is slow, dead or held costs the
 * others nothing.
 */
import { assertRange, type Permit } from "@redrive/core";
import { createHeap } from "../../collections/heap.ts";
import type { ClaimRequest, ClaimResult } from "../../model/batch.ts";
import { LANES } from "../../model/task.ts";
import type { DestinationRuntime } from "../destination/destination-runtime.ts";
import {
  endHold,
  holdLane,
  isDueBefore,
  isReady,
  siblingOf,
  type WaitingLane,
} from "../destination/waiting-lane.ts";
import { ALONE, claimCapacity } from "./claim-capacity.ts";

/** A claim to be made: permits in hand first, then the question to the store. */
export interface PlannedClaim {
  readonly lane: WaitingLane;
  readonly permits: Permit[];
  /** Of what falls due soon, so much is claimed with what is due. */
  readonly ahead: number;
  /** How soon. Negative: only what has been due for so long, because another lane is next. */
  readonly aheadMs: number;
}

interface Entry {
  readonly at: number;
  /** Of its lane, when the entry was made. */
  readonly dueAt: number;
  readonly lane: WaitingLane;
  readonly stamp: number;
  readonly sequence: number;
}

/** More lanes than this wait for the next turn. */
const MAX_LANES = 64;

/**
 * A lane is looked at so long before its earliest task is due that the commit of the claim, a slow
 * fsync included, is over by then; and what falls due soon after is claimed with it, so that there is
 * a commit every few milliseconds and not for each of them.
 */
const LOOK_AHEAD_MS = 5;
const CLAIM_AHEAD_MS = 8;
const MAX_CLAIM_AHEAD_MS = 1000;

/** Of the lanes of one instant, the one whose task was due first; first attempts before retries. */
function isBefore(a: Entry, b: Entry): boolean {
  if (a.at !== b.at) return a.at < b.at;
  if (a.dueAt !== b.dueAt) return a.dueAt < b.dueAt;
  const rank = LANES.indexOf(a.lane.lane) - LANES.indexOf(b.lane.lane);
  return rank === 0 ? a.sequence < b.sequence : rank < 0;
}

export class Scheduler {
  readonly #heap = createHeap<Entry>(isBefore);
  readonly #lookAheadMs: number;
  readonly #claimAheadMs: number;
  #sequence = 0;
  /** A task that must run alone is due: nothing else is started until what runs has ended. */
  waitsForAlone = false;

  /** `claimAheadMs`: how long before they are due tasks may be claimed. 0 to 1000; 0: when due. */
  constructor(claimAheadMs = CLAIM_AHEAD_MS) {
    assertRange("claimAheadMs", claimAheadMs, 0, MAX_CLAIM_AHEAD_MS);
    this.#claimAheadMs = claimAheadMs;
    this.#lookAheadMs = Math.min(LOOK_AHEAD_MS, claimAheadMs);
  }

  /** A task of the lane is due at that instant. */
  expectDueAt(lane: WaitingLane, dueAt: number): void {
    if (dueAt >= lane.dueAt) return;
    lane.dueAt = dueAt;
    this.#expect(lane);
  }

  /**
   * May a new task that was due at `dueAt` start at once, or do older ones wait for the same place?
   * A retry that a guard holds is not in its way.
   */
  mayStartNow({ lanes }: DestinationRuntime, dueAt: number, now: number): boolean {
    const { first, retry, alone } = lanes;
    if (this.waitsForAlone || first.dueAt <= now || alone.dueAt <= now) return false;
    return retry.dueAt >= Math.min(dueAt, now) || retry.blocked || retry.parked;
  }

  /** Takes permits for what is due or soon is, for at most `room` tasks; `running` are under way. */
  planClaims(now: number, room: number, running: number): readonly PlannedClaim[] {
    const picks: PlannedClaim[] = [];
    const postponed: WaitingLane[] = [];
    let left = room;
    let next = this.#nextLane(now, running);
    while (next !== undefined && left > 0 && picks.length < MAX_LANES) {
      this.#heap.pop();
      const lane = this.#firstOf(next, now);
      lane.parked = false;
      const taken = isOutOfTurn(lane) ? undefined : this.#pickFrom(lane, left, now);
      if (taken !== undefined) picks.push(taken);
      else if (isOutOfTurn(lane)) postponed.push(lane);
      left -= taken?.permits.length ?? 0;
      if (lane.lane === "alone" && taken !== undefined) break;
      next = this.#nextLane(now, running + picks.length);
    }
    for (const lane of postponed) this.#push(lane, now);
    return picks;
  }

  /** Of two lanes of a destination that are ready, the one whose task was due first. */
  #firstOf(lane: WaitingLane, now: number): WaitingLane {
    const sibling = siblingOf(lane);
    if (sibling === undefined || sibling.isClaimed || !isReady(sibling, now)) return lane;
    if (!isDueBefore(sibling, lane)) return lane;
    this.#push(lane, now);
    sibling.stamp++;
    return sibling;
  }

  /** The next lane that is due. One that must be alone waits for all others, and they for it. */
  #nextLane(now: number, running: number): WaitingLane | undefined {
    const entry = this.#next();
    this.waitsForAlone = false;
    if (entry === undefined || entry.at > now) return undefined;
    const { lane } = entry;
    if (lane.lane === "alone" && running > 0) {
      this.waitsForAlone = lane.destination.wouldAdmit(true, now);
    }
    return this.waitsForAlone ? undefined : lane;
  }

  /** What is due takes any place, what soon will be only those that are to spare. */
  #pickFrom(lane: WaitingLane, left: number, now: number): PlannedClaim | undefined {
    const room = lane.lane === "alone" ? ALONE : claimCapacity(lane.destination.guards);
    const { due } = room;
    const aheadMs = this.#claimAheadMs;
    const ahead = aheadMs === 0 ? 0 : room.ahead;
    const places = lane.dueAt <= now ? due : ahead;
    if (places === 0) {
      this.#push(lane, lane.dueAt);
      return undefined;
    }
    const wanted = Math.min(left, places);
    const permits = this.#permits(lane, wanted, now);
    if (permits.length === 0) return undefined;
    lane.isClaimed = true;
    const sibling = siblingOf(lane);
    const isScarce = permits.length < wanted && sibling !== undefined && isReady(sibling, now);
    if (!isScarce) return { lane, permits, ahead, aheadMs };
    // Permits are scarce: no task of this lane may pass an older one of the other.
    const dueBy = lane.lane === "first" ? sibling.dueAt : sibling.dueAt - 1;
    return { lane, permits, ahead: 0, aheadMs: Math.min(0, dueBy - now) };
  }

  #permits(lane: WaitingLane, most: number, now: number): Permit[] {
    const permits: Permit[] = [];
    while (permits.length < most) {
      const permit = lane.destination.takePermit(lane.lane !== "first", now);
      if (permit === undefined) break;
      permits.push(permit);
    }
    if (permits.length === 0) this.#park(lane, now);
    else endHold(lane, now);
    return permits;
  }

  #park(lane: WaitingLane, now: number): void {
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

  /** What the store answered; the next task of the lane is due then. */
  claimed({ lane }: PlannedClaim, { nextDueAt }: ClaimResult): void {
    lane.isClaimed = false;
    lane.dueAt = nextDueAt ?? Number.POSITIVE_INFINITY;
    this.#expect(lane);
  }

  /** The claim was not made. */
  unclaimed({ lane }: PlannedClaim): void {
    lane.isClaimed = false;
    this.#expect(lane);
  }

  /**
   * Something changed at a destination: lanes that nothing but that could help are looked at, and
   * those that wait for an instant need wait no longer if they would be let through now (the probe
   * of a breaker has succeeded, a guard was taken away).
   */
  unblock(destination: DestinationRuntime, now: number): void {
    for (const lane of Object.values(destination.lanes)) {
      const isHeld = lane.parked && !destination.wouldAdmit(lane.lane !== "first", now);
      // What holds it, and until when, may have changed as well.
      if (isHeld) this.#park(lane, now);
      else if (lane.blocked || lane.parked) this.#expect(lane);
    }
  }

  /** When there is something to do again; undefined when nothing waits. */
  nextAt(): number | undefined {
    return this.#next()?.at;
  }

  /** The earliest entry that still holds. */
  #next(): Entry | undefined {
    for (let top = this.#heap.peek(); top !== undefined; top = this.#heap.peek()) {
      if (top.stamp === top.lane.stamp) return top;
      this.#heap.pop();
    }
    return undefined;
  }

  /** Its earliest task is known. One that must be alone keeps the others waiting, so not before. */
  #expect(lane: WaitingLane): void {
    if (!Number.isFinite(lane.dueAt)) return;
    this.#push(lane, lane.lane === "alone" ? lane.dueAt : lane.dueAt - this.#lookAheadMs);
  }

  #push(lane: WaitingLane, at: number): void {
    lane.blocked = false;
    lane.parked = false;
    const { dueAt } = lane;
    this.#heap.push({ at, dueAt, lane, stamp: ++lane.stamp, sequence: ++this.#sequence });
  }
}

/**
 * Where each call has its instant (rates, a throttle), permits are taken one by one, and the next is
 * for whichever lane is then due first.
 */
function isOutOfTurn(lane: WaitingLane): boolean {
  const isOneByOne = claimCapacity(lane.destination.guards).due === 1;
  return isOneByOne && siblingOf(lane)?.isClaimed === true;
}

export function claimRequestOf(
  { lane, permits, ahead, aheadMs }: PlannedClaim,
  version: number,
): ClaimRequest {
  const { tenantId, name } = lane.destination;
  return {
    tenantId,
    destination: name,
    lane: lane.lane,
    limit: permits.length,
    aheadMs: ahead > 0 ? aheadMs : Math.min(0, aheadMs),
    aheadLimit: ahead,
    version,
  };
}
