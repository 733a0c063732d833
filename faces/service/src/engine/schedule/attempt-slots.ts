/**
 * Attempt slots: limits how many attempts run at once on this node, and to one origin (scheme, host and
 * port of the target). Callers choose the names of destinations freely, so the limits of destinations
 * do not limit the connections to one server.
 *
 * A claim takes its slots before it is committed. The origin of a task is known only from its row, so a
 * lane remembers the origin of its latest task. If a claimed task has another origin that is full, the
 * claim is returned and the lane waits for a slot of that origin. Lanes that wait for an origin take
 * turns, and a free slot wakes one of them.
 */
import { assertRange } from "@redrive/core";
import type { DestinationLane } from "../destination/destination-runtime.ts";
import { type Hold, type HoldableLane, holdLane, holdOf } from "../destination/lane-hold.ts";
import { BackoffHold } from "./backoff-hold.ts";
import { LaneHeap, type TurnCounter } from "./lane-heap.ts";
import { SlotCount } from "./slot-count.ts";

export interface AttemptLimits {
  /** Attempts at once on this node. */
  readonly perNode: number;
  /** Attempts at once to one origin. */
  readonly perOrigin: number;
}

export const DEFAULT_LIMITS: AttemptLimits = { perNode: 1024, perOrigin: 256 };

/** The limits that the options of an engine ask for. */
export function attemptLimits({
  attemptsAtOnce = DEFAULT_LIMITS.perNode,
  attemptsPerOrigin = DEFAULT_LIMITS.perOrigin,
}: {
  readonly attemptsAtOnce?: number | undefined;
  readonly attemptsPerOrigin?: number | undefined;
}): AttemptLimits {
  assertRange("attemptsAtOnce", attemptsAtOnce, 1, MAX_LIMIT);
  assertRange("attemptsPerOrigin", attemptsPerOrigin, 1, MAX_LIMIT);
  return { perNode: attemptsAtOnce, perOrigin: attemptsPerOrigin };
}

const MAX_LIMIT = 1_000_000;

/** Unused origins are dropped when there are this many, or twice what was kept. */
const MIN_ORIGINS_TO_DROP = 4096;

/** After a shortage the node runs this share of the attempts that it ran. */
const KEPT_AFTER_SHORTAGE = 0.75;

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

/** A task that asks for a slot. */
export interface SlotRequest {
  readonly tenantId: string;
  readonly origin: string;
}

export class AttemptSlots {
  readonly #limits: AttemptLimits;
  readonly #turns: TurnCounter;
  readonly #node: SlotCount;
  readonly #nodeHold = new BackoffHold();
  readonly #origins = new Map<string, OriginState>();
  /** Origins with waiting lanes that may have a free slot. */
  readonly #ready = new Set<OriginState>();
  /** Origins with a hold. */
  readonly #held = new Set<OriginState>();
  /** When the node was full, in the form of a lane that waits for it. */
  readonly #full: HoldableLane = { dueAt: 0, hold: undefined, heldUntil: 0 };
  #onlyTenant: string | undefined;
  #isShared = false;
  #isFreed = false;
  #dropAt = MIN_ORIGINS_TO_DROP;

  constructor(limits: AttemptLimits, turns: TurnCounter) {
    this.#limits = limits;
    this.#turns = turns;
    this.#node = new SlotCount(limits.perNode);
  }

  /** The number of attempts for which the node has slots now. */
  free(now: number): number {
    const free = this.#nodeHold.until > now ? 0 : Math.max(0, this.#node.max - this.#node.used);
    if (free === 0) holdLane(this.#full, "concurrency", now);
    else this.#full.heldUntil = Math.min(this.#full.heldUntil, now);
    return free;
  }

  /** When the node was full after `dueAt`; undefined: it was not. */
  nodeHoldOf(dueAt: number): Hold | undefined {
    return holdOf(this.#full, dueAt);
  }

  hasRoomOnNode(tenantId: string): boolean {
    return this.#node.room(tenantId, this.#sees(tenantId)) > 0;
  }

  /**
   * The number of attempts for which the lane may take slots now. 0: none, and `wait` follows. While
   * the origin of its tasks is not known, it is one, which shows the origin.
   */
  roomFor(lane: DestinationLane, now: number): number {
    const { tenantId } = lane.destination;
    const isShared = this.#sees(tenantId);
    const onNode = this.#node.room(tenantId, isShared);
    const isGranted = this.#returnGrant(lane);
    if (lane.origin === undefined) return Math.min(1, onNode);
    const state = this.#origins.get(lane.origin);
    if (state === undefined) return Math.min(onNode, this.#limits.perOrigin);
    if (state.hold.until > now || (!isGranted && hasWaiting(state))) return 0;
    return Math.min(onNode, roomAt(state, tenantId));
  }

  /** May a new task start without waiting? Not before lanes that wait for the same slots. */
  mayStart({ tenantId, origin }: SlotRequest, now: number): boolean {
    const isShared = this.#sees(tenantId);
    if (this.#nodeHold.until > now || this.#node.room(tenantId, isShared) < 1) return false;
    const state = this.#origins.get(origin);
    if (state === undefined) return true;
    if (state.hold.until > now || hasWaiting(state)) return false;
    return roomAt(state, tenantId) > 0;
  }

  take(tenantId: string, origin: string | undefined, count = 1): void {
    this.#node.add(tenantId, count);
    if (origin !== undefined) this.#stateOf(origin).slots.add(tenantId, count);
  }

  /**
   * A slot that was taken for `reserved` is now used for `origin`. False if that origin has none: the
   * slot is then free again.
   */
  assign({ tenantId, origin }: SlotRequest, reserved: string | undefined, now: number): boolean {
    if (origin === reserved) return true;
    this.release(tenantId, reserved);
    const state = this.#origins.get(origin);
    if (state && (state.hold.until > now || roomAt(state, tenantId) < 1)) return false;
    this.take(tenantId, origin);
    return true;
  }

  release(tenantId: string, origin: string | undefined, count = 1): void {
    this.#node.add(tenantId, -count);
    this.#isFreed = true;
    const state = origin === undefined ? undefined : this.#origins.get(origin);
    if (state === undefined) return;
    state.slots.add(tenantId, -count);
    this.#recheck(state);
  }

  /** The lane waits for a slot of its origin. */
  wait(lane: DestinationLane, now: number): void {
    const state = this.#stateOf(lane.origin as string);
    state.waiting ??= new LaneHeap(this.#turns);
    state.waiting.push(lane, Math.min(lane.dueAt, now));
    lane.isQueued = true;
    holdLane(lane, "concurrency", now);
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
      if (state.hold.until <= now) this.#grantFrom(state, now, check);
      this.#dropUnused(state);
    }
  }

  #grantFrom(state: OriginState, now: number, check: (lane: DestinationLane) => void): void {
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

  /** Returns the slot that was taken for the lane, which may take it now. */
  #returnGrant(lane: DestinationLane): boolean {
    const state = lane.slotOf === undefined ? undefined : this.#origins.get(lane.slotOf);
    lane.slotOf = undefined;
    if (state === undefined) return false;
    state.slots.add(lane.destination.tenantId, -1);
    this.#recheck(state);
    return true;
  }

  /**
   * An attempt found that this node lacks files or memory, or ports to one origin. Holds new attempts
   * for a while; the node also runs fewer at once until attempts go well. Returns whether a new hold
   * began.
   */
  recordShortage(scope: "node" | "origin", origin: string, now: number): boolean {
    if (scope === "origin") {
      const state = this.#stateOf(origin);
      this.#held.add(state);
      return state.hold.begin(now);
    }
    if (!this.#nodeHold.begin(now)) return false;
    this.#node.max = Math.max(1, Math.floor(this.#node.used * KEPT_AFTER_SHORTAGE));
    return true;
  }

  /** An attempt to the origin had what it needed. */
  recordNoShortage(origin: string): void {
    this.#nodeHold.recordSuccess();
    this.#node.max = Math.min(this.#limits.perNode, this.#node.max + 1);
    this.#origins.get(origin)?.hold.recordSuccess();
  }

  /** The number of holds of the origin since an attempt to it had what it needed. */
  shortagesOf(origin: string): number {
    return this.#origins.get(origin)?.hold.count ?? 0;
  }

  /** Whether slots were freed since the last call. */
  takeFreed(): boolean {
    const isFreed = this.#isFreed;
    this.#isFreed = false;
    return isFreed;
  }

  /** Whether a slot was freed that a lane waits for. `hasAside`: tenants wait for slots of the node. */
  hasNews(hasAside: boolean): boolean {
    return (hasAside && this.#isFreed) || this.#ready.size > 0;
  }

  /** When a hold of the node ends; 0: none lasts. */
  nodeHeldUntil(now: number): number {
    return this.#nodeHold.until > now ? this.#nodeHold.until : 0;
  }

  /** When the first hold of an origin with waiting lanes ends. */
  nextOriginAt(): number {
    let at = Number.POSITIVE_INFINITY;
    for (const state of this.#held) if (hasWaiting(state)) at = Math.min(at, state.hold.until);
    return at;
  }

  isNodeFull(): boolean {
    return this.#node.used >= this.#node.max;
  }

  /** For messages: the limit that holds a task of this tenant to this origin; undefined: none. */
  limitOf(
    { tenantId, origin }: SlotRequest,
    now: number,
  ): "node" | "origin" | "shortage" | undefined {
    const state = this.#origins.get(origin);
    if (this.#nodeHold.until > now || (state && state.hold.until > now)) return "shortage";
    if (this.#node.room(tenantId, this.#isShared) < 1) return "node";
    return state && roomAt(state, tenantId) < 1 ? "origin" : undefined;
  }

  /** Remembers whether more than one tenant uses this node. */
  #sees(tenantId: string): boolean {
    this.#onlyTenant ??= tenantId;
    this.#isShared ||= tenantId !== this.#onlyTenant;
    return this.#isShared;
  }

  #stateOf(origin: string): OriginState {
    let state = this.#origins.get(origin);
    if (state === undefined) {
      if (this.#origins.size >= this.#dropAt) this.#dropAllUnused();
      const slots = new SlotCount(this.#limits.perOrigin);
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

/** How many slots of the origin the tenant may take now. It is divided once two tenants use it. */
function roomAt(state: OriginState, tenantId: string): number {
  state.onlyTenant ??= tenantId;
  state.isShared ||= tenantId !== state.onlyTenant;
  return state.slots.room(tenantId, state.isShared);
}

function hasWaiting({ waiting }: OriginState): boolean {
  return waiting !== undefined && Number.isFinite(waiting.nextAt());
}
