/**
 * Lane heap: lanes ordered by the instant of their next check. Lanes that are due take turns: first
 * the tenants, then the lanes of the tenant. The next one is whichever has waited longest since it
 * was due or since its last turn. So a backlog delays a due lane of another tenant by at most one
 * round, and every operation takes logarithmic time.
 *
 * A lane has at most one valid entry: a new entry gets a new stamp, which makes the older entries of
 * the lane stale. The same is true of a tenant.
 */
import { createHeap, type Heap } from "../../collections/heap.ts";
import { LANES } from "../../model/task.ts";
import type { DestinationLane } from "../destination/destination-runtime.ts";

interface LaneEntry {
  /** When the lane is to be checked, but not before its last turn. */
  readonly at: number;
  /** The number of the lane's last turn if that was at `at`; otherwise 0. */
  readonly turn: number;
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
}

interface TenantEntry {
  readonly at: number;
  readonly turn: number;
  readonly tenant: TenantLanes;
  readonly stamp: number;
  readonly sequence: number;
}

export class LaneHeap {
  readonly #entries = createHeap<TenantEntry>(isTenantBefore);
  /** The tenants that have entries. */
  readonly #tenants = new Map<string, TenantLanes>();
  #sequence = 0;
  /** The instant and the number of the last turn. */
  #turnAt = 0;
  #turn = 0;

  /** The lane is to be checked at that instant. It is then neither blocked nor parked. */
  push(lane: DestinationLane, at: number): void {
    lane.blocked = false;
    lane.parked = false;
    const tenant = this.#tenantOf(lane);
    const entry: LaneEntry = {
      at: Math.max(at, lane.turnAt),
      turn: at > lane.turnAt ? 0 : lane.turn,
      dueAt: lane.dueAt,
      lane,
      stamp: ++lane.stamp,
      sequence: ++this.#sequence,
    };
    tenant.heap.push(entry);
    if (Math.max(entry.at, tenant.turnAt) < tenant.at) this.#enter(tenant, entry.at);
  }

  /** The instant of the earliest check; Infinity when no lane waits. */
  nextAt(): number {
    return this.#first()?.at ?? Number.POSITIVE_INFINITY;
  }

  /** Removes and returns the lane whose turn it is at `now`; undefined: no lane is due. */
  take(now: number): DestinationLane | undefined {
    const first = this.#first();
    if (first === undefined || first.at > now) return undefined;
    const { tenant } = first;
    const lane = (tenant.heap.pop() as LaneEntry).lane;
    this.#turnAt = now;
    this.#turn++;
    lane.turnAt = now;
    lane.turn = this.#turn;
    tenant.turnAt = now;
    tenant.turn = this.#turn;
    this.#entries.pop();
    this.#enterNext(tenant);
    return lane;
  }

  /** A tenant that had no entry goes to the end: its last turn is not known. */
  #tenantOf({ destination: { tenantId } }: DestinationLane): TenantLanes {
    let tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) {
      const heap = createHeap<LaneEntry>(isLaneBefore);
      const at = Number.POSITIVE_INFINITY;
      tenant = { tenantId, heap, at, stamp: 0, turnAt: this.#turnAt, turn: this.#turn };
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

/** The tenant's earliest valid entry. */
function firstLane({ heap }: TenantLanes): LaneEntry | undefined {
  for (let top = heap.peek(); top !== undefined; top = heap.peek()) {
    if (top.stamp === top.lane.stamp) return top;
    heap.pop();
  }
  return undefined;
}

/**
 * At one instant: lanes that had no turn before those that had one, then the lane whose task was due
 * first, then first attempts before retries.
 */
function isLaneBefore(a: LaneEntry, b: LaneEntry): boolean {
  if (a.at !== b.at) return a.at < b.at;
  if (a.turn !== b.turn) return a.turn < b.turn;
  if (a.dueAt !== b.dueAt) return a.dueAt < b.dueAt;
  const rank = LANES.indexOf(a.lane.lane) - LANES.indexOf(b.lane.lane);
  return rank === 0 ? a.sequence < b.sequence : rank < 0;
}

function isTenantBefore(a: TenantEntry, b: TenantEntry): boolean {
  if (a.at !== b.at) return a.at < b.at;
  return a.turn === b.turn ? a.sequence < b.sequence : a.turn < b.turn;
}
