/**
 * Origin slots: the running attempts to each origin, and the lanes that wait for a slot of one. Lanes
 * take turns, and a free slot wakes one of them: it is taken for that lane until the lane is checked.
 */
import type { DestinationLane } from "../destination/destination-runtime.ts";
import { BackoffHold } from "./backoff-hold.ts";
import { LaneHeap, type TurnCounter } from "./lane-heap.ts";
import { SlotCount } from "./slot-count.ts";

/** An origin with slots in use, waiting lanes or a hold. */
interface OriginState {
  readonly origin: string;
  readonly slots: SlotCount;
  readonly hold: BackoffHold;
  waiting: LaneHeap | undefined;
  /** The first tenant, and whether there was another one. */
  onlyTenant: string | undefined;
  isShared: boolean;
}

/** Unused origins are dropped when there are this many, or twice what was kept. */
const MIN_ORIGINS_TO_DROP = 4096;

export class OriginSlots {
  readonly #max: number;
  readonly #turns: TurnCounter;
  readonly #origins = new Map<string, OriginState>();
  /** Origins with waiting lanes that may have a free slot. */
  readonly #ready = new Set<OriginState>();
  /** Origins with a hold. */
  readonly #held = new Set<OriginState>();
  #dropAt = MIN_ORIGINS_TO_DROP;

  /** `max`: attempts at once to one origin. */
  constructor(max: number, turns: TurnCounter) {
    this.#max = max;
    this.#turns = turns;
  }

  /** How many slots the tenant may take now, as far as no lane waits for them. */
  room(origin: string, tenantId: string, now: number): number {
    const state = this.#origins.get(origin);
    if (state === undefined) return this.#max;
    return state.hold.until > now ? 0 : roomAt(state, tenantId);
  }

  isHeld(origin: string, now: number): boolean {
    return (this.#origins.get(origin)?.hold.until ?? 0) > now;
  }

  hasWaiting(origin: string): boolean {
    const state = this.#origins.get(origin);
    return state !== undefined && hasWaiting(state);
  }

  /** Takes slots, or returns them if `count` is negative. */
  add(origin: string, tenantId: string, count: number): void {
    const state = this.#stateOf(origin);
    state.slots.add(tenantId, count);
    if (count < 0) this.#recheck(state);
  }

  /** The lane waits for a slot of its origin. */
  wait(lane: DestinationLane, now: number): void {
    const state = this.#stateOf(lane.origin as string);
    state.waiting ??= new LaneHeap(this.#turns);
    state.waiting.push(lane, Math.min(lane.dueAt, now));
    lane.isQueued = true;
  }

  /** Takes slots for waiting lanes of origins that have some. Each of these lanes is to be checked. */
  grant(now: number, check: (lane: DestinationLane) => void): void {
    for (const state of this.#held) {
      if (state.hold.until > now) continue;
      this.#held.delete(state);
      this.#recheck(state);
    }
    for (const state of this.#ready) {
      this.#ready.delete(state);
      if (state.hold.until <= now) grantFrom(state, now, check);
      this.#dropUnused(state);
    }
  }

  /** Returns the slot that was taken for the lane, which may take it now. */
  returnGrant(lane: DestinationLane): boolean {
    const origin = lane.slotOf;
    lane.slotOf = undefined;
    if (origin === undefined) return false;
    this.add(origin, lane.destination.tenantId, -1);
    return true;
  }

  /** Ports for this origin lack: it is held for a while. Returns whether a new hold began. */
  recordShortage(origin: string, now: number): boolean {
    const state = this.#stateOf(origin);
    this.#held.add(state);
    return state.hold.begin(now);
  }

  recordNoShortage(origin: string): void {
    this.#origins.get(origin)?.hold.recordSuccess();
  }

  /** The number of holds of the origin since an attempt to it had what it needed. */
  shortagesOf(origin: string): number {
    return this.#origins.get(origin)?.hold.count ?? 0;
  }

  /** Whether an origin with waiting lanes may have a free slot. */
  hasReady(): boolean {
    return this.#ready.size > 0;
  }

  /** When the first hold of an origin with waiting lanes ends. */
  nextAt(): number {
    let at = Number.POSITIVE_INFINITY;
    for (const state of this.#held) if (hasWaiting(state)) at = Math.min(at, state.hold.until);
    return at;
  }

  #stateOf(origin: string): OriginState {
    let state = this.#origins.get(origin);
    if (state === undefined) {
      if (this.#origins.size >= this.#dropAt) this.#dropAllUnused();
      const slots = new SlotCount(this.#max);
      state = { origin, slots, hold: new BackoffHold(), ...NOBODY };
      this.#origins.set(origin, state);
    }
    return state;
  }

  /** The state of an origin has changed: it wakes lanes, or it is dropped. */
  #recheck(state: OriginState): void {
    if (hasWaiting(state)) this.#ready.add(state);
    else this.#dropUnused(state);
  }

  /** An origin whose last attempt lacked something is kept, so that the next hold is longer. */
  #dropUnused(state: OriginState): void {
    if (!this.#isUsed(state) && state.hold.count === 0) this.#origins.delete(state.origin);
  }

  #isUsed(state: OriginState): boolean {
    return state.slots.used > 0 || hasWaiting(state) || this.#held.has(state);
  }

  #dropAllUnused(): void {
    for (const state of this.#origins.values()) {
      if (!this.#isUsed(state)) this.#origins.delete(state.origin);
    }
    this.#dropAt = Math.max(MIN_ORIGINS_TO_DROP, 2 * this.#origins.size);
  }
}

const NOBODY = { waiting: undefined, onlyTenant: undefined, isShared: false };

/** Takes a slot for each waiting lane, in the order of their turns, as long as there is one. */
function grantFrom(state: OriginState, now: number, check: (lane: DestinationLane) => void): void {
  const { waiting, slots, origin } = state;
  if (waiting === undefined) return;
  const hasRoom = (tenantId: string) => roomAt(state, tenantId) > 0;
  for (let turn = waiting.take(now, hasRoom); turn; turn = waiting.take(now, hasRoom)) {
    const { lane } = turn;
    slots.add(lane.destination.tenantId, 1);
    lane.slotOf = origin;
    lane.isQueued = false;
    check(lane);
  }
  waiting.restore();
}

/** How many slots of the origin the tenant may take now. It is divided once two tenants use it. */
function roomAt(state: OriginState, tenantId: string): number {
  state.onlyTenant ??= tenantId;
  state.isShared ||= tenantId !== state.onlyTenant;
  return state.slots.room(tenantId, state.isShared);
}

function hasWaiting({ waiting }: OriginState): boolean {
  return waiting !== undefined && Number.isFinite(waiting.nextAt());
}
