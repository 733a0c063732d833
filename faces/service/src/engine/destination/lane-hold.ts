/** Lane hold: which guard holds the tasks of a lane, since when, and which guards held them before. */
import type { HoldReason } from "@redrive/core";

/** Guards that hold a lane in turn. Of more, the two oldest become one. */
export const MAX_HOLDS = 8;

/** A guard holds the tasks of a lane. */
export interface Hold {
  readonly by: HoldReason;
  readonly since: number;
  /** The other guard that held them until then, if any. At most `MAX_HOLDS` in total. */
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
  lane.hold = last?.by === by ? last : { by, since: now, before: last && trimmed(last, lane, now) };
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
  let found = hold;
  while (at < found.since && found.before !== undefined) found = found.before;
  return found.by;
}

/**
 * The holds that still matter to the earliest task of the lane, so that a lane that two guards hold in
 * turn for hours keeps few of them.
 */
function trimmed(hold: Hold, { dueAt }: HoldableLane, now: number): Hold {
  const holds: Hold[] = [];
  for (let one: Hold | undefined = hold; one !== undefined; one = one.before) {
    holds.push(one);
    if (one.since <= dueAt) break;
  }
  if (holds.length === MAX_HOLDS) mergeOldest(holds, now);
  return holds.reduceRight<Hold | undefined>(
    (before, { by, since }) => ({ by, since, before }),
    undefined,
  ) as Hold;
}

/** The guard that held longer stands for both. `holds`: the latest first. */
function mergeOldest(holds: Hold[], now: number): void {
  const oldest = holds.pop() as Hold;
  const next = holds.pop() as Hold;
  const endAt = holds.at(-1)?.since ?? now;
  const by = next.since - oldest.since >= endAt - next.since ? oldest.by : next.by;
  holds.push({ by, since: oldest.since, before: undefined });
}
