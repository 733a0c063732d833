/**
 * Attempt slots: limits how many attempts run at once on this node, and to one origin (scheme, host and
 * port of the target). Callers choose the names of destinations freely, so the limits of destinations
 * do not limit the connections to one server.
 *
 * A claim takes its slots before it is committed. The origin of a task is known only from its row, so a
 * lane remembers the origin of its latest task. If a claimed task has another origin that is full, the
 * claim is returned and the lane waits for a slot of that origin.
 */
import { assertRange, fairRoom } from "@redrive/core";
import { BoundedCache } from "../collections/bounded-cache.ts";
import type { DestinationLane, DestinationRuntime } from "./destination-runtime.ts";
import {
  type Hold,
  type HoldableLane,
  holdLane,
  holdOf,
  LaneHeap,
  setDue,
  setWaitingForSlot,
  type TurnCounter,
} from "./lanes.ts";

export interface AttemptLimits {
  /** Attempts at once on this node. */
  readonly perNode: number;
  /** Attempts at once to one origin. */
  readonly perOrigin: number;
}

const MAX_LIMIT = 1_000_000;

/** The limits that the options of an engine ask for. */
export function attemptLimits({
  attemptsAtOnce = 1024,
  attemptsPerOrigin = 256,
}: {
  readonly attemptsAtOnce?: number | undefined;
  readonly attemptsPerOrigin?: number | undefined;
}): AttemptLimits {
  assertRange("attemptsAtOnce", attemptsAtOnce, 1, MAX_LIMIT);
  assertRange("attemptsPerOrigin", attemptsPerOrigin, 1, MAX_LIMIT);
  return { perNode: attemptsAtOnce, perOrigin: attemptsPerOrigin };
}

/** After a shortage the node runs this share of the attempts that it ran. */
const KEPT_AFTER_SHORTAGE = 0.75;

/** A task that asks for a slot. */
interface SlotRequest {
  readonly tenantId: string;
  readonly origin: string;
}

export class AttemptSlots {
  readonly #limits: AttemptLimits;
  readonly #node: SlotCount;
  readonly #nodeHold = new BackoffHold();
  readonly #origins: OriginSlots;
  /** When the node was full, in the form of a lane that waits for it. */
  readonly #full: HoldableLane = { dueAt: 0, hold: undefined, heldUntil: 0 };
  #onlyTenant: string | undefined;
  #isShared = false;
  /** How often slots were freed. It only grows. */
  freed = 0;

  constructor(limits: AttemptLimits, turns: TurnCounter) {
    this.#limits = limits;
    this.#node = new SlotCount(limits.perNode);
    this.#origins = new OriginSlots(limits.perOrigin, turns);
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
    return this.#roomOnNode(tenantId) > 0;
  }

  /**
   * The number of attempts for which the lane may take slots now. 0: none, and `wait` follows. While
   * the origin of its tasks is not known, it is one, which shows the origin.
   */
  roomFor(lane: DestinationLane, now: number): number {
    const { tenantId } = lane.destination;
    const onNode = this.#roomOnNode(tenantId);
    const isGranted = this.#origins.returnGrant(lane);
    const { origin } = lane;
    if (origin === undefined) return Math.min(1, onNode);
    if (!isGranted && this.#origins.hasWaiting(origin)) return 0;
    return Math.min(onNode, this.#origins.room(origin, tenantId, now));
  }

  /** May a new task start without waiting? Not before lanes that wait for the same slots. */
  mayStart({ tenantId, origin }: SlotRequest, now: number): boolean {
    if (this.#nodeHold.until > now || !this.hasRoomOnNode(tenantId)) return false;
    if (this.#origins.hasWaiting(origin)) return false;
    return this.#origins.room(origin, tenantId, now) > 0;
  }

  take(tenantId: string, origin: string | undefined, count = 1): void {
    this.#node.add(tenantId, count);
    if (origin !== undefined) this.#origins.add(origin, tenantId, count);
  }

  /**
   * A slot that was taken for `reserved` is now used for `origin`. False if that origin has none: the
   * slot is then free again.
   */
  assign({ tenantId, origin }: SlotRequest, reserved: string | undefined, now: number): boolean {
    if (origin === reserved) return true;
    this.release(tenantId, reserved);
    if (this.#origins.room(origin, tenantId, now) < 1) return false;
    this.take(tenantId, origin);
    return true;
  }

  release(tenantId: string, origin: string | undefined, count = 1): void {
    this.#node.add(tenantId, -count);
    this.freed++;
    if (origin !== undefined) this.#origins.add(origin, tenantId, -count);
  }

  /** The lane waits for a slot of its origin. */
  wait(lane: DestinationLane, now: number): void {
    this.#origins.wait(lane, now);
    holdLane(lane, "concurrency", now);
  }

  /** The lane does not need the slot that was taken for it. */
  returnGrant(lane: DestinationLane): undefined {
    this.#origins.returnGrant(lane);
    return undefined;
  }

  /** Takes slots for waiting lanes of origins that have some. Each of these lanes is to be checked. */
  grant(now: number, check: (lane: DestinationLane) => void): void {
    this.#origins.grant(now, check);
  }

  /**
   * An attempt found that this node lacks files or memory, or ports to one origin. Holds new attempts
   * for a while; the node also runs fewer at once until attempts go well. Returns whether a new hold
   * began.
   */
  recordShortage(scope: "node" | "origin", origin: string, now: number): boolean {
    if (scope === "origin") return this.#origins.recordShortage(origin, now);
    if (!this.#nodeHold.begin(now)) return false;
    this.#node.max = Math.max(1, Math.floor(this.#node.used * KEPT_AFTER_SHORTAGE));
    return true;
  }

  /** An attempt to the origin had what it needed. */
  recordNoShortage(origin: string): void {
    this.#nodeHold.recordSuccess();
    this.#node.max = Math.min(this.#limits.perNode, this.#node.max + 1);
    this.#origins.recordNoShortage(origin);
  }

  /** The number of holds of the origin since an attempt to it had what it needed. */
  shortagesOf(origin: string): number {
    return this.#origins.shortagesOf(origin);
  }

  /**
   * When lanes that wait for slots are to be checked; 0: they are not. `mayEnter`: tenants wait for
   * slots of the node, and some were freed.
   */
  nextAt(now: number, mayEnter: boolean): number {
    if (this.#nodeHold.until > now) return this.#nodeHold.until;
    if (this.#node.used >= this.#node.max) return Number.POSITIVE_INFINITY;
    return mayEnter || this.#origins.hasReady() ? now : 0;
  }

  /** When the first hold of an origin with waiting lanes ends. */
  nextOriginAt(): number {
    return this.#origins.nextAt();
  }

  /** For messages: the limit that holds a task of this tenant to this origin; undefined: none. */
  limitOf(
    { tenantId, origin }: SlotRequest,
    now: number,
  ): "node" | "origin" | "shortage" | undefined {
    if (this.#nodeHold.until > now || this.#origins.isHeld(origin, now)) return "shortage";
    if (this.#node.room(tenantId, this.#isShared) < 1) return "node";
    return this.#origins.room(origin, tenantId, now) < 1 ? "origin" : undefined;
  }

  /** The slots of the node are divided once a second tenant uses it. */
  #roomOnNode(tenantId: string): number {
    this.#onlyTenant ??= tenantId;
    this.#isShared ||= tenantId !== this.#onlyTenant;
    return this.#node.room(tenantId, this.#isShared);
  }
}

// Origin slots: the running attempts to each origin, and the lanes that wait for a slot of one. Lanes
// take turns, and a free slot wakes one of them: it is taken for that lane until the lane is checked.

/** An origin with slots in use, waiting lanes or a hold. */
interface OriginState {
  readonly origin: string;
  readonly slots: SlotCount;
  readonly hold: BackoffHold;
  waiting: LaneHeap<DestinationRuntime> | undefined;
  /** The first tenant, and whether there was another one. */
  onlyTenant: string | undefined;
  isShared: boolean;
}

/** Unused origins are dropped when there are this many, or twice what was kept. */
const MIN_ORIGINS_TO_DROP = 4096;

class OriginSlots {
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
    setWaitingForSlot(lane);
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
    setDue(lane);
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

// Slot count: the slots of one limit on running attempts, which tenants share. Core's `fairRoom`
// divides them while more than one tenant uses the node.

class SlotCount {
  /** May be lowered for a while. Slots that are in use then stay in use. */
  max: number;
  used = 0;
  /** Only tenants that use a slot. */
  readonly #byTenant = new Map<string, number>();

  constructor(max: number) {
    this.max = max;
  }

  /** How many slots the tenant may take now. `isShared`: the node has several tenants. */
  room(tenantId: string, isShared: boolean): number {
    if (!isShared) return Math.max(0, this.max - this.used);
    return fairRoom(this.max, this.used, this.#byTenant.get(tenantId) ?? 0);
  }

  /** Takes slots, or returns them if `count` is negative. */
  add(tenantId: string, count: number): void {
    this.used += count;
    const own = (this.#byTenant.get(tenantId) ?? 0) + count;
    if (own === 0) this.#byTenant.delete(tenantId);
    else this.#byTenant.set(tenantId, own);
  }
}

// Origin: the scheme, host and port of a target URL, which attempts to one server share.

/** Everything before the path. Tasks differ in their paths and share a few of these. */
const BEFORE_PATH = /^[a-z][a-z0-9+.-]*:\/\/[^/?#\\]*/iu;

/** The cache takes about a hundred kilobytes. */
const CACHED_ORIGINS = 1000;

const origins = new BoundedCache<string>(CACHED_ORIGINS);

/** Without user name, in lower case, and without a port that the scheme implies. */
export function originOf(targetUrl: string): string {
  const text = BEFORE_PATH.exec(targetUrl)?.[0] ?? targetUrl;
  const known = origins.get(text);
  if (known !== undefined) return known;
  if (!URL.canParse(text)) return text;
  const { protocol, host } = new URL(text);
  const origin = `${protocol}//${host}`;
  origins.set(text, origin);
  return origin;
}

// Backoff hold: a hold after a failure of the node itself, twice as long after each further one.

const FIRST_HOLD_MS = 100;
const MAX_HOLD_MS = 5000;

class BackoffHold {
  /** Nothing starts before this instant. */
  until = 0;
  /** The number of holds since the last success. */
  count = 0;

  /** Failures during a hold belong to the same event. Returns whether a new hold began. */
  begin(now: number): boolean {
    if (now < this.until) return false;
    this.until = now + Math.min(MAX_HOLD_MS, FIRST_HOLD_MS * 2 ** this.count);
    this.count++;
    return true;
  }

  /** An attempt that started after the hold went well. */
  recordSuccess(): void {
    this.count = 0;
  }
}
