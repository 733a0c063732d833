/**
 * Waiting lane: the tasks of a destination that wait in one lane, as far as this node knows. A lane
 * stores no tasks, only when the earliest one is due, what the lane does now, and what holds it.
 */
import type { HoldReason } from "@redrive/core";
import { createHeap, type Heap } from "../collections/heap.ts";
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

// Lane heap: lanes ordered by the instant of their next check. Lanes that are due take turns: first
// the tenants, then the destinations of the tenant, then the lanes of the destination. The next one
// is whichever has waited longest since it was due or since its last turn. So a backlog delays a
// due lane of another tenant by at most one round, and every operation takes logarithmic time. A
// lane has at most one valid entry in all heaps: a new entry gets a new stamp, which makes the
// older entries of the lane stale. The same is true of a tenant within a heap.

/** Counts the turns of several heaps that hold the same lanes. */
export class TurnCounter {
  /** The instant and the number of the last turn. */
  at = 0;
  number = 0;
}

/** What the heap knows of a destination. */
export interface LaneOwner {
  readonly tenantId: string;
  /** The instant and the number of its last turn. */
  turnAt: number;
  turn: number;
}

/** A turn of a lane, and its place before. */
export interface LaneTurn<Owner extends LaneOwner = LaneOwner> {
  readonly lane: WaitingLane<Owner>;
  readonly checkAt: number;
  readonly sequence: number;
  readonly laneTurn: number;
  readonly turnAt: number;
  readonly turn: number;
}

interface LaneEntry<Owner extends LaneOwner> {
  /** When the lane is to be checked, but not before the last turn of its destination. */
  readonly at: number;
  /** The number of the destination's last turn if that was at `at`; otherwise 0. */
  readonly turn: number;
  /** When the lane is to be checked, whatever turns its destination had. */
  readonly checkAt: number;
  /** The lane's due instant when the entry was made. */
  readonly dueAt: number;
  readonly lane: WaitingLane<Owner>;
  readonly stamp: number;
  readonly sequence: number;
}

/** The lanes of one tenant. */
interface TenantLanes<Owner extends LaneOwner> {
  readonly tenantId: string;
  readonly heap: Heap<LaneEntry<Owner>>;
  /** The instant of the tenant's valid entry; Infinity: it has none. */
  at: number;
  stamp: number;
  /** The instant and the number of its last turn. */
  turnAt: number;
  turn: number;
  /** It gets no turn until `restore`. */
  isAside: boolean;
}

interface TenantEntry<Owner extends LaneOwner> {
  readonly at: number;
  readonly turn: number;
  readonly tenant: TenantLanes<Owner>;
  readonly stamp: number;
  readonly sequence: number;
}

export class LaneHeap<Owner extends LaneOwner> {
  readonly #turns: TurnCounter;
  readonly #entries = createHeap<TenantEntry<Owner>>(isTenantBefore);
  /** The tenants that have entries. */
  readonly #tenants = new Map<string, TenantLanes<Owner>>();
  #aside: TenantLanes<Owner>[] = [];
  #sequence = 0;

  constructor(turns: TurnCounter) {
    this.#turns = turns;
  }

  /** The lane is to be checked at that instant. */
  push(lane: WaitingLane<Owner>, at: number): void {
    this.#add(lane, at, ++this.#sequence);
  }

  #add(lane: WaitingLane<Owner>, at: number, sequence: number): void {
    setDue(lane);
    const tenant = this.#tenantOf(lane);
    const entry = entryOf(lane, at, ++lane.stamp, sequence);
    tenant.heap.push(entry);
    const isNext = Math.max(entry.at, tenant.turnAt) < tenant.at;
    if (isNext && !tenant.isAside) this.#enter(tenant, entry.at);
  }

  /** No lane waits. */
  isEmpty(): boolean {
    return this.#tenants.size === 0;
  }

  /** The instant of the earliest check; Infinity when no lane waits. */
  nextAt(): number {
    return this.#first()?.at ?? Number.POSITIVE_INFINITY;
  }

  /**
   * Removes and returns the lane whose turn it is at `now`; undefined: no lane is due. A due tenant
   * that has no room is set aside until `restore`.
   */
  take(
    now: number,
    hasRoom: (tenantId: string) => boolean = () => true,
  ): LaneTurn<Owner> | undefined {
    for (let first = this.#first(); first !== undefined && first.at <= now; first = this.#first()) {
      const { tenant } = first;
      this.#entries.pop();
      if (hasRoom(tenant.tenantId)) return this.#takeFrom(tenant, now);
      tenant.isAside = true;
      this.#aside.push(tenant);
    }
    return undefined;
  }

  /** The lanes that are due, in the order of their turns, at most `max`. */
  takeAll(
    now: number,
    max: number,
    hasRoom: (tenantId: string) => boolean,
  ): readonly LaneTurn<Owner>[] {
    const turns: LaneTurn<Owner>[] = [];
    while (turns.length < max) {
      const turn = this.take(now, hasRoom);
      if (turn === undefined) break;
      turns.push(turn);
    }
    return turns;
  }

  #takeFrom(tenant: TenantLanes<Owner>, now: number): LaneTurn<Owner> {
    const { lane, checkAt, sequence } = tenant.heap.pop() as LaneEntry<Owner>;
    const { destination } = lane;
    const { turnAt, turn } = destination;
    const taken = { lane, checkAt, sequence, laneTurn: lane.turn, turnAt, turn };
    const number = ++this.#turns.number;
    this.#turns.at = now;
    lane.turn = number;
    destination.turnAt = now;
    destination.turn = number;
    tenant.turnAt = now;
    tenant.turn = number;
    this.#enterNext(tenant);
    return taken;
  }

  /** The lane did not use its turn. Several are put back in reverse order. */
  putBack({ lane, checkAt, sequence, laneTurn, turnAt, turn }: LaneTurn<Owner>): void {
    lane.turn = laneTurn;
    lane.destination.turnAt = turnAt;
    lane.destination.turn = turn;
    this.#add(lane, checkAt, sequence);
  }

  /** Whether tenants are set aside. */
  hasAside(): boolean {
    return this.#aside.length > 0;
  }

  /** Tenants that were set aside take turns again. */
  restore(): void {
    for (const tenant of this.#aside) {
      tenant.isAside = false;
      this.#enterNext(tenant);
    }
    this.#aside = [];
  }

  /** A tenant that had no entry goes to the end: its last turn is not known. */
  #tenantOf({ destination: { tenantId } }: WaitingLane<Owner>): TenantLanes<Owner> {
    let tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) {
      const { at: turnAt, number: turn } = this.#turns;
      const heap = createHeap<LaneEntry<Owner>>(isLaneBefore);
      const at = Number.POSITIVE_INFINITY;
      tenant = { tenantId, heap, at, stamp: 0, turnAt, turn, isAside: false };
      this.#tenants.set(tenantId, tenant);
    }
    return tenant;
  }

  /** The entry of the tenant that is next. The first entry of its heap is valid and due by then. */
  #first(): TenantEntry<Owner> | undefined {
    for (let top = this.#entries.peek(); top !== undefined; top = this.#entries.peek()) {
      const { tenant } = top;
      const isValid = top.stamp === tenant.stamp;
      const lane = isValid ? firstLane(tenant) : undefined;
      if (lane !== undefined && lane.at <= top.at) return top;
      this.#entries.pop();
      // The lane that this entry was made for has moved.
      if (isValid) this.#enterNext(tenant);
    }
    return undefined;
  }

  /** The tenant's entry is gone: it waits for its next lane, if it has one. */
  #enterNext(tenant: TenantLanes<Owner>): void {
    const next = firstLane(tenant);
    if (next === undefined) this.#tenants.delete(tenant.tenantId);
    else this.#enter(tenant, next.at);
  }

  #enter(tenant: TenantLanes<Owner>, laneAt: number): void {
    const turn = laneAt > tenant.turnAt ? 0 : tenant.turn;
    const at = Math.max(laneAt, tenant.turnAt);
    tenant.at = at;
    this.#entries.push({ at, turn, tenant, stamp: ++tenant.stamp, sequence: ++this.#sequence });
  }
}

/** The place of a lane among the lanes of its tenant, after the turns that its destination had. */
function entryOf<Owner extends LaneOwner>(
  lane: WaitingLane<Owner>,
  at: number,
  stamp: number,
  sequence: number,
): LaneEntry<Owner> {
  const { turnAt, turn } = lane.destination;
  return {
    at: Math.max(at, turnAt),
    turn: at > turnAt ? 0 : turn,
    checkAt: at,
    dueAt: lane.dueAt,
    lane,
    stamp,
    sequence,
  };
}

/** The tenant's earliest valid entry. A turn of the other lane moves the entry of a lane back. */
function firstLane<Owner extends LaneOwner>({
  heap,
}: TenantLanes<Owner>): LaneEntry<Owner> | undefined {
  for (let top = heap.peek(); top !== undefined; top = heap.peek()) {
    const { lane, stamp, checkAt, sequence } = top;
    const isValid = stamp === lane.stamp;
    const moved = isValid ? entryOf(lane, checkAt, stamp, sequence) : undefined;
    if (moved !== undefined && moved.at === top.at && moved.turn === top.turn) return top;
    heap.pop();
    if (moved !== undefined) heap.push(moved);
  }
  return undefined;
}

/**
 * At one instant: destinations that had no turn before those that had one, then the lane that has had
 * no turn for longer, then the lane whose task was due first, then first attempts before retries.
 */
function isLaneBefore(a: LaneEntry<LaneOwner>, b: LaneEntry<LaneOwner>): boolean {
  if (a.at !== b.at) return a.at < b.at;
  if (a.turn !== b.turn) return a.turn < b.turn;
  // The same turn is that of the same destination.
  if (a.turn !== 0 && a.lane.turn !== b.lane.turn) return a.lane.turn < b.lane.turn;
  if (a.dueAt !== b.dueAt) return a.dueAt < b.dueAt;
  const rank = LANES.indexOf(a.lane.lane) - LANES.indexOf(b.lane.lane);
  return rank === 0 ? a.sequence < b.sequence : rank < 0;
}

function isTenantBefore(a: TenantEntry<LaneOwner>, b: TenantEntry<LaneOwner>): boolean {
  if (a.at !== b.at) return a.at < b.at;
  return a.turn === b.turn ? a.sequence < b.sequence : a.turn < b.turn;
}
