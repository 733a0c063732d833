/**
 * Lane heap: lanes ordered by the instant of their next check. Lanes that are due take turns: first
 * the tenants, then the destinations of the tenant, then the lanes of the destination. The next one is
 * whichever has waited longest since it was due or since its last turn. So a backlog delays a due lane
 * of another tenant by at most one round, and every operation takes logarithmic time.
 *
 * A lane has at most one valid entry in all heaps: a new entry gets a new stamp, which makes the older
 * entries of the lane stale. The same is true of a tenant within a heap.
 */
import { createHeap, type Heap } from "../collections/heap.ts";
import { LANES } from "../model/task.ts";
import type { DestinationLane } from "./destination-runtime.ts";
import { setDue } from "./lanes.ts";

/** Counts the turns of several heaps that hold the same lanes. */
export class TurnCounter {
  /** The instant and the number of the last turn. */
  at = 0;
  number = 0;
}

/** A turn of a lane, and its place before. */
export interface LaneTurn {
  readonly lane: DestinationLane;
  readonly checkAt: number;
  readonly sequence: number;
  readonly laneTurn: number;
  readonly turnAt: number;
  readonly turn: number;
}

interface LaneEntry {
  /** When the lane is to be checked, but not before the last turn of its destination. */
  readonly at: number;
  /** The number of the destination's last turn if that was at `at`; otherwise 0. */
  readonly turn: number;
  /** When the lane is to be checked, whatever turns its destination had. */
  readonly checkAt: number;
  /** The lane's due instant when the entry was made. */
  readonly dueAt: number;
  readonly lane: DestinationLane;
  readonly stamp: number;
  readonly sequence: number;
}

/** The lanes of one tenant. */
interface TenantLanes {
  readonly tenantId: string;
  readonly heap: Heap<LaneEntry>;
  /** The instant of the tenant's valid entry; Infinity: it has none. */
  at: number;
  stamp: number;
  /** The instant and the number of its last turn. */
  turnAt: number;
  turn: number;
  /** It gets no turn until `restore`. */
  isAside: boolean;
}

interface TenantEntry {
  readonly at: number;
  readonly turn: number;
  readonly tenant: TenantLanes;
  readonly stamp: number;
  readonly sequence: number;
}

export class LaneHeap {
  readonly #turns: TurnCounter;
  readonly #entries = createHeap<TenantEntry>(isTenantBefore);
  /** The tenants that have entries. */
  readonly #tenants = new Map<string, TenantLanes>();
  #aside: TenantLanes[] = [];
  #sequence = 0;

  constructor(turns: TurnCounter) {
    this.#turns = turns;
  }

  /** The lane is to be checked at that instant. */
  push(lane: DestinationLane, at: number): void {
    this.#add(lane, at, ++this.#sequence);
  }

  #add(lane: DestinationLane, at: number, sequence: number): void {
    setDue(lane);
    const tenant = this.#tenantOf(lane);
    const entry = entryOf(lane, at, ++lane.stamp, sequence);
    tenant.heap.push(entry);
    const isNext = Math.max(entry.at, tenant.turnAt) < tenant.at;
    if (isNext && !tenant.isAside) this.#enter(tenant, entry.at);
  }

  /** The instant of the earliest check; Infinity when no lane waits. */
  nextAt(): number {
    return this.#first()?.at ?? Number.POSITIVE_INFINITY;
  }

  /**
   * Removes and returns the lane whose turn it is at `now`; undefined: no lane is due. A due tenant
   * that has no room is set aside until `restore`.
   */
  take(now: number, hasRoom: (tenantId: string) => boolean = () => true): LaneTurn | undefined {
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
  takeAll(now: number, max: number, hasRoom: (tenantId: string) => boolean): readonly LaneTurn[] {
    const turns: LaneTurn[] = [];
    while (turns.length < max) {
      const turn = this.take(now, hasRoom);
      if (turn === undefined) break;
      turns.push(turn);
    }
    return turns;
  }

  #takeFrom(tenant: TenantLanes, now: number): LaneTurn {
    const { lane, checkAt, sequence } = tenant.heap.pop() as LaneEntry;
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
  putBack({ lane, checkAt, sequence, laneTurn, turnAt, turn }: LaneTurn): void {
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
  #tenantOf({ destination: { tenantId } }: DestinationLane): TenantLanes {
    let tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) {
      const { at: turnAt, number: turn } = this.#turns;
      const heap = createHeap<LaneEntry>(isLaneBefore);
      const at = Number.POSITIVE_INFINITY;
      tenant = { tenantId, heap, at, stamp: 0, turnAt, turn, isAside: false };
      this.#tenants.set(tenantId, tenant);
    }
    return tenant;
  }

  /** The entry of the tenant that is next. The first entry of its heap is valid and due by then. */
  #first(): TenantEntry | undefined {
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
  #enterNext(tenant: TenantLanes): void {
    const next = firstLane(tenant);
    if (next === undefined) this.#tenants.delete(tenant.tenantId);
    else this.#enter(tenant, next.at);
  }

  #enter(tenant: TenantLanes, laneAt: number): void {
    const turn = laneAt > tenant.turnAt ? 0 : tenant.turn;
    const at = Math.max(laneAt, tenant.turnAt);
    tenant.at = at;
    this.#entries.push({ at, turn, tenant, stamp: ++tenant.stamp, sequence: ++this.#sequence });
  }
}

/** The place of a lane among the lanes of its tenant, after the turns that its destination had. */
function entryOf(lane: DestinationLane, at: number, stamp: number, sequence: number): LaneEntry {
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
function firstLane({ heap }: TenantLanes): LaneEntry | undefined {
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
function isLaneBefore(a: LaneEntry, b: LaneEntry): boolean {
  if (a.at !== b.at) return a.at < b.at;
  if (a.turn !== b.turn) return a.turn < b.turn;
  // The same turn is that of the same destination.
  if (a.turn !== 0 && a.lane.turn !== b.lane.turn) return a.lane.turn < b.lane.turn;
  if (a.dueAt !== b.dueAt) return a.dueAt < b.dueAt;
  const rank = LANES.indexOf(a.lane.lane) - LANES.indexOf(b.lane.lane);
  return rank === 0 ? a.sequence < b.sequence : rank < 0;
}

function isTenantBefore(a: TenantEntry, b: TenantEntry): boolean {
  if (a.at !== b.at) return a.at < b.at;
  return a.turn === b.turn ? a.sequence < b.sequence : a.turn < b.turn;
}
