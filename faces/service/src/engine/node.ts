/**
 * Node state: whether this node may claim tasks and start attempts now. It combines the phase of
 * the engine with the node's lease. The engine writes the phase; the other parts only read it.
 */
import { assertRange, type Cancel, type Clock, formatDuration } from "@redrive/core";
import { PARTITION_VALUES, partitionByteOfKey, partitionOf } from "../model/partition.ts";
import type { ClockState, ClockStatus, EngineTime } from "../time/engine-time.ts";
import type { EngineEvents, EngineEventType } from "./events.ts";

type Phase = "new" | "running" | "stopping" | "stopped";

export class NodeState {
  readonly nodeId: string;
  readonly #lease: NodeLease;
  phase: Phase = "new";
  /** Due lanes of an earlier process are still being loaded. */
  isLoading = false;

  constructor(nodeId: string, lease: NodeLease) {
    this.nodeId = nodeId;
    this.#lease = lease;
  }

  isRunning(): boolean {
    return this.phase === "running";
  }

  isStopped(): boolean {
    return this.phase === "stopped";
  }

  /** The engine runs and the node certainly holds its lease. */
  isActive(): boolean {
    return this.phase === "running" && this.#lease.isCertain();
  }

  /** May the attempt of a claim that was made at `claimedAt` start now? */
  mayStart(claimedAt: number): boolean {
    return this.phase === "running" && this.ownsClaim(claimedAt);
  }

  /** Certainly no other node has taken over a claim that was made at `claimedAt`. */
  ownsClaim(claimedAt: number): boolean {
    return this.#lease.isCertain() && claimedAt >= this.#lease.heldSince();
  }
}

// Node lease: shows that this node is alive. If the node fails to renew it, it aborts its attempts a
// tenth of the length before the lease ends, because other nodes may then take them over. Other systems
// call the length visibility timeout.

const DEFAULT_LEASE_MS = 10_000;
export const MIN_LEASE_MS = 1000;
export const MAX_LEASE_MS = 600_000;

const RENEWALS_PER_LEASE = 5;
const MARGIN_SHARE = 0.1;

/**
 * The wall clock went this much further than the monotonic clock, which stops while a machine sleeps.
 * Either the machine slept, or the clock was set.
 */
const MAX_GAP_MS = 500;

interface NodeLeaseParts {
  readonly clock: Clock;
  readonly time: EngineTime;
  /** No other process uses the store, so the lease cannot be lost. */
  readonly isExclusive: boolean;
  /** 1 second to 10 minutes. Default: 10 seconds. */
  readonly leaseMs?: number | undefined;
}

/** When a renewal was requested. */
interface LeaseRequest {
  readonly monotonicMs: number;
  readonly wallAt: number;
}

export class NodeLease {
  readonly leaseMs: number;
  readonly renewIntervalMs: number;
  readonly #parts: NodeLeaseParts;
  #requested: LeaseRequest | undefined;
  /** When the node stops using the lease, on the monotonic clock. */
  #usableUntilMs = 0;
  #heldSince = 0;
  #onLapse: (() => void) | undefined;
  #cancelLapse: Cancel | undefined;

  constructor(parts: NodeLeaseParts) {
    const { leaseMs = DEFAULT_LEASE_MS } = parts;
    assertRange("leaseMs", leaseMs, MIN_LEASE_MS, MAX_LEASE_MS);
    this.#parts = parts;
    this.leaseMs = leaseMs;
    this.renewIntervalMs = leaseMs / RENEWALS_PER_LEASE;
  }

  /** As far as the monotonic clock can tell. */
  isHeld(): boolean {
    const { clock, isExclusive } = this.#parts;
    return isExclusive ? this.#requested !== undefined : clock.monotonicMs() < this.#usableUntilMs;
  }

  /**
   * False also if the machine may have slept since the last renewal: the lease may have ended. Nothing
   * new is sent until the next renewal tells.
   */
  isCertain(): boolean {
    if (this.#requested === undefined) return false;
    const { clock, isExclusive } = this.#parts;
    if (isExclusive) return true;
    const nowMs = clock.monotonicMs();
    if (nowMs >= this.#usableUntilMs) return false;
    const wallMs = clock.now() - this.#requested.wallAt;
    return wallMs - (nowMs - this.#requested.monotonicMs) <= MAX_GAP_MS;
  }

  /** Since when the lease is held without a gap. Another node may have taken over older claims. */
  heldSince(): number {
    return this.#heldSince;
  }

  /** Calls `listener` when the lease was not renewed in time, shortly before it ends. */
  onLapse(listener: () => void): void {
    this.#onLapse = listener;
  }

  /** Call before each request to renew the lease, and pass the result to `record`. */
  request(): LeaseRequest {
    const { clock } = this.#parts;
    return { monotonicMs: clock.monotonicMs(), wallAt: clock.now() };
  }

  /**
   * The store has renewed the lease. It counts from the request, so the store never sees it end earlier
   * than this node. `wasLapsed`: it had ended before.
   */
  record(requested: LeaseRequest, wasLapsed: boolean): void {
    const { clock, time, isExclusive } = this.#parts;
    const hadGap = wasLapsed || !this.isHeld();
    this.#requested = requested;
    if (isExclusive) return;
    if (hadGap) this.#heldSince = time.now();
    this.#usableUntilMs = requested.monotonicMs + this.leaseMs * (1 - MARGIN_SHARE);
    this.#cancelLapse?.();
    const leftMs = this.#usableUntilMs - clock.monotonicMs();
    this.#cancelLapse = clock.alarm(leftMs, () => this.#onLapse?.(), true);
  }

  /** Ends the watch for the end of the lease. The lease itself lapses. */
  stop(): void {
    this.#onLapse = undefined;
    this.#cancelLapse?.();
  }
}

// Own partitions: the partitions that this node leases, and the partition of each new task. A task
// with a key has the partition of its key. Any other task gets one of this node, so that this node
// attempts it without a wake-up of another one.

/**
 * Tasks without a key share a partition for this long, or until there are this many: then a commit
 * touches few partitions, and a backlog still spreads over all of them.
 */
const TURN_MS = 50;
const TURN_TASKS = 256;

export class OwnPartitions {
  readonly #count: number;
  /** The store has a single partition. */
  readonly isSingle: boolean;
  /** The partitions of the store. */
  readonly all: readonly number[];
  #own: readonly number[] = [];
  #isOwn: readonly boolean[] = [];
  #turn = 0;
  #turnAt = 0;
  #turnTasks = 0;

  /** `count`: the partitions of the store. */
  constructor(count: number) {
    this.#count = count;
    this.isSingle = count === 1;
    this.all = Array.from({ length: count }, (_, partition) => partition);
    this.assign(this.all);
  }

  get list(): readonly number[] {
    return this.#own;
  }

  assign(own: readonly number[]): void {
    this.#own = own;
    this.#isOwn = Array.from({ length: this.#count }, (_, partition) => own.includes(partition));
  }

  has(partition: number): boolean {
    return this.#isOwn[partition] === true;
  }

  of(taskId: string): number {
    return partitionOf(taskId, this.#count);
  }

  /** The byte for the id of a new task. Undefined: any, because the store has one partition. */
  byteFor(tenantId: string, idempotencyKey: string | null, now: number): number | undefined {
    if (idempotencyKey !== null) return partitionByteOfKey(tenantId, idempotencyKey);
    if (this.isSingle) return undefined;
    const turn = this.#turnAfter(now);
    if (this.#own.length === 0) return turn % PARTITION_VALUES;
    // The bits above the partition make the tasks of a node spread in a store with more partitions.
    const partition = this.#own[turn % this.#own.length] as number;
    const rounds = PARTITION_VALUES / this.#count;
    return partition + this.#count * (Math.floor(turn / this.#own.length) % rounds);
  }

  #turnAfter(now: number): number {
    const isOver = now - this.#turnAt >= TURN_MS || this.#turnTasks >= TURN_TASKS;
    if (isOver || now < this.#turnAt) {
      this.#turn++;
      this.#turnAt = now;
      this.#turnTasks = 0;
    }
    this.#turnTasks++;
    return this.#turn;
  }
}

// Clock watch: publishes an event when engine time stops or starts to agree with the wall clock.

const TYPES: Readonly<Record<ClockState, EngineEventType>> = {
  synced: "clock.synced",
  following: "clock.following",
  ahead: "clock.ahead",
  refused: "clock.refused",
};

export class ClockWatch {
  readonly #time: EngineTime;
  readonly #events: EngineEvents;
  #state: ClockState = "synced";

  constructor(time: EngineTime, events: EngineEvents) {
    this.#time = time;
    this.#events = events;
  }

  check(): void {
    const status = this.#time.status();
    if (status.state === this.#state) return;
    this.#state = status.state;
    const event = { type: TYPES[status.state], reason: describeClock(status) };
    this.#events.emit(this.#time.now(), event);
  }
}

/** One sentence about the clock and what the service does. */
function describeClock({ state, skewMs }: ClockStatus): string {
  const side = skewMs > 0 ? "ahead of" : "behind";
  const distance = `the wall clock is ${formatDuration(Math.abs(skewMs))} ${side} engine time`;
  switch (state) {
    case "synced":
      return "the wall clock and engine time agree";
    case "following":
      return `${distance}; engine time follows, by at most an hour every 10 s`;
    case "ahead":
      return `${distance}; engine time runs 1 % slower until they agree`;
    case "refused":
      return `${distance}, which is refused: the service continues on the monotonic clock; set the clock, or restart the service if the clock is right`;
  }
}
