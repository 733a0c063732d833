/**
 * Waiting lane: the tasks of a destination that wait in one lane, as far as this node knows. A lane
 * stores no tasks, only when the earliest one is due and what holds it.
 */
import type { HoldReason } from "@redrive/core";
import type { Lane } from "../../model/task.ts";
import { type HoldableLane, holdOf } from "./lane-hold.ts";

/** `Destination` is a type parameter so that this file does not import the destination. */
export interface WaitingLane<Destination = unknown> extends HoldableLane {
  readonly destination: Destination;
  readonly lane: Lane;
  /** The shard of the store that holds its tasks. */
  readonly shard: number;
  /** When the earliest task is due; Infinity when no task waits. */
  dueAt: number;
  /** The same by partition; undefined in a store with one partition. */
  dueAts: Map<number, number> | undefined;
  /** Entries of the scheduler's heap with an older stamp are stale. */
  stamp: number;
  /** A task is due or soon will be, but only a change at the destination lets it continue. */
  blocked: boolean;
  /** A task waits until `parkedUntil`, unless a change at the destination frees it earlier. */
  parked: boolean;
  parkedUntil: number;
  /** The number of its last turn in the scheduler. */
  turn: number;
  /** The origin of its latest known task; undefined: not known yet. */
  origin: string | undefined;
  /** It waits for a slot of its origin (`schedule/attempt-slots.ts`). */
  isQueued: boolean;
  /** A slot of this origin was taken for it. */
  slotOf: string | undefined;
  /** A claim of this lane is being committed, so the next task is not known. */
  isClaimed: boolean;
  /**
   * The instants by partition that become known while a claim is being committed in a shared store. The
   * claim may have read the store before. Undefined: no claim is being committed.
   */
  arrivals: Map<number, number> | undefined;
}

export type Lanes<Destination> = Readonly<Record<Lane, WaitingLane<Destination>>>;

/** The other lane that competes for the same permits: first attempts and retries share them. */
export function siblingOf<Destination extends WithLanes<Destination>>({
  destination,
  lane,
  shard,
}: WaitingLane<Destination>): WaitingLane<Destination> | undefined {
  if (lane === "suspect") return undefined;
  return destination.lanesOf(shard)[lane === "first" ? "retry" : "first"];
}

interface WithLanes<Destination> {
  lanesOf(shard: number): Lanes<Destination>;
}

/** The lanes of a destination on each shard of the store, created on first use. */
export class ShardLanes<Destination> {
  readonly #destination: Destination;
  readonly #byShard: (Lanes<Destination> | undefined)[] = [];

  constructor(destination: Destination) {
    this.#destination = destination;
  }

  of(shard: number): Lanes<Destination> {
    this.#byShard[shard] ??= createLanes(this.#destination, shard);
    return this.#byShard[shard];
  }

  /** When the earliest task of these lanes is due; Infinity: none waits. */
  dueAt(names: readonly Lane[]): number {
    let earliest = Number.POSITIVE_INFINITY;
    for (const lanes of this.#byShard) {
      for (const name of names) earliest = Math.min(earliest, lanes?.[name].dueAt ?? earliest);
    }
    return earliest;
  }

  /** The lanes whose earliest task is due and held by a guard. */
  held(now: number): readonly HeldLane[] {
    const all = this.#byShard.flatMap((lanes) => (lanes ? Object.values(lanes) : []));
    return all.flatMap((lane) => {
      const isHeld = lane.dueAt <= now && lane.heldUntil === Number.POSITIVE_INFINITY;
      const hold = isHeld ? holdOf(lane, lane.dueAt) : undefined;
      return hold === undefined ? [] : [{ lane: lane.lane, by: hold.by, sinceAt: hold.since }];
    });
  }
}

/** A guard holds the due tasks of a lane. */
export interface HeldLane {
  readonly lane: Lane;
  readonly by: HoldReason;
  readonly sinceAt: number;
}

/** A task of the lane is due, and no known guard or limit holds it. */
export function isReady(
  { dueAt, blocked, parked, parkedUntil, isQueued }: WaitingLane,
  now: number,
): boolean {
  return dueAt <= now && !blocked && !isQueued && (!parked || parkedUntil <= now);
}

/** Which lane goes first: the one whose task was due first; at a tie, first attempts. */
export function isDueBefore(one: WaitingLane, other: WaitingLane): boolean {
  if (one.dueAt !== other.dueAt) return one.dueAt < other.dueAt;
  return one.lane === "first";
}

/** The empty lanes of a new destination. */
function createLanes<Destination>(destination: Destination, shard: number): Lanes<Destination> {
  const lane = (name: Lane): WaitingLane<Destination> => ({
    destination,
    lane: name,
    shard,
    dueAt: Number.POSITIVE_INFINITY,
    dueAts: undefined,
    stamp: 0,
    blocked: false,
    parked: false,
    parkedUntil: 0,
    turn: 0,
    origin: undefined,
    isQueued: false,
    slotOf: undefined,
    isClaimed: false,
    arrivals: undefined,
    hold: undefined,
    heldUntil: 0,
  });
  return { first: lane("first"), retry: lane("retry"), suspect: lane("suspect") };
}
