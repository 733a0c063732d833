/**
 * Store sync: loads from the store what this node does not know: the lanes of its partitions that are
 * due soon, with the saved guard state of their destinations.
 *
 * Only lanes that are due within the horizon are loaded, in pages, so neither the start nor the
 * memory of a node grows with the tasks that wait for later. The horizon moves before the first page
 * is read: a task that becomes known meanwhile is either within it, or in the next load.
 */
import { GUARD_DOCUMENT } from "../model/document-table.ts";
import type { LaneDue } from "../model/lane-due.ts";
import type { Store } from "../model/store.ts";
import type { EngineTime } from "../time/engine-time.ts";
import type { CommitQueue } from "./commit/commit-queue.ts";
import type { Destinations } from "./destination/destinations.ts";
import type { NodeState } from "./node/node-state.ts";
import type { OwnPartitions } from "./node/own-partitions.ts";
import type { StoreHealth } from "./node/store-health.ts";
import type { Scheduler } from "./schedule/scheduler.ts";

export interface StoreSyncParts {
  readonly store: Store;
  readonly time: EngineTime;
  readonly node: NodeState;
  readonly health: StoreHealth;
  readonly partitions: OwnPartitions;
  readonly destinations: Destinations;
  readonly scheduler: Scheduler;
  readonly queue: CommitQueue;
}

/** A lane that is due later is loaded later. */
export const HORIZON_MS = 600_000;

/** Half of the horizon, so that a load that fails can be repeated in time. */
const LOAD_INTERVAL_MS = HORIZON_MS / 2;

/**
 * In a shared store, a node may die between a commit and its next exchange, and the node that takes
 * over its partitions may have loaded them before that commit.
 */
const SHARED_LOAD_INTERVAL_MS = 60_000;

/** A gained partition is loaded again after this time: the node that had it has then left it. */
const RELOAD_MS = 10_000;

/** Destinations per page: about a millisecond on the main thread. */
const PAGE = 256;

export class StoreSync {
  readonly #parts: StoreSyncParts;
  #nextLoadAt = 0;
  #loading: Promise<void> | undefined;
  /** When to load partitions that this node leases since a moment ago. */
  readonly #gained = new Map<number, readonly number[]>();

  constructor(parts: StoreSyncParts) {
    this.#parts = parts;
  }

  /**
   * Loads the first page of due lanes. The others follow while the node runs. Until then no new task
   * is stored as claimed, because it might overtake older tasks of its destination.
   */
  async start(): Promise<void> {
    const { node, health, store, partitions } = this.#parts;
    const now = this.moveHorizon();
    if (!store.exclusive) {
      for (const partition of partitions.list) this.#gained.set(partition, [now + RELOAD_MS]);
    }
    const cursor = await this.#loadPage(undefined);
    if (cursor === null) {
      this.#nextLoadAt = now + this.#intervalMs();
      return;
    }
    node.isLoading = true;
    this.#loading = this.#loadAll(cursor, now).then(
      () => {
        node.isLoading = false;
        this.#loading = undefined;
      },
      (error: unknown) => {
        // The next maintenance repeats the load.
        this.#loading = undefined;
        if (node.isRunning()) health.recordFailure(error);
      },
    );
  }

  /** Loads the lanes that are due soon, if it is time. */
  async loadDueLanes(): Promise<void> {
    const { store, time, node, health } = this.#parts;
    if (this.#loading !== undefined) return;
    // A commit that was reported as failed may still store tasks that this node does not know.
    const mayHaveUnknown = !store.exclusive && health.mayHaveUnknownClaims();
    if (!mayHaveUnknown && time.now() < this.#nextLoadAt) return;
    await this.#loadAll(undefined, this.moveHorizon());
    node.isLoading = false;
  }

  /** This node leases these partitions since now. `loadGained` loads them. */
  addGained(partitions: readonly number[]): void {
    const now = this.#parts.time.now();
    const loads = [now, now + RELOAD_MS];
    for (const partition of partitions) this.#gained.set(partition, loads);
  }

  /** Loads the lanes of gained partitions. If the store fails, the next call repeats it. */
  async loadGained(): Promise<void> {
    const { node, partitions, time } = this.#parts;
    const now = time.now();
    const due = [...this.#gained].filter(([, [loadAt = now]]) => loadAt <= now);
    const own = due.map(([partition]) => partition).filter((one) => partitions.has(one));
    let cursor: string | null | undefined = own.length === 0 ? null : undefined;
    while (cursor !== null) {
      if (node.isStopped()) return;
      cursor = await this.#loadPage(cursor, own);
    }
    for (const [partition, [, ...later]] of due) {
      if (later.length > 0) this.#gained.set(partition, later);
      else this.#gained.delete(partition);
    }
  }

  /**
   * Also called while a load takes long: the scheduler ignores what is due beyond the horizon, and the
   * load that follows covers everything before it.
   */
  moveHorizon(): number {
    const { time, scheduler } = this.#parts;
    const now = time.now();
    scheduler.horizonAt = now + HORIZON_MS;
    return now;
  }

  async #loadAll(first: string | undefined, startedAt: number): Promise<void> {
    let cursor: string | null | undefined = first;
    while (cursor !== null) {
      if (this.#parts.node.isStopped()) return;
      cursor = await this.#loadPage(cursor);
    }
    this.#nextLoadAt = startedAt + this.#intervalMs();
  }

  #intervalMs(): number {
    return this.#parts.store.exclusive ? LOAD_INTERVAL_MS : SHARED_LOAD_INTERVAL_MS;
  }

  async #loadPage(
    cursor: string | undefined,
    partitions = this.#parts.partitions.list,
  ): Promise<string | null> {
    const { store, node, scheduler, queue } = this.#parts;
    const query = { partitions, before: scheduler.horizonAt + 1, limit: PAGE, cursor };
    const page = await store.nextDue(query);
    await this.#expect(page.lanes);
    if (page.lanes.length > 0 && node.isRunning()) queue.request();
    return page.cursor;
  }

  async #expect(lanes: readonly LaneDue[]): Promise<void> {
    const { destinations, scheduler } = this.#parts;
    const guards = await this.#readGuards(lanes);
    for (const { tenantId, destination, lane, partition, dueAt } of lanes) {
      const saved = guards.get(`${tenantId}\n${destination}`);
      const found = destinations.getOrCreate(tenantId, destination, saved ?? null);
      scheduler.expectDueAt(scheduler.lanesOf(found)[lane], dueAt, partition);
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
