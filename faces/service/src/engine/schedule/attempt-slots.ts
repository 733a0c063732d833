/**
 * Attempt slots: limits how many attempts run at once on this node, and to one origin (scheme, host and
 * port of the target). Callers choose the names of destinations freely, so the limits of destinations
 * do not limit the connections to one server.
 *
 * A claim takes its slots before it is committed. The origin of a task is known only from its row, so a
 * lane remembers the origin of its latest task. If a claimed task has another origin that is full, the
 * claim is returned and the lane waits for a slot of that origin.
 */
import { assertRange } from "@redrive/core";
import type { DestinationLane } from "../destination/destination-runtime.ts";
import { type Hold, type HoldableLane, holdLane, holdOf } from "../destination/lane-hold.ts";
import { BackoffHold } from "./backoff-hold.ts";
import type { TurnCounter } from "./lane-heap.ts";
import { OriginSlots } from "./origin-slots.ts";
import { SlotCount } from "./slot-count.ts";

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
export interface SlotRequest {
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
  /** How often slots were freed. */
  #freed = 0;
  #onFreed: (() => void) | undefined;

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
    this.#freed++;
    if (origin !== undefined) this.#origins.add(origin, tenantId, -count);
    this.#onFreed?.();
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

  /** How often slots were freed. It only grows. */
  get freed(): number {
    return this.#freed;
  }

  /** Calls the listener whenever a slot was freed. */
  onFreed(listener: () => void): void {
    this.#onFreed = listener;
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
