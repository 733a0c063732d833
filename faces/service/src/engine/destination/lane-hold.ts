/** Lane hold: which guard holds the tasks of a lane, since when, and which guard held them before. */
import type { HoldReason } from "@redrive/core";

/** A guard holds the tasks of a lane. */
export interface Hold {
  readonly by: HoldReason;
  readonly since: number;
  /** The other guard that held them before, if any. Its own `before` is undefined. */
  readonly before: Hold | undefined;
}

/** The part of a lane that records holds. */
export interface HoldableLane {
  readonly dueAt: number;
  /** The last hold of the lane's earliest task; undefined: none yet. */
  hold: Hold | undefined;
  /** When that hold ended; Infinity while it lasts. */
  heldUntil: number;
}

/** Records that a guard holds the earliest task. Several findings in a row are one hold. */
export function holdLane(lane: HoldableLane, by: HoldReason, now: number): void {
  const last = holdOf(lane, lane.dueAt);
  const before = last && { by: last.by, since: last.since, before: undefined };
  lane.hold = last?.by === by ? last : { by, since: now, before };
  lane.heldUntil = Number.POSITIVE_INFINITY;
}

/** Records that the earliest task of the lane has a permit. */
export function endHold(lane: HoldableLane, now: number): void {
  lane.heldUntil = Math.min(lane.heldUntil, now);
}

/**
 * The hold of a task that was claimed when the hold ended; undefined: the task was due later. A hold
 * that ended at once held nothing: another lane had taken more permits than it had tasks.
 */
export function holdOf(
  { hold, heldUntil }: Pick<HoldableLane, "hold" | "heldUntil">,
  dueAt: number,
): Hold | undefined {
  if (hold === undefined || dueAt >= heldUntil) return undefined;
  return hold.since < heldUntil ? hold : hold.before;
}

/** The guard that held at that instant. */
export function guardAt(hold: Hold, at: number): HoldReason {
  const { by, since, before } = hold;
  return at < since && before !== undefined ? before.by : by;
}
