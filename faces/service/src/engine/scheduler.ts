/**
 * Scheduler: which lanes to claim from, and when to look again. It keeps no tasks, only lanes by
 * the instant at which their earliest task is due and permitted, so its memory grows with
 * destinations and its work with what is due: a destination that is slow, dead or held costs the
 * others nothing.
 */
import { createHeap } from "../heap.ts";
import type { ClaimRequest, ClaimResult } from "../store.ts";
import type { GuardedDestination, Permit } from "./guarded-destination.ts";
import type { WaitingLane } from "./waiting-lane.ts";

/** A claim to be made: permits in hand first, then the question to the store. */
export interface Pick {
  readonly lane: WaitingLane;
  readonly permits: Permit[];
}

interface Entry {
  readonly at: number;
  readonly lane: WaitingLane;
  readonly stamp: number;
  readonly sequence: number;
}

/** More lanes than this wait for the next turn. */
const MOST_LANES = 64;

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
    this.#push(lane, dueAt);
  }

  /** May a new task start at once, or do older ones wait for the same place? */
  mayStartNow({ lanes }: GuardedDestination, now: number): boolean {
    return !this.waitsForAlone && lanes.first.dueAt > now && lanes.alone.dueAt > now;
  }

  /** Takes permits for what is due, for at most `room` tasks; `running` are under way here. */
  pick(now: number, room: number, running: number): readonly Pick[] {
    const picks: Pick[] = [];
    let left = room;
    let lane = this.#nextLane(now, running);
    while (lane !== undefined && left > 0 && picks.length < MOST_LANES) {
      this.#heap.pop();
      lane.parked = false;
      const permits = this.#permits(lane, left, now);
      if (permits.length > 0) picks.push({ lane, permits });
      left -= permits.length;
      if (lane.lane === "alone" && permits.length > 0) break;
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

  #permits(lane: WaitingLane, left: number, now: number): Permit[] {
    const { destination } = lane;
    const wanted = lane.lane === "alone" ? 1 : Math.min(left, destination.mostPermits());
    const permits: Permit[] = [];
    while (permits.length < wanted) {
      const permit = destination.take(lane.lane !== "first", now);
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
    if (nextDueAt !== null) this.#push(lane, nextDueAt);
  }

  /** The claim was not made. */
  unclaimed({ lane }: Pick): void {
    if (Number.isFinite(lane.dueAt)) this.#push(lane, lane.dueAt);
  }

  /**
   * Something changed at a destination: lanes that nothing but that could help are looked at, and
   * those that wait for an instant need wait no longer if they would be let through now (the probe
   * of a breaker has succeeded, a guard was taken away).
   */
  unblock(destination: GuardedDestination, now: number): void {
    for (const lane of Object.values(destination.lanes)) {
      const isFree = lane.parked && destination.wouldAdmit(lane.lane !== "first", now);
      if (lane.blocked || isFree) this.#push(lane, lane.dueAt);
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

  #push(lane: WaitingLane, at: number): void {
    lane.blocked = false;
    lane.parked = false;
    this.#heap.push({ at, lane, stamp: ++lane.stamp, sequence: ++this.#sequence });
  }
}

export function requestOf({ lane, permits }: Pick, version: number): ClaimRequest {
  const { tenantId, name } = lane.destination;
  return { tenantId, destination: name, lane: lane.lane, limit: permits.length, version };
}
