/**
 * Waiting lane: the tasks of a destination that wait in one lane, as far as this node knows. A lane
 * stores no tasks, only when the earliest one is due, what the lane does now, and what holds it.
 */
import type { HoldReason } from "@redrive/core";
import { LANES, type Lane } from "../model/task.ts";

/** `Destination` is a type parameter so that this file does not import the destination. */
export interface WaitingLane<Destination = unknown> extends HoldableLane {
  readonly destination: Destination;
  readonly lane: Lane;
  /** When the earliest task is due; Infinity when no task waits. */
  dueAt: number;
  /** The same by partition; undefined in a store with one partition. */
  dueAts: Map<number, number> | undefined;
  /** Changed only by the functions of this file. */
  state: LaneState;
  /** Entries of the scheduler's heap with an older stamp are stale. */
  stamp: number;
  /** The number of its last turn in the scheduler. */
  turn: number;
  /** The origin of its latest known task; undefined: not known yet. */
  origin: string | undefined;
  /** A slot of this origin was taken for it. */
  slotOf: string | undefined;
  /**
   * The instants by partition that become known while a claim is being committed in a shared store. The
   * claim may have read the store before. Undefined: no claim is being committed.
   */
  arrivals: Map<number, number> | undefined;
}

/**
 * What a lane does. `idle`: no task is known. `due`: the scheduler checks it when its task is due.
 * `claiming`: a claim is being committed, so the next task is not known. `waiting`: a task is due or soon
 * will be, and a guard of the destination or the limit of its origin holds it. A guard holds it until
 * `until`, unless a change at the destination frees it earlier; Infinity: only such a change does.
 */
interface LaneState {
  readonly kind: "idle" | "due" | "claiming" | "waiting";
  readonly for: "guard" | "slot" | undefined;
  readonly until: number;
}

const IDLE: LaneState = { kind: "idle", for: undefined, until: 0 };
const DUE: LaneState = { kind: "due", for: undefined, until: 0 };
const CLAIMING: LaneState = { kind: "claiming", for: undefined, until: 0 };
const FOR_SLOT: LaneState = { kind: "waiting", for: "slot", until: Number.POSITIVE_INFINITY };

/** The scheduler has a place for it, or has just taken it from there. */
export function setDue(lane: WaitingLane): void {
  lane.state = DUE;
}

/** It has no task, or none that this node may claim. Its place with the scheduler is void. */
export function setIdle(lane: WaitingLane): void {
  lane.stamp++;
  lane.state = IDLE;
}

export function setWaitingForGuard(lane: WaitingLane, until: number): void {
  lane.state = { kind: "waiting", for: "guard", until };
}

/** It has a place among the lanes of its origin, and none with the scheduler. */
export function setWaitingForSlot(lane: WaitingLane): void {
  lane.state = FOR_SLOT;
}

export function isWaitingForGuard({ state }: WaitingLane): boolean {
  return state.for === "guard";
}

export function isWaitingForSlot({ state }: WaitingLane): boolean {
  return state.for === "slot";
}

export function isClaiming({ state }: WaitingLane): boolean {
  return state.kind === "claiming";
}

/**
 * A claim of it is being committed. In a shared store it may have read the store before: the lane then
 * records the instants that become known meanwhile.
 */
export function beginClaim(lane: WaitingLane, isShared: boolean): WaitingLane["arrivals"] {
  lane.state = CLAIMING;
  lane.arrivals = isShared ? new Map() : undefined;
  return lane.arrivals;
}

/** The claim has ended. */
export function endClaim(lane: WaitingLane): void {
  lane.state = IDLE;
  lane.arrivals = undefined;
}

export type Lanes<Destination> = Readonly<Record<Lane, WaitingLane<Destination>>>;

/** The other lane that competes for the same permits: first attempts and retries share them. */
export function siblingOf<Destination extends { readonly lanes: Lanes<Destination> }>({
  destination,
  lane,
}: WaitingLane<Destination>): WaitingLane<Destination> | undefined {
  if (lane === "suspect") return undefined;
  return destination.lanes[lane === "first" ? "retry" : "first"];
}

/** When the earliest task of these lanes is due; Infinity: none waits. */
export function earliestDueAt(lanes: Lanes<unknown>, names: readonly Lane[] = LANES): number {
  let earliest = Number.POSITIVE_INFINITY;
  for (const name of names) earliest = Math.min(earliest, lanes[name].dueAt);
  return earliest;
}

/** The lanes whose earliest task is due and held by a guard. */
export function heldLanes(lanes: Lanes<unknown>, now: number): readonly HeldLane[] {
  return Object.values(lanes).flatMap((lane) => {
    const isHeld = lane.dueAt <= now && lane.heldUntil === Number.POSITIVE_INFINITY;
    const hold = isHeld ? holdOf(lane, lane.dueAt) : undefined;
    return hold === undefined ? [] : [{ lane: lane.lane, by: hold.by, sinceAt: hold.since }];
  });
}

/** A guard holds the due tasks of a lane. */
export interface HeldLane {
  readonly lane: Lane;
  readonly by: HoldReason;
  readonly sinceAt: number;
}

/** A task of the lane is due, and no known guard or limit holds it. It may be claimed already. */
export function isReady({ dueAt, state }: WaitingLane, now: number): boolean {
  return dueAt <= now && (state.kind !== "waiting" || state.until <= now);
}

/** Which lane goes first: the one whose task was due first; at a tie, first attempts. */
export function isDueBefore(one: WaitingLane, other: WaitingLane): boolean {
  if (one.dueAt !== other.dueAt) return one.dueAt < other.dueAt;
  return one.lane === "first";
}

/** The empty lanes of a new destination. */
export function createLanes<Destination>(destination: Destination): Lanes<Destination> {
  const lane = (name: Lane): WaitingLane<Destination> => ({
    destination,
    lane: name,
    dueAt: Number.POSITIVE_INFINITY,
    dueAts: undefined,
    state: IDLE,
    stamp: 0,
    turn: 0,
    origin: undefined,
    slotOf: undefined,
    arrivals: undefined,
    hold: undefined,
    heldUntil: 0,
  });
  return { first: lane("first"), retry: lane("retry"), suspect: lane("suspect") };
}

// Lane hold: which guard holds the tasks of a lane, since when, and which guards held them before.

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

/** The guard that held longest between these instants; of several, the latest one. */
export function longestHold(hold: Hold, fromAt: number, toAt: number): HoldReason {
  const sums = new Map<HoldReason, number>();
  let longest: HoldReason = hold.by;
  let endAt = toAt;
  for (let one: Hold | undefined = hold; one !== undefined; one = one.before) {
    const sinceAt = Math.max(fromAt, one.since);
    const sum = (sums.get(one.by) ?? 0) + Math.max(0, endAt - sinceAt);
    sums.set(one.by, sum);
    if (sum > (sums.get(longest) ?? 0)) longest = one.by;
    endAt = Math.min(endAt, one.since);
  }
  return longest;
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
