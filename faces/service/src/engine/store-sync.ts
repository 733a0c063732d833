/**
 * Store sync: loads from the store what this node does not know: saved guard state and due lanes at
 * the start, and later the tasks and resumed destinations of other nodes.
 */
import type { Store } from "../model/store.ts";
import type { EngineTime } from "../time/engine-time.ts";
import type { CommitQueue } from "./commit/commit-queue.ts";
import type { Destinations } from "./destination/destinations.ts";
import { GUARD_DOCUMENT } from "./destination/guard-saver.ts";
import type { NodeState } from "./node/node-state.ts";
import type { Scheduler } from "./schedule/scheduler.ts";

export interface StoreSyncParts {
  readonly store: Store;
  readonly time: EngineTime;
  readonly node: NodeState;
  readonly destinations: Destinations;
  readonly scheduler: Scheduler;
  readonly queue: CommitQueue;
}

export class StoreSync {
  readonly #parts: StoreSyncParts;

  constructor(parts: StoreSyncParts) {
    this.#parts = parts;
  }

  /** Loads the guard state that an earlier process saved. Only an exclusive store has any. */
  async restoreGuards(): Promise<void> {
    const { store, destinations } = this.#parts;
    if (!store.exclusive) return;
    for (const { tenantId, id, text } of await store.documents.list(GUARD_DOCUMENT)) {
      destinations.getOrCreate(tenantId, id).restoreGuards(text);
    }
  }

  /** Loads when the lanes are due. */
  async loadDueLanes(): Promise<void> {
    const { store, node, destinations, scheduler, queue } = this.#parts;
    for (const { tenantId, destination, lane, dueAt } of await store.nextDue()) {
      scheduler.expectDueAt(destinations.getOrCreate(tenantId, destination).lanes[lane], dueAt);
    }
    if (node.isRunning()) queue.request();
  }

  /** Loads the tasks that other nodes created and the pauses that they ended. */
  async loadOtherNodes(): Promise<void> {
    const { store, time, destinations, scheduler, queue } = this.#parts;
    await this.loadDueLanes();
    for (const destination of destinations.values()) {
      const isHeld = destination.row.pausedAt !== null || destination.reading.kind === "unreadable";
      if (!isHeld) continue;
      const { tenantId, name } = destination;
      const row = await store.getDestination(tenantId, name);
      if (row === null || row.version === destination.row.version) continue;
      const now = time.now();
      destination.adopt(row, now);
      scheduler.unblock(destination, now);
      queue.request();
    }
  }
}
