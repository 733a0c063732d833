/** Waiting lane: the tasks of a destination that wait in one lane, as far as this node knows. */
import type { HoldReason } from "@redrive/core";
import type { Lane } from "../../model/task.ts";
import type { DestinationRuntime } from "./destination-runtime.ts";

export interface WaitingLane {
  readonly destination: DestinationRuntime;
  readonly lane: Lane;
  /** When the earliest of them is due; Infinity when none waits. */
  dueAt: number;
  /** Entries of the scheduler's heap with an older one are stale. */
  stamp: number;
  /** It is due, or soon is, but only a change at the destination lets it go on. */
  blocked: boolean;
  /** Likewise, but it waits for an instant, unless such a change lets it go on before. */
  parked: boolean;
  parkedUntil: number;
  /** A claim of it is being committed: which of its tasks is next is not known. */
  isClaimed: boolean;
  /** What held its earliest task last; undefined: nothing has yet. */
  hold: Hold | undefined;
  /** When that hold ended; Infinity while it lasts. */
  heldUntil: number;
}

/** A guard holds the tasks of a lane. */
export interface Hold {
  readonly by: HoldReason;
  readonly since: number;
  /** The other guard that held them before; undefined: none did. It has no `before` itself. */
  readonly before: Hold | undefined;
}

/** First attempts and retries compete for the same permits. */
export function siblingOf({ destination, lane }: WaitingLane): WaitingLane | undefined {
  if (lane === "alone") return undefined;
  return destination.lanes[lane === "first" ? "retry" : "first"];
}

/** A task of the lane is due, and no guard is known to hold it. */
export function isReady(
  { dueAt, blocked, parked, parkedUntil }: WaitingLane,
  now: number,
): boolean {
  return dueAt <= now && !blocked && (!parked || parkedUntil <= now);
}

/** Which of two lanes goes first: the one whose task was due first; first attempts before retries. */
export function isDueBefore(one: WaitingLane, other: WaitingLane): boolean {
  if (one.dueAt !== other.dueAt) return one.dueAt < other.dueAt;
  return one.lane === "first";
}

/** The earliest task of the lane was found to be held. Several findings in a row are one hold. */
export function holdLane(lane: WaitingLane, by: HoldReason, now: number): void {
  const last = holdOf(lane, lane.dueAt);
  const before = last && { by: last.by, since: last.since, before: undefined };
  lane.hold = last?.by === by ? last : { by, since: now, before };
  lane.heldUntil = Number.POSITIVE_INFINITY;
}

/** The earliest task of the lane has a permit. */
export function endHold(lane: WaitingLane, now: number): void {
  lane.heldUntil = Math.min(lane.heldUntil, now);
}

/**
 * What held a task of the lane that was claimed when the hold ended; undefined: it was due later. A
 * hold that ended at once held nothing: another lane had taken more permits than it had tasks.
 */
export function holdOf({ hold, heldUntil }: WaitingLane, dueAt: number): Hold | undefined {
  if (hold === undefined || dueAt >= heldUntil) return undefined;
  return hold.since < heldUntil ? hold : hold.before;
}

/** The guard that held at that instant. */
export function guardAt(hold: Hold, at: number): HoldReason {
  const { by, since, before } = hold;
  return at < since && before !== undefined ? before.by : by;
}

/** The lanes of a destination that nothing is known to wait for. */
export function createLanes(destination: DestinationRuntime): Readonly<Record<Lane, WaitingLane>> {
  const lane = (name: Lane): WaitingLane => ({
    destination,
    lane: name,
    dueAt: Number.POSITIVE_INFINITY,
    stamp: 0,
    blocked: false,
    parked: false,
    parkedUntil: 0,
    isClaimed: false,
    hold: undefined,
    heldUntil: 0,
  });
  return { first: lane("first"), retry: lane("retry"), alone: lane("alone") };
}
