/**
 * Scheduler: decides which lanes to claim from, and when to check again. It stores no tasks, only
 * lanes by the instant at which their earliest task is due and permitted. Its memory grows with the
 * number of destinations and its work with the number of due lanes, so a slow, failing or held
 * destination costs the other destinations nothing.
 */
import { assertRange, type Permit } from "@redrive/core";
import type { ClaimResult } from "../../model/batch.ts";
import { LANES, type Lane, type NewTask } from "../../model/task.ts";
import type { DestinationLane, DestinationRuntime } from "../destination/destination-runtime.ts";
import { endHold, type Hold, holdLane, holdOf } from "../destination/lane-hold.ts";
import { isDueBefore, isReady, siblingOf } from "../destination/waiting-lane.ts";
import { OwnPartitions } from "../node/own-partitions.ts";
import type { AttemptLimits, AttemptSlots } from "./attempt-slots.ts";
import { claimCapacity, ONE_SUSPECT } from "./claim-capacity.ts";
import { EarliestDues } from "./earliest-dues.ts";
import { duePartitions, expectIn, forgetDues, laneDueOf, recordDues } from "./lane-dues.ts";
import { LaneHeap, type LaneTurn } from "./lane-heap.ts";
import { byTenantOf, isSuspect, mayStartNow, mustWaitForSibling } from "./lane-turns.ts";
import { originOf } from "./origin.ts";
import { beginClaim, endClaim, type PlannedClaim, plannedClaim } from "./planned-claim.ts";
import { SharedTurns } from "./shared-turns.ts";

/** Further lanes wait for the next commit. */
const MAX_LANES = 64;

/**
 * A lane is checked this long before its earliest task is due, so that the commit of the claim,
 * including a slow fsync, ends in time. Tasks that are due soon after are claimed in the same
 * commit, so that there is a commit every few milliseconds and not one per task.
 */
const CHECK_AHEAD_MS = 5;
const CLAIM_AHEAD_MS = 8;
const MAX_CLAIM_AHEAD_MS = 1000;

/** A suspect whose origin is full is checked again after this time. It takes no slot meanwhile. */
const SUSPECT_RECHECK_MS = 1000;

/** The tenant may take no slot of the node now. */
const NO_ROOM = Symbol("no room on the node");

/** What the parts that serve all shards need of a scheduler. `Schedulers` serves several. */
export type Schedule = Pick<Scheduler, "slots" | "laneOf" | "expectTask" | "unblock">;

export class Scheduler {
  readonly #heap: LaneHeap;
  /** Suspects wait for each other and not for other tasks, so their lanes have their own heap. */
  readonly #suspects: LaneHeap;
  /** The shard of the store whose lanes it schedules. */
  readonly shard: number;
  /** The limits on running attempts. */
  readonly slots: AttemptSlots;
  readonly #partitions: OwnPartitions;
  /**
   * What this node has made wait since its last exchange. If the exchange shows that another node
   * leases a partition, that node may have loaded it before, and gets hints.
   */
  readonly recent = new EarliestDues();
  readonly #checkAheadMs: number;
  readonly #claimAheadMs: number;
  /**
   * Tasks that are due later are not recorded: `StoreSync` moves the horizon and then reads them
   * from the store, so memory grows only with what is due soon.
   */
  horizonAt: number = Number.POSITIVE_INFINITY;
  /** What `slots.freed` was when tenants without room were last restored. */
  #freedSeen = 0;
  /** Lanes wait for a slot of the node. */
  waitsForSlot = false;
  /** A lane of another shard got a slot. Its own scheduler checks it. */
  onForeign: (lane: DestinationLane) => void = () => {};

  /**
   * `partitions`: those of this node. `claimAheadMs`: how long before its due instant a task may be
   * claimed. 0 to 1000.
   */
  constructor(
    limits: AttemptLimits | SharedTurns,
    partitions: OwnPartitions = new OwnPartitions(1),
    claimAheadMs = CLAIM_AHEAD_MS,
    shard = 0,
  ) {
    assertRange("claimAheadMs", claimAheadMs, 0, MAX_CLAIM_AHEAD_MS);
    const shared = limits instanceof SharedTurns ? limits : new SharedTurns(limits);
    this.#heap = new LaneHeap(shared.turns);
    this.#suspects = new LaneHeap(shared.turns);
    this.shard = shard;
    this.#partitions = partitions;
    this.slots = shared.slots;
    this.#claimAheadMs = claimAheadMs;
    this.#checkAheadMs = Math.min(CHECK_AHEAD_MS, claimAheadMs);
  }

  /** The lanes of a destination on this shard. */
  lanesOf(destination: DestinationRuntime): DestinationRuntime["lanes"] {
    return destination.lanesOf(this.shard);
  }

  /** The lane in which the task waits. */
  laneOf(destination: DestinationRuntime, lane: Lane, _taskId: string): DestinationLane {
    return this.lanesOf(destination)[lane];
  }

  /** A task of the lane is due at that instant. Another node claims the tasks of other partitions. */
  expectDueAt(lane: DestinationLane, dueAt: number, partition = 0): void {
    if (dueAt > this.horizonAt) return;
    if (!this.#partitions.isSingle) {
      if (!this.#partitions.has(partition) || !expectIn(lane, partition, dueAt)) return;
    } else if (dueAt < lane.dueAt) lane.dueAt = dueAt;
    else return;
    this.#schedule(lane);
  }

  /** The task waits in the lane until that instant. */
  expectTask(lane: DestinationLane, taskId: string, dueAt: number): void {
    const partition = this.#partitions.of(taskId);
    if (!this.#partitions.isSingle) this.recent.add(laneDueOf(lane, partition, dueAt));
    this.expectDueAt(lane, dueAt, partition);
  }

  /** Forgets the tasks of partitions that this node does not lease any more. */
  forgetForeign(lanes: Iterable<DestinationLane>): void {
    for (const lane of lanes) {
      if (!forgetDues(lane, (partition) => this.#partitions.has(partition))) continue;
      // A lane that waits for a slot or a claim is checked when that wait ends.
      if (lane.isQueued || lane.isClaimed) continue;
      // Its place in the heap is for a task that it may not have any more. So is its wait for a guard:
      // a share of a limit is requested only while a task is due.
      lane.stamp++;
      this.#scheduleOrFree(lane);
    }
  }

  /** A lane without tasks keeps no slot. */
  #scheduleOrFree(lane: DestinationLane): void {
    if (Number.isFinite(lane.dueAt)) this.#schedule(lane);
    else this.slots.returnGrant(lane);
  }

  /**
   * A permit and a slot for a new task that is due, if it may start at once. Otherwise it waits in its
   * lane.
   */
  takeStart(destination: DestinationRuntime, task: NewTask, now: number): Permit | undefined {
    const { tenantId } = task;
    if (!mayStartNow(this.lanesOf(destination), task.scheduledAt, now)) return undefined;
    const origin = originOf(task.targetUrl);
    if (!this.slots.mayStart({ tenantId, origin }, now)) return undefined;
    const permit = destination.takePermit(false, now);
    if (permit !== undefined) this.slots.take(tenantId, origin);
    return permit;
  }

  /**
   * Takes permits and slots for tasks that are due now or soon, at most `limit`. With `withSuspect`,
   * one of them may be a suspect. It comes first, so that a busy destination cannot starve it. When it
   * ends, its permit goes to another task, because the next suspect waits until the end is committed.
   */
  planClaims(now: number, limit: number, withSuspect: boolean): readonly PlannedClaim[] {
    const claims: PlannedClaim[] = [];
    const postponed: DestinationLane[] = [];
    let left = Math.min(limit, this.slots.free(now));
    this.waitsForSlot = left === 0;
    if (left === 0) return claims;
    this.#restoreTenants();
    const suspect = withSuspect ? this.#planSuspect(now) : undefined;
    if (suspect !== undefined) claims.push(suspect);
    left -= claims.length;
    while (left > 0 && claims.length < MAX_LANES) {
      this.slots.grant(now, (lane) => this.checkGranted(lane));
      const most = Math.min(left, MAX_LANES - claims.length);
      const due = this.#heap.takeAll(now, most, (tenantId) => this.slots.hasRoomOnNode(tenantId));
      if (due.length === 0) break;
      const planned = this.#planTurns(due, left, now, postponed);
      for (const { permits } of planned) left -= permits.length;
      claims.push(...planned);
    }
    for (const lane of postponed) this.#heap.push(lane, now);
    return claims;
  }

  /** A slot was taken for the lane, which is to be checked. */
  checkGranted(lane: DestinationLane): void {
    if (lane.shard === this.shard) this.#scheduleOrFree(lane);
    else this.onForeign(lane);
  }

  /** Slots were freed, so tenants that had no room may have some. */
  #restoreTenants(): void {
    if (this.slots.freed === this.#freedSeen) return;
    this.#freedSeen = this.slots.freed;
    this.#heap.restore();
    this.#suspects.restore();
  }

  /**
   * The tenants share the limit equally, and so do the lanes of a tenant, so that a deep lane leaves
   * room for those after it. Each lane may take at least one permit: a lane for which there is none
   * keeps its place.
   */
  #planTurns(
    due: readonly LaneTurn[],
    limit: number,
    now: number,
    postponed: DestinationLane[],
  ): readonly PlannedClaim[] {
    const claims: PlannedClaim[] = [];
    const unused: LaneTurn[] = [];
    const byTenant = byTenantOf(due);
    let left = limit;
    let tenants = byTenant.size;
    for (const turns of byTenant.values()) {
      let share = Math.floor(left / tenants--);
      const count = Math.min(turns.length, share);
      unused.push(...turns.slice(count));
      for (const [index, turn] of turns.slice(0, count).entries()) {
        const planned = this.#planTurn(turn, Math.floor(share / (count - index)), now, postponed);
        if (planned === undefined) continue;
        if ("permits" in planned) {
          claims.push(planned);
          share -= planned.permits.length;
          left -= planned.permits.length;
        } else unused.push(planned);
      }
    }
    for (const turn of unused.reverse()) this.#heap.putBack(turn);
    return claims;
  }

  /**
   * The turn of a lane. If it must wait for the commit of its sibling, it is added to `postponed`.
   * Returns a claim, the turn of a lane that finds no room on the node, or neither.
   */
  #planTurn(
    turn: LaneTurn,
    share: number,
    now: number,
    postponed: DestinationLane[],
  ): PlannedClaim | LaneTurn | undefined {
    // It was due before its sibling, and has already been claimed in the sibling's turn.
    if (turn.lane.isClaimed) return undefined;
    const lane = this.#firstOf(turn.lane, now);
    lane.parked = false;
    if (mustWaitForSibling(lane)) {
      postponed.push(lane);
      return undefined;
    }
    const claim = this.#planClaim(lane, share, now);
    return claim === NO_ROOM ? { ...turn, lane } : claim;
  }

  /** A claim of the first due suspect whose destination admits it. */
  #planSuspect(now: number): PlannedClaim | undefined {
    for (;;) {
      const turn = this.#suspects.take(now, (tenantId) => this.slots.hasRoomOnNode(tenantId));
      if (turn === undefined) return undefined;
      turn.lane.parked = false;
      const claim = this.#planClaim(turn.lane, 1, now);
      if (claim !== undefined && claim !== NO_ROOM) return claim;
    }
  }

  /** If both lanes of a destination are ready, the one whose task was due first. */
  #firstOf(lane: DestinationLane, now: number): DestinationLane {
    const sibling = siblingOf(lane);
    if (sibling === undefined || sibling.isClaimed || !isReady(sibling, now)) return lane;
    if (!isDueBefore(sibling, lane)) return lane;
    this.#heap.push(lane, now);
    sibling.stamp++;
    sibling.turn = lane.turn;
    return sibling;
  }

  /** Due tasks may take every permit; tasks that are due soon take only spare ones. */
  #planClaim(
    lane: DestinationLane,
    share: number,
    now: number,
  ): PlannedClaim | typeof NO_ROOM | undefined {
    const isShared = !this.#partitions.isSingle;
    const capacity = isSuspect(lane) ? ONE_SUSPECT : claimCapacity(lane.destination, isShared);
    const aheadMs = this.#claimAheadMs;
    const ahead = aheadMs === 0 ? 0 : capacity.ahead;
    const available = Math.min(share, lane.dueAt <= now ? capacity.due : ahead);
    if (available === 0) {
      this.#push(lane, lane.dueAt);
      return undefined;
    }
    const partitions = duePartitions(lane, Math.max(now, lane.dueAt) + aheadMs);
    if (partitions.length === 0) return this.slots.returnGrant(lane);
    const room = this.slots.roomFor(lane, now);
    if (room === 0) return this.#waitForSlot(lane, now);
    const permits = this.#takePermits(lane, Math.min(available, room), now);
    if (permits.length === 0) return undefined;
    const { origin } = lane;
    this.slots.take(lane.destination.tenantId, origin, permits.length);
    const arrivals = beginClaim(lane, isShared);
    const claim = { lane, partitions, permits, arrivals, origin };
    return plannedClaim(claim, { ahead, aheadMs, isScarce: permits.length < available, now });
  }

  #waitForSlot(lane: DestinationLane, now: number): typeof NO_ROOM | undefined {
    if (!this.slots.hasRoomOnNode(lane.destination.tenantId)) {
      if (isSuspect(lane)) this.#push(lane, lane.dueAt);
      return NO_ROOM;
    }
    if (!isSuspect(lane)) this.slots.wait(lane, now);
    else {
      holdLane(lane, "concurrency", now);
      this.#push(lane, now + SUSPECT_RECHECK_MS);
    }
    return undefined;
  }

  #takePermits(lane: DestinationLane, max: number, now: number): Permit[] {
    const permits: Permit[] = [];
    while (permits.length < max) {
      const permit = lane.destination.takePermit(lane.lane !== "first", now);
      if (permit === undefined) break;
      permits.push(permit);
    }
    if (permits.length === 0) this.#park(lane, now);
    else endHold(lane, now);
    return permits;
  }

  #park(lane: DestinationLane, now: number): void {
    const { readyAt, heldBy } = lane.destination;
    holdLane(lane, heldBy, now);
    if (Number.isFinite(readyAt)) {
      if (!lane.parked || lane.parkedUntil !== readyAt) this.#push(lane, readyAt);
      lane.parked = true;
      lane.parkedUntil = readyAt;
    } else this.#block(lane);
  }

  #block(lane: DestinationLane): void {
    lane.stamp++;
    lane.parked = false;
    lane.blocked = true;
  }

  /** The claim was committed. The result says when the next task of the lane is due. */
  recordClaimed(claim: PlannedClaim, { nextDueAts }: ClaimResult): void {
    endClaim(claim.lane);
    recordDues(claim, nextDueAts, this.horizonAt);
    this.#schedule(claim.lane);
  }

  /** The claim was not made. `isBlocked`: the lane waits until its destination changes. */
  recordUnclaimed({ lane, permits, origin }: PlannedClaim, isBlocked = false): void {
    endClaim(lane);
    this.slots.release(lane.destination.tenantId, origin, permits.length);
    if (isBlocked) this.#block(lane);
    else this.#schedule(lane);
  }

  /** What held a task of the lane after it was due: a guard, or the limit of the node. */
  holdOf(lane: DestinationLane, dueAt: number): Hold | undefined {
    return holdOf(lane, dueAt) ?? this.slots.nodeHoldOf(dueAt);
  }

  /**
   * Something changed at a destination. Blocked lanes are checked again. Lanes that wait for an
   * instant are released if they would be admitted now, for example after the probe of a breaker
   * succeeded or a guard was removed.
   */
  unblock(destination: DestinationRuntime, now: number): void {
    for (const name of LANES) {
      const lane = this.lanesOf(destination)[name];
      const isHeld = lane.parked && !destination.wouldAdmit(lane.lane !== "first", now);
      // The guard that holds the lane, and its end, may have changed too.
      if (isHeld) this.#park(lane, now);
      else if (lane.blocked || lane.parked) this.#schedule(lane);
    }
  }

  /** When the next lane is to be checked; Infinity when none waits, or all wait for slots. */
  nextAt(now: number, withSuspect: boolean): number {
    const mayEnter = this.#heap.hasAside() && this.slots.freed !== this.#freedSeen;
    const slotsAt = this.slots.nextAt(now, mayEnter);
    this.waitsForSlot ||= slotsAt === Number.POSITIVE_INFINITY || this.#heap.hasAside();
    if (slotsAt > 0) return slotsAt;
    const at = Math.min(this.#heap.nextAt(), this.slots.nextOriginAt());
    return withSuspect ? Math.min(at, this.#suspects.nextAt()) : at;
  }

  /** A lane of suspects is not checked early, because suspects are not claimed ahead of time. */
  #schedule(lane: DestinationLane): void {
    if (!Number.isFinite(lane.dueAt) || lane.isQueued) return;
    this.#push(lane, isSuspect(lane) ? lane.dueAt : lane.dueAt - this.#checkAheadMs);
  }

  #push(lane: DestinationLane, at: number): void {
    (isSuspect(lane) ? this.#suspects : this.#heap).push(lane, at);
  }
}
