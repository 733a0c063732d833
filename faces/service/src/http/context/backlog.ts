/**
 * Backlog: rejects new tasks of a tenant that has too many waiting tasks, so that one tenant cannot
 * fill the disk for all. The count is refreshed in the background and may be one second old, or
 * older if counting takes long.
 */
import type { Clock } from "@redrive/core";
import { BoundedCache } from "../../collections/bounded-cache.ts";
import { serviceError } from "../../model/errors.ts";
import type { TaskCounts } from "../../model/task-query.ts";

export type CountTasks = (tenantId: string) => Promise<TaskCounts>;

interface CachedCount {
  waiting: number;
  /** When to count again. */
  dueMs: number;
}

const REFRESH_MS = 1000;

/** Counting takes at most a twentieth of a reader's time, however many destinations there are. */
const REFRESH_FACTOR = 20;

/** Beyond this number of tenants, all are counted again. */
const MAX_TENANTS = 10_000;

export class Backlog {
  readonly #clock: Clock;
  readonly #count: CountTasks;
  readonly #maxWaiting: number;
  readonly #cached = new BoundedCache<CachedCount>(MAX_TENANTS);

  constructor(clock: Clock, count: CountTasks, maxWaiting: number) {
    this.#clock = clock;
    this.#count = count;
    this.#maxWaiting = maxWaiting;
  }

  /** Throws `QUEUE_FULL` if the last known count is at the limit. */
  check(tenantId: string, maxWaiting: number = this.#maxWaiting): void {
    const cached = this.#cachedFor(tenantId);
    if (this.#clock.monotonicMs() >= cached.dueMs) void this.#refresh(tenantId, cached);
    if (cached.waiting < maxWaiting) return;
    throw serviceError(
      "QUEUE_FULL",
      `${cached.waiting} tasks are waiting; the limit is ${maxWaiting}`,
    );
  }

  #cachedFor(tenantId: string): CachedCount {
    let cached = this.#cached.get(tenantId);
    if (cached === undefined) {
      cached = { waiting: 0, dueMs: Number.NEGATIVE_INFINITY };
      this.#cached.set(tenantId, cached);
    }
    return cached;
  }

  /** Store failures are reported elsewhere. */
  async #refresh(tenantId: string, cached: CachedCount): Promise<void> {
    const startMs = this.#clock.monotonicMs();
    // Not again before this count ends.
    cached.dueMs = Number.POSITIVE_INFINITY;
    try {
      const { PENDING = 0, IN_FLIGHT = 0 } = await this.#count(tenantId);
      cached.waiting = PENDING + IN_FLIGHT;
    } catch {
      // The previous count stays.
    }
    const nowMs = this.#clock.monotonicMs();
    cached.dueMs = Math.max(startMs + REFRESH_MS, nowMs + (nowMs - startMs) * REFRESH_FACTOR);
  }
}
