/**
 * Maintenance: what a node does every two seconds, or a fifth of its lease: renew its lease, rescue
 * the claims of lost nodes, and remove tasks whose retention is over, idle destinations and rows that
 * nothing uses.
 */
import type { Cancel, Clock } from "@redrive/core";
import type { StartedTask } from "../model/batch.ts";
import type { Retention, Store } from "../model/store.ts";
import type { EngineTime } from "../time/engine-time.ts";
import type { CommitQueue, StoreHealth } from "./commit.ts";
import type { Destinations } from "./destination-runtime.ts";
import type { DueScan } from "./due-scan.ts";
import type { EngineEvents } from "./events.ts";
import type { Exchange } from "./exchange.ts";
import type { Fleet } from "./fleet.ts";
import type { GuardSaver } from "./guard-saver.ts";
import type { ClockWatch, NodeLease, OwnPartitions } from "./node.ts";
import type { Rescuer } from "./rescuer.ts";
import type { Runner } from "./runner.ts";

interface MaintenanceParts {
  readonly clock: Clock;
  readonly time: EngineTime;
  readonly store: Store;
  readonly lease: NodeLease;
  readonly exchange: Exchange;
  readonly fleet: Fleet;
  readonly partitions: OwnPartitions;
  readonly clockWatch: ClockWatch;
  readonly health: StoreHealth;
  readonly events: EngineEvents;
  readonly destinations: Destinations;
  readonly guardSaver: GuardSaver;
  readonly queue: CommitQueue;
  readonly runner: Runner;
  readonly rescuer: Rescuer;
  readonly dueScan: DueScan;
  readonly retentionMs: number | undefined;
  readonly deadLetterRetentionMs: number | undefined;
}

/** Rows that are examined at once, to see whether anything uses them: half a millisecond. */
const UNUSED_LIMIT = 100;
/** The pause after all rows were examined. */
const UNUSED_PAUSE_MS = 60_000;

export class Maintenance {
  readonly #parts: MaintenanceParts;
  #cancel: Cancel | undefined;
  #isStopped = false;
  #isLost = false;
  #isBusy = false;
  /** Where the search for unused rows continues, and when. */
  #unusedCursor: string | undefined;
  #unusedAt = 0;
  readonly #retention: Slices;
  /** Work in slices of one node of the fleet, started in each round. */
  readonly #sliced: Slices[] = [];
  #heldSince = 0;

  constructor(parts: MaintenanceParts) {
    this.#parts = parts;
    const sweep = new RetentionSweep(parts);
    const pauseMs = (tookMs: number) => sweep.pauseMs(tookMs);
    this.#retention = this.#slicesOf(() => sweep.runOnce(), pauseMs);
    this.add(() => this.#removeUnused());
  }

  /** Adds work that each round of one node of the fleet starts. */
  add(slice: Slice): void {
    this.#sliced.push(this.#slicesOf(slice));
  }

  #slicesOf(slice: Slice, pauseMs?: (tookMs: number) => number): Slices {
    const { clock, health } = this.#parts;
    return new Slices(clock, slice, (error) => health.recordFailure(error), pauseMs);
  }

  start(): void {
    const { lease } = this.#parts;
    this.#heldSince = lease.heldSince();
    lease.onLapse(() => this.#checkLease());
    this.#arm();
  }

  stop(): void {
    this.#isStopped = true;
    for (const work of [this.#retention, ...this.#sliced]) work.stop();
    this.#parts.lease.stop();
    this.#cancel?.();
  }

  #arm(): void {
    if (this.#isStopped) return;
    const { clock, lease } = this.#parts;
    this.#cancel = clock.alarm(lease.renewIntervalMs, () => void this.runOnce(), true);
  }

  /** One round. Never rejects: if the store fails now, the next round tries again. */
  async runOnce(): Promise<void> {
    this.#arm();
    this.#checkLease();
    this.#parts.clockWatch.check();
    this.#parts.dueScan.moveHorizon();
    if (this.#isBusy) return;
    this.#isBusy = true;
    const { exchange, fleet, rescuer, health, guardSaver, queue } = this.#parts;
    try {
      await exchange.runOnce();
      this.#checkLease();
      await rescuer.runOnce();
      for (const dropped of this.#parts.destinations.dropIdle()) guardSaver.recordDropped(dropped);
      if (guardSaver.isPending()) queue.request();
      await this.#retention.start();
      if (!fleet.isSweeper()) return;
      for (const work of this.#sliced) await work.start();
    } catch (error) {
      this.#checkLease();
      if (!this.#isStopped) health.recordFailure(error);
    } finally {
      this.#isBusy = false;
    }
  }

  /** A gap that is already over also counts as a loss: other nodes may have taken over. */
  #checkLease(): void {
    const { lease, queue } = this.#parts;
    if (this.#isStopped) return;
    const wasLost = this.#isLost;
    this.#isLost = !lease.isHeld();
    const hadGap = lease.heldSince() !== this.#heldSince;
    this.#heldSince = lease.heldSince();
    if (hadGap || (this.#isLost && !wasLost)) this.#abortAttempts();
    if (!this.#isLost && (wasLost || hadGap)) queue.request();
  }

  /**
   * An exchange may have renewed the lease before this round noticed the gap. Claims that were made since
   * then are not affected.
   */
  #abortAttempts(): void {
    const { events, time, runner, lease } = this.#parts;
    events.emit(time.now(), { type: "node.lease-lost" });
    const lostBefore = lease.isHeld() ? lease.heldSince() : Number.POSITIVE_INFINITY;
    const isLost = (task: StartedTask) => task.claimedAt < lostBefore;
    runner.abort(new Error("the node's lease is lost"), isLost);
  }

  /** True: something was found, so there may be more. */
  async #removeUnused(): Promise<boolean> {
    const { store, time } = this.#parts;
    const cursor = this.#unusedCursor;
    if (time.now() < this.#unusedAt) return false;
    const found = await store.removeUnused({ now: time.now(), limit: UNUSED_LIMIT, cursor });
    this.#unusedCursor = found.cursor ?? undefined;
    if (found.cursor === null) this.#unusedAt = time.now() + UNUSED_PAUSE_MS;
    return found.removed > 0 && found.cursor !== null;
  }
}

// Slices: background work that is done in short slices, so that nobody waits for it. While a slice
// reports that there is more, the next one follows after a pause.

/** Does a part of the work. True: there is more to do now. */
export type Slice = () => Promise<boolean>;

const PAUSE_MS = 20;

class Slices {
  readonly #clock: Clock;
  readonly #slice: Slice;
  readonly #failed: (error: unknown) => void;
  readonly #pauseMs: (tookMs: number) => number;
  #isActive = false;
  #isStopped = false;

  /** `pauseMs`: the pause after a slice that took `tookMs`. */
  constructor(
    clock: Clock,
    slice: Slice,
    failed: (error: unknown) => void,
    pauseMs: (tookMs: number) => number = () => PAUSE_MS,
  ) {
    this.#clock = clock;
    this.#slice = slice;
    this.#failed = failed;
    this.#pauseMs = pauseMs;
  }

  /** Starts, unless the work of an earlier call still continues. Resolves after the first slice. */
  async start(): Promise<void> {
    if (this.#isActive || this.#isStopped) return;
    this.#isActive = true;
    await this.#runOnce();
  }

  stop(): void {
    this.#isStopped = true;
  }

  /** Never rejects. After a failure, the next start tries again. */
  async #runOnce(): Promise<void> {
    const startMs = this.#clock.monotonicMs();
    try {
      this.#isActive = (await this.#slice()) && !this.#isStopped;
    } catch (error) {
      this.#isActive = false;
      if (!this.#isStopped) this.#failed(error);
    }
    if (!this.#isActive) return;
    const pauseMs = this.#pauseMs(this.#clock.monotonicMs() - startMs);
    this.#clock.alarm(pauseMs, () => void this.#runOnce(), true);
  }
}

// Retention sweep: removes the tasks and keys whose retention is over. Every node removes those of its
// own partitions, so that a fleet removes as fast as it ends tasks. An exclusive store blocks the event
// loop, so it gets short slices; a shared store gets whole batches.

interface RetentionSweepParts {
  readonly clock: Clock;
  readonly time: EngineTime;
  readonly store: Store;
  readonly partitions: OwnPartitions;
  readonly retentionMs: number | undefined;
  readonly deadLetterRetentionMs: number | undefined;
}

const DAY_MS = 86_400_000;

/** Tasks and keys that one call removes from a shared store. */
const BATCH = 2000;

/** What the calls before have passed over is looked for this often. */
const RESTART_MS = 60_000;

/** The pause after a slice of an exclusive store. */
const SLICE_PAUSE_MS = 10;

/**
 * The pause after a batch lasts this part of the time of the batch. It is short: a store that slows down
 * because of its work has as much to remove later, and several calls of other work run beside this one.
 */
const BATCH_PAUSE = 0.1;
const MIN_BATCH_PAUSE_MS = 1;

class RetentionSweep {
  readonly #parts: RetentionSweepParts;
  readonly #sliceSize = new SliceSize();
  #restartMs = Number.NEGATIVE_INFINITY;

  constructor(parts: RetentionSweepParts) {
    this.#parts = parts;
  }

  /** True if more may be left. */
  async runOnce(): Promise<boolean> {
    const { store, partitions } = this.#parts;
    if (store.exclusive) return this.#removeSlice();
    return partitions.list.length > 0 && (await this.#removeBatch());
  }

  /** The pause before the next call, after one that took `tookMs`. */
  pauseMs(tookMs: number): number {
    if (this.#parts.store.exclusive) return SLICE_PAUSE_MS;
    return Math.max(MIN_BATCH_PAUSE_MS, BATCH_PAUSE * tookMs);
  }

  async #removeBatch(): Promise<boolean> {
    const { clock, store, partitions } = this.#parts;
    const nowMs = clock.monotonicMs();
    const isContinued = nowMs < this.#restartMs;
    const range = { partitions: partitions.list, isContinued, limit: BATCH };
    const removed = await store.sweep({ ...this.#ends(), ...range });
    if (!isContinued) this.#restartMs = nowMs + RESTART_MS;
    return removed >= BATCH;
  }

  async #removeSlice(): Promise<boolean> {
    const { clock, store } = this.#parts;
    const limit = this.#sliceSize.rows;
    const startMs = clock.monotonicMs();
    const blockedMs = () => clock.monotonicMs() - startMs;
    let isCut = false;
    const isOver = () => {
      isCut ||= blockedMs() >= SLICE_TARGET_MS;
      return isCut;
    };
    const removing = store.sweep({ ...this.#ends(), limit, isOver });
    const totalMs = blockedMs();
    const removed = await removing;
    const isMore = isCut || removed === limit;
    if (isMore) this.#sliceSize.record(removed, totalMs);
    return isMore;
  }

  #ends(): Pick<Retention, "now" | "endedBefore" | "deadBefore"> {
    const { time, retentionMs = 3 * DAY_MS, deadLetterRetentionMs = 30 * DAY_MS } = this.#parts;
    const now = time.now();
    return { now, endedBefore: now - retentionMs, deadBefore: now - deadLetterRetentionMs };
  }
}

// Slice size: how many rows background work takes at once, so that a slice blocks the event loop for
// about a millisecond. A store on another machine does not block it at all.

/** The intended time of a slice. The next size is proportional to it. */
const SLICE_TARGET_MS = 1;

const MIN_ROWS = 10;
const MAX_ROWS = 200;

export class SliceSize {
  #rows = MIN_ROWS;

  /** The rows of the next slice. */
  get rows(): number {
    return this.#rows;
  }

  /** A slice of `rows` blocked the event loop for `ms`. Grows slowly and shrinks at once. */
  record(rows: number, ms: number): void {
    const fitting = ms > 0 ? Math.floor((rows * SLICE_TARGET_MS) / ms) : MAX_ROWS;
    this.#rows = Math.max(MIN_ROWS, Math.min(MAX_ROWS, fitting, 2 * this.#rows));
  }
}
