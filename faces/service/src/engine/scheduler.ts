/**
 * Scheduler: which lanes to claim from, and when to look again. It keeps no tasks, only lanes by
 * the instant at which their earliest task is due and permitted, so its memory grows with
 * destinations and its work with what is due: a destination that is slow, dead or held costs the
 * others nothing.
 */
import { createHeap } from "../heap.ts";
import type { ClaimRequest, ClaimResult } from "../store.ts";
import { ALONE, claimRoomOf } from "./claim-room.ts";
import type { GuardedDestination, Permit } from "./guarded-destination.ts";
import type { WaitingLane } from "./waiting-lane.ts";

/** A claim to be made: permits in hand first, then the question to the store. */
export interface Pick {
  readonly lane: WaitingLane;
  readonly permits: Permit[];
  /** Of what falls due soon, so much is claimed with what is due. */
  readonly ahead: number;
}

interface Entry {
  readonly at: number;
  readonly lane: WaitingLane;
  readonly stamp: number;
  readonly sequence: number;
}

/** More lanes than this wait for the next turn. */
const MOST_LANES = 64;

/**
 * A lane is looked at so long before its earliest task is due that the commit of the claim, a slow
 * fsync included, is over by then; and what falls due soon after is claimed with it, so that there is
 * a commit every few milliseconds and not for each of them.
 */
const LOOK_AHEAD_MS = 5;
const CLAIM_AHEAD_MS = 8;

export class Scheduler {
  readonly #heap = createHeap<Entry>(
    (a, b) => a.at < b.at || (a.at === b.at && a.sequence < b.sequence),
  );
  #sequence = 0;
  /** A task that must run alone is due: nothing else is started until what runs has ended. */
  waitsForAlone = false;

  /** A task of the lane is due at that instant. */
  note(lane: WaitingLane, dueAt: number): void {
    if (dueAt >= lane.dueAt) return;
    lane.dueAt = dueAt;
    this.#expect(lane);
  }

  /** May a new task start at once, or do older ones wait for the same place? */
  mayStartNow({ lanes }: GuardedDestination, now: number): boolean {
    return !this.waitsForAlone && lanes.first.dueAt > now && lanes.alone.dueAt > now;
  }

  /** Takes permits for what is due or soon is, for at most `room` tasks; `running` are under way. */
  pick(now: number, room: number, running: number): readonly Pick[] {
    const picks: Pick[] = [];
    let left = room;
    let lane = this.#nextLane(now, running);
    while (lane !== undefined && left > 0 && picks.length < MOST_LANES) {
      this.#heap.pop();
      lane.parked = false;
      const taken = this.#pickFrom(lane, left, now);
      if (taken !== undefined) picks.push(taken);
      left -= taken?.permits.length ?? 0;
      if (lane.lane === "alone" && taken !== undefined) break;
      lane = this.#nextLane(now, running + picks.length);
    }
    return picks;
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
  #pickFrom(lane: WaitingLane, left: number, now: number): Pick | undefined {
    const { due, ahead } = lane.lane === "alone" ? ALONE : claimRoomOf(lane.destination.guards);
    const places = lane.dueAt <= now ? due : ahead;
    if (places === 0) {
      this.#push(lane, lane.dueAt);
      return undefined;
    }
    const permits = this.#permits(lane, Math.min(left, places), now);
    if (permits.length === 0) return undefined;
    return { lane, permits, ahead };
  }

  #permits(lane: WaitingLane, most: number, now: number): Permit[] {
    const permits: Permit[] = [];
    while (permits.length < most) {
      const permit = lane.destination.take(lane.lane !== "first", now);
      if (permit === undefined) break;
      permits.push(permit);
    }
    if (permits.length === 0) this.#park(lane, now);
    return permits;
  }

  #park(lane: WaitingLane, now: number): void {
    const { readyAt } = lane.destination;
    if (Number.isFinite(readyAt)) {
      this.#push(lane, readyAt);
      // Who would be let through was refused by chance (the throttle), and waits its time.
      lane.parked = !lane.destination.wouldAdmit(lane.lane !== "first", now);
    } else lane.blocked = true;
  }

  /** What the store answered; the next task of the lane is due then. */
  claimed({ lane }: Pick, { nextDueAt }: ClaimResult): void {
    lane.dueAt = nextDueAt ?? Number.POSITIVE_INFINITY;
    this.#expect(lane);
  }

  /** The claim was not made. */
  unclaimed({ lane }: Pick): void {
    this.#expect(lane);
  }

  /**
   * Something changed at a destination: lanes that nothing but that could help are looked at, and
   * those that wait for an instant need wait no longer if they would be let through now (the probe
   * of a breaker has succeeded, a guard was taken away).
   */
  unblock(destination: GuardedDestination, now: number): void {
    for (const lane of Object.values(destination.lanes)) {
      const isFree = lane.parked && destination.wouldAdmit(lane.lane !== "first", now);
      if (lane.blocked || isFree) this.#expect(lane);
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
    this.#push(lane, lane.lane === "alone" ? lane.dueAt : lane.dueAt - LOOK_AHEAD_MS);
  }

  #push(lane: WaitingLane, at: number): void {
    lane.blocked = false;
    lane.parked = false;
    this.#heap.push({ at, lane, stamp: ++lane.stamp, sequence: ++this.#sequence });
  }
}

export function requestOf({ lane, permits, ahead }: Pick, version: number): ClaimRequest {
  const { tenantId, name } = lane.destination;
  return {
    tenantId,
    destination: name,
    lane: lane.lane,
    limit: permits.length,
    aheadMs: ahead > 0 ? CLAIM_AHEAD_MS : 0,
    aheadLimit: ahead,
    version,
  };
}
