/**
 * Scheduler: decides which lanes to claim from, and when to check again. It stores no tasks, only
 * lanes by the instant at which their earliest task is due and permitted. Its memory grows with the
 * number of destinations and its work with the number of due lanes, so a slow, failing or held
 * destination costs the other destinations nothing.
 */
import {
  assertRange,
  concurrencyLimit,
  type Guards,
  type Permit,
  type PermitBatch,
} from "@redrive/core";
import type { ClaimRequest, ClaimResult } from "../model/batch.ts";
import { LANES, type NewTask } from "../model/task.ts";
import type { DestinationLane, DestinationRuntime } from "./destination-runtime.ts";
import {
  beginClaim,
  endClaim,
  endHold,
  type Hold,
  holdLane,
  holdOf,
  isClaiming,
  isDueBefore,
  isReady,
  isWaitingForGuard,
  isWaitingForSlot,
  LaneHeap,
  type LaneTurn,
  setDue,
  setIdle,
  setWaitingForGuard,
  siblingOf,
  TurnCounter,
} from "./lanes.ts";
import { OwnPartitions } from "./node.ts";
import { type AttemptLimits, AttemptSlots, originOf } from "./slots.ts";

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

export class Scheduler {
  readonly #heap: LaneHeap<DestinationRuntime>;
  /** Suspects wait for each other and not for other tasks, so their lanes have their own heap. */
  readonly #suspects: LaneHeap<DestinationRuntime>;
  /** The limits on running attempts. */
  readonly slots: AttemptSlots;
  readonly #partitions: OwnPartitions;
  readonly #checkAheadMs: number;
  readonly #claimAheadMs: number;
  /**
   * Tasks that are due later are not recorded: `DueScan` moves the horizon and then reads them
   * from the store, so memory grows only with what is due soon.
   */
  horizonAt: number = Number.POSITIVE_INFINITY;
  /** What `slots.freed` was when tenants without room were last restored. */
  #freedSeen = 0;
  /** Lanes wait for a slot of the node. */
  waitsForSlot = false;

  /**
   * `partitions`: those of this node. `claimAheadMs`: how long before its due instant a task may be
   * claimed. 0 to 1000.
   */
  constructor(
    limits: AttemptLimits,
    partitions: OwnPartitions = new OwnPartitions(1),
    claimAheadMs = CLAIM_AHEAD_MS,
  ) {
    assertRange("claimAheadMs", claimAheadMs, 0, MAX_CLAIM_AHEAD_MS);
    const turns = new TurnCounter();
    this.#heap = new LaneHeap(turns);
    this.#suspects = new LaneHeap(turns);
    this.#partitions = partitions;
    this.slots = new AttemptSlots(limits, turns);
    this.#claimAheadMs = claimAheadMs;
    this.#checkAheadMs = Math.min(CHECK_AHEAD_MS, claimAheadMs);
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
    this.expectDueAt(lane, dueAt, this.#partitions.of(taskId));
  }

  /** Forgets the tasks of partitions that this node does not lease any more. */
  forgetForeign(lanes: Iterable<DestinationLane>): void {
    for (const lane of lanes) {
      if (!forgetDues(lane, (partition) => this.#partitions.has(partition))) continue;
      // A lane that waits for a slot or a claim is checked when that wait ends.
      if (isWaitingForSlot(lane) || isClaiming(lane)) continue;
      // Its place in the heap is for a task that it may not have any more. So is its wait for a guard:
      // a share of a limit is requested only while a task is due.
      setIdle(lane);
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
    if (!mayStartNow(destination.lanes, task.scheduledAt, now)) return undefined;
    const origin = originOf(task.targetUrl);
    if (!this.slots.mayStart({ tenantId, origin }, now)) return undefined;
    const permit = destination.takePermit(false, now);
    if (permit !== undefined) this.slots.take(tenantId, origin);
    return permit;
  }

  /**
   * Takes permits and slots for tasks that are due now or soon, at most `limit`. With `mayClaimSuspect`,
   * one of them may be a suspect. It comes first, so that a busy destination cannot starve it. When it
   * ends, its permit goes to another task, because the next suspect waits until the end is committed.
   */
  planClaims(now: number, limit: number, mayClaimSuspect: () => boolean): readonly PlannedClaim[] {
    const claims: PlannedClaim[] = [];
    const postponed: DestinationLane[] = [];
    let left = Math.min(limit, this.slots.free(now));
    this.waitsForSlot = left === 0;
    if (left === 0) return claims;
    this.#restoreTenants();
    const withSuspect = !this.#suspects.isEmpty() && mayClaimSuspect();
    const suspect = withSuspect ? this.#planSuspect(now) : undefined;
    if (suspect !== undefined) claims.push(suspect);
    left -= claims.length;
    while (left > 0 && claims.length < MAX_LANES) {
      this.slots.grant(now, (lane) => this.#scheduleOrFree(lane));
      const most = Math.min(left, MAX_LANES - claims.length);
      const due = this.#heap.takeAll(now, most, (tenantId) => this.slots.hasRoomOnNode(tenantId));
      if (due.length === 0) break;
      const planned = this.#planTurns(due, left, now, postponed);
      for (const { permits } of planned) left -= permits.size;
      claims.push(...planned);
    }
    for (const lane of postponed) this.#heap.push(lane, now);
    return claims;
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
    due: readonly LaneTurn<DestinationRuntime>[],
    limit: number,
    now: number,
    postponed: DestinationLane[],
  ): readonly PlannedClaim[] {
    const claims: PlannedClaim[] = [];
    const unused: LaneTurn<DestinationRuntime>[] = [];
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
          share -= planned.permits.size;
          left -= planned.permits.size;
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
    turn: LaneTurn<DestinationRuntime>,
    share: number,
    now: number,
    postponed: DestinationLane[],
  ): PlannedClaim | LaneTurn<DestinationRuntime> | undefined {
    // It was due before its sibling, and has already been claimed in the sibling's turn.
    if (isClaiming(turn.lane)) return undefined;
    const lane = this.#firstOf(turn.lane, now);
    setDue(lane);
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
      setDue(turn.lane);
      const claim = this.#planClaim(turn.lane, 1, now);
      if (claim !== undefined && claim !== NO_ROOM) return claim;
    }
  }

  /** If both lanes of a destination are ready, the one whose task was due first. */
  #firstOf(lane: DestinationLane, now: number): DestinationLane {
    const sibling = siblingOf(lane);
    if (sibling === undefined || isClaiming(sibling) || !isReady(sibling, now)) return lane;
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
    const capacity = this.#capacityOf(lane);
    const { ahead } = capacity;
    const aheadMs = this.#claimAheadMs;
    const available = Math.min(share, lane.dueAt <= now ? capacity.due : ahead);
    if (available === 0) {
      this.#push(lane, lane.dueAt);
      return undefined;
    }
    const partitions = duePartitions(lane, Math.max(now, lane.dueAt) + aheadMs);
    if (partitions.length === 0) {
      setIdle(lane);
      return this.slots.returnGrant(lane);
    }
    const room = this.slots.roomFor(lane, now);
    if (room === 0) return this.#waitForSlot(lane, now);
    const permits = this.#takePermits(lane, { available, room }, capacity, now);
    if (permits.size === 0) return undefined;
    const { origin } = lane;
    this.slots.take(lane.destination.tenantId, origin, permits.size);
    const arrivals = beginClaim(lane, isShared);
    const claim = { lane, partitions, permits, arrivals, origin };
    return plannedClaim(claim, { ahead, aheadMs, isScarce: permits.size < available, now });
  }

  #capacityOf(lane: DestinationLane): ClaimCapacity {
    if (isSuspect(lane)) return ONE_SUSPECT;
    const capacity = claimCapacity(lane.destination, !this.#partitions.isSingle);
    return this.#claimAheadMs > 0 ? capacity : { ...capacity, ahead: 0, tokensMs: 0 };
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

  /**
   * Calls that have to wait for their token use at most half of the room that is left: the rest is for
   * tasks of other destinations, which may start at once.
   */
  #takePermits(
    lane: DestinationLane,
    { available, room }: { readonly available: number; readonly room: number },
    capacity: ClaimCapacity,
    now: number,
  ): PermitBatch {
    const { destination } = lane;
    const isRetry = lane.lane !== "first";
    const permits = destination.batchFor(isRetry);
    destination.takePermits(permits, isRetry, now, 0, Math.min(available, room));
    if (capacity.tokensMs > 0) {
      const most = Math.min(available, Math.ceil((permits.size + room) / 2));
      const firstMs = firstTokenMs(capacity);
      if (permits.size === 0) destination.takePermits(permits, isRetry, now, firstMs, 1);
      const { tokensMs } = capacity;
      if (permits.size > 0) destination.takePermits(permits, isRetry, now, tokensMs, most);
    }
    if (permits.size === 0) this.#park(lane, now);
    else endHold(lane, now);
    return permits;
  }

  #park(lane: DestinationLane, now: number): void {
    const { readyAt, heldBy } = lane.destination;
    holdLane(lane, heldBy, now);
    if (!Number.isFinite(readyAt)) setIdle(lane);
    else if (!isWaitingForGuard(lane) || lane.state.until !== readyAt) this.#push(lane, readyAt);
    setWaitingForGuard(lane, readyAt);
  }

  /** The claim was committed. The result says when the next task of the lane is due. */
  recordClaimed(claim: PlannedClaim, { nextDueAts }: ClaimResult): void {
    endClaim(claim.lane);
    recordDues(claim, nextDueAts, this.horizonAt);
    this.#schedule(claim.lane);
  }

  /** The claim was not made. */
  recordUnclaimed({ lane, count, origin }: PlannedClaim): void {
    endClaim(lane);
    this.slots.release(lane.destination.tenantId, origin, count);
    this.#schedule(lane);
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
      const lane = destination.lanes[name];
      if (lane.state.for !== "guard") continue;
      const isTimed = Number.isFinite(lane.state.until);
      // The guard that holds the lane, and its end, may have changed too.
      if (isTimed && !this.#wouldAdmit(lane, now)) this.#park(lane, now);
      else this.#schedule(lane);
    }
  }

  #wouldAdmit(lane: DestinationLane, now: number): boolean {
    const aheadMs = firstTokenMs(this.#capacityOf(lane));
    return lane.destination.wouldAdmit(lane.lane !== "first", now, aheadMs);
  }

  /** When the next lane is to be checked; Infinity when none waits, or all wait for slots. */
  nextAt(now: number, mayClaimSuspect: () => boolean): number {
    const mayEnter = this.#heap.hasAside() && this.slots.freed !== this.#freedSeen;
    const slotsAt = this.slots.nextAt(now, mayEnter);
    this.waitsForSlot ||= slotsAt === Number.POSITIVE_INFINITY || this.#heap.hasAside();
    if (slotsAt > 0) return slotsAt;
    const at = Math.min(this.#heap.nextAt(), this.slots.nextOriginAt());
    if (this.#suspects.isEmpty() || !mayClaimSuspect()) return at;
    return Math.min(at, this.#suspects.nextAt());
  }

  /** A lane of suspects is not checked early, because suspects are not claimed ahead of time. */
  #schedule(lane: DestinationLane): void {
    const { kind } = lane.state;
    if (!Number.isFinite(lane.dueAt) || kind === "claiming" || isWaitingForSlot(lane)) return;
    this.#push(lane, isSuspect(lane) ? lane.dueAt : lane.dueAt - this.#checkAheadMs);
  }

  #push(lane: DestinationLane, at: number): void {
    (isSuspect(lane) ? this.#suspects : this.#heap).push(lane, at);
  }
}

// Lane turns: small questions about lanes and their turns, for the scheduler.

/** The turns by tenant, in the order of the first turn of each. */
function byTenantOf(
  turns: readonly LaneTurn<DestinationRuntime>[],
): ReadonlyMap<string, readonly LaneTurn<DestinationRuntime>[]> {
  const byTenant = new Map<string, LaneTurn<DestinationRuntime>[]>();
  for (const turn of turns) {
    const { tenantId } = turn.lane.destination;
    const own = byTenant.get(tenantId);
    if (own === undefined) byTenant.set(tenantId, [turn]);
    else own.push(turn);
  }
  return byTenant;
}

function isSuspect({ lane }: DestinationLane): boolean {
  return lane === "suspect";
}

/**
 * Where each call has its own instant (rates, a throttle), permits are taken one by one. The next
 * permit goes to the lane that is then due first, so a lane waits while its sibling is claimed.
 */
function mustWaitForSibling(lane: DestinationLane): boolean {
  const isOneByOne = claimCapacity(lane.destination).due === 1;
  const sibling = siblingOf(lane);
  return isOneByOne && sibling !== undefined && isClaiming(sibling);
}

/**
 * May a new task that is due at `dueAt` start at once, or do older tasks wait for the same permit? A retry
 * that a guard holds does not block it, and neither does a suspect.
 */
function mayStartNow(
  { first, retry }: DestinationRuntime["lanes"],
  dueAt: number,
  now: number,
): boolean {
  if (first.dueAt <= now) return false;
  return retry.dueAt >= Math.min(dueAt, now) || isWaitingForGuard(retry);
}

// Lane dues: when the tasks of a lane are due, by partition. In a store with one partition, a lane has
// only its earliest instant. In others it keeps the earliest instant of each partition of this node, so
// that a claim names the partitions in which tasks are due, and no others.

/** A claim names at most this many partitions. The others follow in the next one. */
const MAX_PARTITIONS = 16;

const SINGLE: readonly number[] = [0];

/** A task is due in that partition. Returns true if it is the earliest of the lane. */
function expectIn(lane: DestinationLane, partition: number, dueAt: number): boolean {
  lane.dueAts ??= new Map();
  setEarlier(lane.dueAts, partition, dueAt);
  if (lane.arrivals !== undefined) setEarlier(lane.arrivals, partition, dueAt);
  const isEarliest = dueAt < lane.dueAt;
  if (isEarliest) lane.dueAt = dueAt;
  return isEarliest;
}

function setEarlier(dueAts: Map<number, number>, partition: number, dueAt: number): void {
  if (dueAt < (dueAts.get(partition) ?? Number.POSITIVE_INFINITY)) dueAts.set(partition, dueAt);
}

/** The partitions with a task that is due at that instant, the earliest first. */
function duePartitions({ dueAts }: DestinationLane, at: number): readonly number[] {
  if (dueAts === undefined) return SINGLE;
  const due = [...dueAts].filter(([, dueAt]) => dueAt <= at);
  due.sort(([, one], [, other]) => one - other);
  return due.slice(0, MAX_PARTITIONS).map(([partition]) => partition);
}

/** A claim has found when the next tasks are due. Later ones than `horizonAt` are not kept. */
function recordDues(
  { lane, partitions, arrivals }: Pick<PlannedClaim, "lane" | "partitions" | "arrivals">,
  nextDueAts: readonly (number | null)[],
  horizonAt: number,
): void {
  const { dueAts } = lane;
  if (dueAts === undefined) {
    lane.dueAt = knownDueAt(nextDueAts[0], horizonAt);
    return;
  }
  for (const [index, partition] of partitions.entries()) {
    const dueAt = knownDueAt(nextDueAts[index], horizonAt);
    if (Number.isFinite(dueAt)) dueAts.set(partition, dueAt);
    else dueAts.delete(partition);
  }
  for (const [partition, dueAt] of arrivals ?? []) setEarlier(dueAts, partition, dueAt);
  lane.dueAt = earliestOf(dueAts);
}

/** Forgets partitions that this node does not lease any more. Returns true if it had any. */
function forgetDues(lane: DestinationLane, isOwn: (partition: number) => boolean): boolean {
  const { dueAts } = lane;
  if (dueAts === undefined) return false;
  const foreign = [...dueAts.keys()].filter((partition) => !isOwn(partition));
  for (const partition of foreign) dueAts.delete(partition);
  lane.dueAt = earliestOf(dueAts);
  return foreign.length > 0;
}

function knownDueAt(dueAt: number | null | undefined, horizonAt: number): number {
  if (dueAt === null || dueAt === undefined) return Number.POSITIVE_INFINITY;
  return dueAt <= horizonAt ? dueAt : Number.POSITIVE_INFINITY;
}

function earliestOf(dueAts: ReadonlyMap<number, number>): number {
  let earliest = Number.POSITIVE_INFINITY;
  for (const dueAt of dueAts.values()) if (dueAt < earliest) earliest = dueAt;
  return earliest;
}

// Planned claim: a claim that the scheduler plans, and the request to the store that makes it.

/** A claim to make: its permits are already taken. */
export interface PlannedClaim {
  readonly lane: DestinationLane;
  /** The partitions to claim from. */
  readonly partitions: readonly number[];
  readonly permits: PermitBatch;
  /** The number of permits and of slots that were taken. */
  readonly count: number;
  /** What the lane learns until the claim is committed; undefined in a store with one partition. */
  readonly arrivals: ReadonlyMap<number, number> | undefined;
  /** The origin whose slots were taken, one for each permit; undefined: the origin is not known. */
  readonly origin: string | undefined;
  /** How many tasks that are due soon may be claimed together with the due tasks. */
  readonly ahead: number;
  /** How soon. Negative: only tasks that have been due for this long, as another lane is next. */
  readonly aheadMs: number;
}

interface Reach extends Pick<PlannedClaim, "ahead" | "aheadMs"> {
  /** There are fewer permits than the lane could use. */
  readonly isScarce: boolean;
  readonly now: number;
}

/** If permits are scarce, no task of the lane may overtake an older task of the other lane. */
export function plannedClaim(
  {
    lane,
    partitions,
    permits,
    arrivals,
    origin,
  }: Omit<PlannedClaim, "ahead" | "aheadMs" | "count">,
  { ahead, aheadMs, isScarce, now }: Reach,
): PlannedClaim {
  const sibling = isScarce ? siblingOf(lane) : undefined;
  const isFree = sibling === undefined || !isReady(sibling, now);
  const count = permits.size;
  if (isFree) return { lane, partitions, permits, count, arrivals, origin, ahead, aheadMs };
  const olderMs = (lane.lane === "first" ? sibling.dueAt : sibling.dueAt - 1) - now;
  const reachMs = Math.min(0, olderMs);
  return { lane, partitions, permits, count, arrivals, origin, ahead: 0, aheadMs: reachMs };
}

export function isSuspectClaim({ lane }: PlannedClaim): boolean {
  return lane.lane === "suspect";
}

/** The claims were committed. They have seen the other items of their commit. */
export function stopArrivals(claims: readonly PlannedClaim[]): void {
  for (const { lane } of claims) lane.arrivals = undefined;
}

export function claimRequestOf(
  { lane, partitions, count, ahead, aheadMs }: PlannedClaim,
  version: number,
): ClaimRequest {
  const { tenantId, name } = lane.destination;
  return {
    tenantId,
    destination: name,
    lane: lane.lane,
    partitions,
    limit: count,
    aheadMs: ahead > 0 ? aheadMs : Math.min(0, aheadMs),
    aheadLimit: ahead,
    version,
  };
}

// Claim capacity: how many permits of a destination one claim may take, due and ahead of time.

interface ClaimCapacity {
  readonly due: number;
  /** For tasks that are due in a few milliseconds. At most `due`. */
  readonly ahead: number;
  /** The tokens of a rate within this time may be claimed now. */
  readonly tokensMs: number;
}

/** A claim takes the tokens of a rate of this time, and the next one follows after half of it. */
const TOKENS_MS = 50;

/**
 * A node runs one suspect at a time. It is not claimed ahead of time: a crash before the request was
 * sent would dead-letter it as poison.
 */
const ONE_SUSPECT: ClaimCapacity = { due: 1, ahead: 0, tokensMs: 0 };

/**
 * The adaptive rate and the throttle decide from the latest responses, and those of a claim that was
 * made ahead of time are not known yet. What they take cannot be returned exactly once a later call has
 * taken its part. So their permits are taken one by one and never ahead of time.
 */
const ONE_BY_ONE: ClaimCapacity = { due: 1, ahead: 0, tokensMs: 0 };

/** One commit sends at most this many requests, so it need not claim more. */
const MAX_PERMITS = 64;
/** In a shared store, a commit takes longer and costs more, so it claims more. */
const MAX_SHARED_PERMITS = 128;

export function claimCapacity(
  { admission: { guards } }: { readonly admission: { readonly guards: Guards } },
  isShared = false,
): ClaimCapacity {
  const { rate, adaptiveRate, throttle, breaker } = guards;
  if (adaptiveRate || throttle) return ONE_BY_ONE;
  const due = isShared ? MAX_SHARED_PERMITS : MAX_PERMITS;
  if (rate === undefined) return { due, ahead: Math.min(due, aheadCapacity(guards)), tokensMs: 0 };
  // The calls have their own instants already. A probe is made once there is a token, because the others
  // wait for it.
  return { due, ahead: 0, tokensMs: isClosed(breaker) ? TOKENS_MS : 0 };
}

/** How soon there must be a token for a claim of the lane, which then takes those that follow too. */
function firstTokenMs({ tokensMs }: ClaimCapacity): number {
  return tokensMs / 2;
}

function isClosed(breaker: Guards["breaker"]): boolean {
  return breaker === undefined || breaker.state === "CLOSED";
}

/** 0 for the probe of a breaker, because the others wait for it. Half is kept for due tasks. */
function aheadCapacity({ breaker, concurrency }: Guards): number {
  if (!isClosed(breaker)) return 0;
  if (concurrency === undefined) return Number.POSITIVE_INFINITY;
  return Math.max(0, Math.floor(concurrencyLimit(concurrency) / 2) - concurrency.inFlight);
}

// Assign slots: gives the slots that a claim has taken to the tasks that it found.

/** Returns the origin of each task that may start; undefined if its origin has no slot. */
export function assignSlots(
  slots: AttemptSlots,
  { lane, count, origin: reserved }: PlannedClaim,
  { tasks }: ClaimResult,
  now: number,
): readonly (string | undefined)[] {
  const { tenantId } = lane.destination;
  let fullOrigin: string | undefined;
  const origins = tasks.map(({ targetUrl }) => {
    const origin = originOf(targetUrl);
    lane.origin = origin;
    if (slots.assign({ tenantId, origin }, reserved, now)) return origin;
    fullOrigin = origin;
    return undefined;
  });
  // The next task is one that could not start.
  lane.origin = fullOrigin ?? lane.origin;
  const unused = count - tasks.length;
  if (unused > 0) slots.release(tenantId, reserved, unused);
  return origins;
}
