/**
 * Due scan: reads from the store which lanes of this node's partitions are due. It is the only way in
 * which a node learns of a task that it has not stored itself; a wake-up makes it quicker, and may be lost.
 * What is due later than the horizon is left to later reads, so no cost grows with what waits for later.
 * In a shared store, the node reads what is due about now every second, and all that is overdue when it
 * gains partitions, when wake-ups may be lost, and every minute. There is one read at a time, each is
 * bounded, nothing waits for them, and a slow store never gets more of them than a fast one.
 */
import type { Cancel, Clock } from "@redrive/core";
import { GUARD_DOCUMENT } from "../model/document-table.ts";
import { type LaneDue, WAKE_UP_MS } from "../model/lane-due.ts";
import type { DueQuery, Store } from "../model/store.ts";
import type { EngineTime } from "../time/engine-time.ts";
import type { CommitQueue, StoreHealth } from "./commit.ts";
import type { Destinations } from "./destination-runtime.ts";
import type { NodeState, OwnPartitions } from "./node.ts";
import type { Scheduler } from "./scheduler.ts";

interface DueScanParts {
  readonly clock: Clock;
  readonly store: Store;
  readonly time: EngineTime;
  readonly node: NodeState;
  readonly health: StoreHealth;
  readonly partitions: OwnPartitions;
  readonly destinations: Destinations;
  readonly scheduler: Scheduler;
  readonly queue: CommitQueue;
}

interface Pace {
  /** A lane that is due later is read later. */
  readonly horizonMs: number;
  /** What is due about now is read this often. Infinity: only with the rest. */
  readonly soonMs: number;
  /** How long ago a task may have been due when it is stored, so that the next read finds it. */
  readonly lookBackMs: number;
  /** Everything that is due is read this often. */
  readonly allMs: number;
}

/** Nobody else stores tasks. What this node stores, it knows. */
const EXCLUSIVE: Pace = {
  horizonMs: 600_000,
  soonMs: Number.POSITIVE_INFINITY,
  lookBackMs: 0,
  allMs: 300_000,
};

const SHARED: Pace = { horizonMs: WAKE_UP_MS, soonMs: 1000, lookBackMs: 2000, allMs: 60_000 };

/**
 * After partitions were gained or a commit has failed, everything is read once more after this time: the
 * last commits of the node that had them, or the failed one, have then ended.
 */
const SETTLED_MS = 10_000;

/** Lanes, or rows, of one page: a few milliseconds of the server, and of the main thread. */
const PAGE = 512;

/**
 * A pause lasts this many times as long as the read before it, and at most so long: if a start may wait
 * for the next one, and if not.
 */
const URGENT_PAUSE = { factor: 1, maxMs: 1000 };
const QUIET_PAUSE = { factor: 20, maxMs: 60_000 };

/** The clock may be set, or the machine may have slept: the time of the next read is checked this often. */
const CHECK_MS = 60_000;

/** After a read that failed. */
const FAILED_PAUSE_MS = 1000;

/** Everything that is due in these partitions, as far as it was read. */
interface Sweep {
  readonly partitions: readonly number[];
  readonly before: number;
  readonly isUrgent: boolean;
  cursor: string | undefined;
}

export class DueScan {
  readonly #parts: DueScanParts;
  readonly #pace: Pace;
  #cancel: Cancel | undefined;
  #isStopped = false;
  #isReading = false;
  /** The partitions that were gained since a moment ago are read first. */
  #gained: Sweep | undefined;
  #all: Sweep | undefined;
  /** All is read once more, after the running sweep. */
  #isAllMissing = false;
  /** On the monotonic clock: engine time may be set back. */
  #nextSoonMs = 0;
  #nextAllMs = 0;
  /** The next page of a sweep for which no start waits is read then. */
  #quietMs = 0;
  #allBeganMs = Number.NEGATIVE_INFINITY;
  /** On engine time: it may pass the horizon in one step, when the machine has slept. */
  #nextAllAt = 0;
  /** No read of what is due before this instant has failed or is missing. */
  #coveredUntil = 0;

  constructor(parts: DueScanParts) {
    this.#parts = parts;
    this.#pace = parts.store.exclusive ? EXCLUSIVE : SHARED;
  }

  /**
   * Reads the first page of what is due. The others follow while the node runs. Until then no new task is
   * stored as claimed, because it might overtake older tasks of its destination.
   */
  async start(): Promise<void> {
    const { node, time, store, clock } = this.#parts;
    this.#coveredUntil = time.now();
    this.#nextSoonMs = clock.monotonicMs();
    if (Number.isFinite(this.#pace.soonMs)) await this.#readSoon();
    this.#beginAll(true);
    if (!store.exclusive) this.#readAllSettled();
    node.isLoading = true;
    await this.#readSweep();
    this.#arm(0);
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel?.();
  }

  /** Wake-ups may have been lost. */
  readAll(): void {
    if (this.#all !== undefined) this.#isAllMissing = true;
    else this.#beginAll(true);
    this.#wake();
  }

  /** This node leases these partitions since now. */
  readGained(gained: readonly number[]): void {
    const partitions = [...new Set([...(this.#gained?.partitions ?? []), ...gained])];
    this.#gained = { partitions, ...this.#newSweep(true) };
    this.#readAllSettled();
    this.#wake();
  }

  /** The last commits of the node that had a partition may end after this one has read it. */
  #readAllSettled(): void {
    const settledMs = this.#parts.clock.monotonicMs() + SETTLED_MS;
    this.#nextAllMs = Math.min(this.#nextAllMs, settledMs);
  }

  #wake(): void {
    if (!this.#isReading && this.#cancel !== undefined) this.#arm(0);
  }

  #beginAll(isUrgent: boolean): void {
    const { clock, time, partitions } = this.#parts;
    const nowMs = clock.monotonicMs();
    this.#all = { partitions: partitions.list, ...this.#newSweep(isUrgent) };
    this.#isAllMissing = false;
    this.#allBeganMs = nowMs;
    this.#nextAllMs = nowMs + this.#pace.allMs;
    this.#nextAllAt = time.now() + this.#pace.allMs;
  }

  #newSweep(isUrgent: boolean): Omit<Sweep, "partitions"> {
    return { before: this.moveHorizon() + 1, isUrgent, cursor: undefined };
  }

  /**
   * When everything is read again. A commit that failed may have stored tasks: then once it has ended.
   */
  #allMs(): number {
    const { store, health, time } = this.#parts;
    if (time.now() >= this.#nextAllAt) return 0;
    const endedMs = health.commitFailedMs + SETTLED_MS;
    const isMissing = !store.exclusive && this.#allBeganMs < endedMs;
    return isMissing ? Math.min(this.#nextAllMs, endedMs) : this.#nextAllMs;
  }

  /**
   * A task that becomes known from now on is either before the horizon, or in a later read. Also called
   * while a read takes long.
   */
  moveHorizon(): number {
    const { time, scheduler } = this.#parts;
    scheduler.horizonAt = time.now() + this.#pace.horizonMs;
    return scheduler.horizonAt;
  }

  #arm(ms: number): void {
    this.#cancel?.();
    if (this.#isStopped) return;
    this.#cancel = this.#parts.clock.alarm(ms, () => void this.#turn(), true);
  }

  /** One read, and the alarm for the next one. Never rejects. */
  async #turn(): Promise<void> {
    const { clock, node, health } = this.#parts;
    if (this.#isReading || node.isStopped()) return;
    this.#isReading = true;
    const startMs = clock.monotonicMs();
    const isSoon = startMs >= this.#soonMs();
    let minMs = 0;
    try {
      if (isSoon) await this.#readSoon();
      else if (startMs >= this.#sweepMs()) await this.#readSweep();
    } catch (error) {
      minMs = FAILED_PAUSE_MS;
      if (node.isRunning()) health.recordFailure(error);
    }
    this.#isReading = false;
    const nowMs = clock.monotonicMs();
    const pauseOf = ({ factor, maxMs }: typeof URGENT_PAUSE) =>
      Math.max(minMs, Math.min(maxMs, (nowMs - startMs) * factor));
    if (!isSoon) this.#quietMs = nowMs + pauseOf(QUIET_PAUSE);
    const waitMs = Math.min(this.#soonMs(), this.#sweepMs()) - nowMs;
    this.#arm(Math.min(CHECK_MS, Math.max(pauseOf(URGENT_PAUSE), waitMs)));
  }

  #soonMs(): number {
    return Number.isFinite(this.#pace.soonMs) ? this.#nextSoonMs : Number.POSITIVE_INFINITY;
  }

  /** When the next page of a sweep is read: at once if a start may wait for it. */
  #sweepMs(): number {
    const sweep = this.#gained ?? this.#all;
    if (sweep === undefined) return this.#allMs();
    return sweep.isUrgent ? 0 : this.#quietMs;
  }

  /** What is due about now, and what no earlier read has covered. */
  async #readSoon(): Promise<void> {
    const { clock, time, node, partitions } = this.#parts;
    const now = time.now();
    const from = Math.min(now - this.#pace.lookBackMs, this.#coveredUntil);
    const before = this.moveHorizon() + 1;
    const { list } = partitions;
    this.#nextSoonMs = clock.monotonicMs() + this.#pace.soonMs;
    let cursor: string | null | undefined;
    while (cursor !== null) {
      if (node.isStopped()) return;
      cursor = await this.#readPage({ partitions: list, from, before }, cursor);
    }
    this.#coveredUntil = before;
  }

  /** One page of a sweep. */
  async #readSweep(): Promise<void> {
    if (this.#gained === undefined && this.#all === undefined) this.#beginAll(false);
    const sweep = this.#gained ?? this.#all;
    if (sweep === undefined) return;
    // While a read takes long, what becomes known is still near.
    this.moveHorizon();
    const { partitions, before } = sweep;
    const from = Number.NEGATIVE_INFINITY;
    const cursor = await this.#readPage({ partitions, from, before }, sweep.cursor);
    sweep.cursor = cursor ?? undefined;
    if (cursor === null) this.#end(sweep);
  }

  #end(sweep: Sweep): void {
    if (this.#gained === sweep) this.#gained = undefined;
    if (this.#all !== sweep) return;
    this.#all = undefined;
    this.#parts.node.isLoading = false;
    if (this.#isAllMissing) this.#beginAll(true);
  }

  async #readPage(
    range: Pick<DueQuery, "partitions" | "from" | "before">,
    cursor: string | undefined,
  ): Promise<string | null> {
    const { store, node, queue } = this.#parts;
    const page = await store.dueLanes({ ...range, limit: PAGE, cursor });
    await this.#expect(page.lanes);
    if (page.lanes.length > 0 && node.isRunning()) queue.request();
    return page.cursor;
  }

  /** The scheduler ignores lanes of partitions that this node does not lease any more. */
  async #expect(lanes: readonly LaneDue[]): Promise<void> {
    const { destinations, scheduler } = this.#parts;
    const guards = await this.#readGuards(lanes);
    for (const { tenantId, destination, lane, partition, dueAt } of lanes) {
      const saved = guards.get(`${tenantId}\n${destination}`);
      const found = destinations.getOrCreate(tenantId, destination, saved ?? null);
      scheduler.expectDueAt(found.lanes[lane], dueAt, partition);
    }
  }

  /** The saved guard state of the lanes' destinations. Only an exclusive store has any. */
  async #readGuards(lanes: readonly LaneDue[]): Promise<ReadonlyMap<string, string | null>> {
    const { store, destinations } = this.#parts;
    const unknown = lanes.filter(
      ({ tenantId, destination }) => destinations.find(tenantId, destination) === undefined,
    );
    if (!store.exclusive || unknown.length === 0) return new Map();
    const keys = unknown.map(({ tenantId, destination }) => ({ tenantId, id: destination }));
    const texts = await store.documents.getMany(GUARD_DOCUMENT, keys);
    return new Map(keys.map(({ tenantId, id }, at) => [`${tenantId}\n${id}`, texts[at] ?? null]));
  }
}
