/**
 * Maintenance: what a node does every two seconds, or a fifth of its lease: renew its lease, rescue
 * the claims of lost nodes, load the lanes that are due soon and what other nodes wrote, and remove
 * tasks whose retention is over, idle destinations and rows that nothing uses.
 */
import type { Cancel, Clock } from "@redrive/core";
import type { StartedTask, TaskRef } from "../model/batch.ts";
import type { Store } from "../model/store.ts";
import type { EngineTime } from "../time/engine-time.ts";
import type { CommitQueue } from "./commit/commit-queue.ts";
import type { Destinations } from "./destination/destinations.ts";
import type { GuardSaver } from "./destination/guard-saver.ts";
import type { EngineEvents } from "./events/engine-events.ts";
import type { Exchange } from "./exchange.ts";
import type { Fleet } from "./fleet.ts";
import type { ClockWatch } from "./node/clock-watch.ts";
import type { NodeLease } from "./node/node-lease.ts";
import type { StoreHealth } from "./node/store-health.ts";
import type { Rescuer } from "./run/rescuer.ts";
import type { Runner } from "./run/runner.ts";
import { SLICE_TARGET_MS, SliceSize } from "./slice-size.ts";
import { type Slice, Slices } from "./slices.ts";
import type { StoreSync } from "./store-sync.ts";

export interface MaintenanceParts {
  readonly clock: Clock;
  readonly time: EngineTime;
  readonly store: Store;
  readonly lease: NodeLease;
  readonly exchange: Exchange;
  readonly fleet: Fleet;
  readonly clockWatch: ClockWatch;
  readonly health: StoreHealth;
  readonly events: EngineEvents;
  readonly destinations: Destinations;
  readonly guardSaver: GuardSaver;
  readonly queue: CommitQueue;
  readonly runner: Runner;
  /** Whether the task is in the store of this maintenance, which is one shard of several. */
  readonly isOwn: (task: TaskRef) => boolean;
  readonly rescuer: Rescuer;
  readonly storeSync: StoreSync;
  readonly retentionMs: number | undefined;
  readonly deadLetterRetentionMs: number | undefined;
}

const DAY_MS = 86_400_000;

/** A full slice is repeated after this pause. */
const SWEEP_PAUSE_MS = 10;

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
  #isSweeping = false;
  /** Where the search for unused rows continues, and when. */
  #unusedCursor: string | undefined;
  #unusedAt = 0;
  /** Work in slices, started in each round. */
  readonly #sliced: Slices[] = [];
  readonly #sweepSize = new SliceSize();
  #heldSince = 0;

  constructor(parts: MaintenanceParts) {
    this.#parts = parts;
    this.add(() => this.#removeUnused());
  }

  /** Adds work that each round starts. */
  add(slice: Slice): void {
    const { clock, health } = this.#parts;
    this.#sliced.push(new Slices(clock, slice, (error) => health.recordFailure(error)));
  }

  start(): void {
    const { lease } = this.#parts;
    this.#heldSince = lease.heldSince();
    lease.onLapse(() => this.#checkLease());
    this.#arm();
  }

  stop(): void {
    this.#isStopped = true;
    for (const work of this.#sliced) work.stop();
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
    this.#parts.storeSync.moveHorizon();
    if (this.#isBusy) return;
    this.#isBusy = true;
    const { exchange, fleet, rescuer, health, storeSync, guardSaver, queue } = this.#parts;
    try {
      await exchange.runOnce();
      this.#checkLease();
      await rescuer.runOnce();
      await storeSync.loadDueLanes();
      for (const dropped of this.#parts.destinations.dropIdle()) guardSaver.recordDropped(dropped);
      if (guardSaver.isPending()) queue.request();
      if (!fleet.isSweeper()) return;
      // A sweep that still runs from an earlier round continues on its own.
      if (!this.#isSweeping) await this.#sweep();
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
    const { events, time, runner, lease, isOwn } = this.#parts;
    events.emit(time.now(), { type: "node.lease-lost" });
    const lostBefore = lease.isHeld() ? lease.heldSince() : Number.POSITIVE_INFINITY;
    const isLost = (task: StartedTask) => isOwn(task) && task.claimedAt < lostBefore;
    runner.abort(new Error("the node's lease is lost"), isLost);
  }

  /** A full slice is repeated soon, so that the removal keeps up with new tasks. */
  async #sweep(): Promise<void> {
    const { clock, health } = this.#parts;
    this.#isSweeping = true;
    try {
      this.#isSweeping = (await this.#removeSlice()) && !this.#isStopped;
    } catch (error) {
      this.#isSweeping = false;
      throw error;
    }
    if (!this.#isSweeping) return;
    const failed = (error: unknown) => health.recordFailure(error);
    clock.alarm(SWEEP_PAUSE_MS, () => void this.#sweep().catch(failed), true);
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

  /** True if more may be left. */
  async #removeSlice(): Promise<boolean> {
    const { clock, store, time, retentionMs = 3 * DAY_MS } = this.#parts;
    const { deadLetterRetentionMs = 30 * DAY_MS } = this.#parts;
    const now = time.now();
    const limit = this.#sweepSize.rows;
    const startMs = clock.monotonicMs();
    const blockedMs = () => clock.monotonicMs() - startMs;
    let isCut = false;
    const removing = store.sweep({
      now,
      endedBefore: now - retentionMs,
      deadBefore: now - deadLetterRetentionMs,
      limit,
      isOver: () => {
        isCut ||= blockedMs() >= SLICE_TARGET_MS;
        return isCut;
      },
    });
    const totalMs = blockedMs();
    const removed = await removing;
    const isMore = isCut || removed === limit;
    if (isMore) this.#sweepSize.record(removed, totalMs);
    return isMore;
  }
}
