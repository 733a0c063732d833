/**
 * Backlog: rejects new tasks of a tenant that has too many waiting tasks, so that one tenant cannot
 * fill the disk for all. The count is refreshed in the background and may be one second old.
 */
import type { Clock } from "@redrive/core";
import { serviceError } from "../../model/errors.ts";
import type { TaskCount } from "../../model/task-query.ts";

export type CountTasks = (tenantId: string) => Promise<readonly TaskCount[]>;

interface CachedCount {
  waiting: number;
  readMs: number;
}

const REFRESH_MS = 1000;

export class Backlog {
  readonly #clock: Clock;
  readonly #count: CountTasks;
  readonly #maxWaiting: number;
  readonly #cached = new Map<string, CachedCount>();

  constructor(clock: Clock, count: CountTasks, maxWaiting: number) {
    this.#clock = clock;
    this.#count = count;
    this.#maxWaiting = maxWaiting;
  }

  /** Throws `QUEUE_FULL` if the last known count is at the limit. */
  check(tenantId: string, maxWaiting: number = this.#maxWaiting): void {
    const cached = this.#cachedFor(tenantId);
    if (this.#clock.monotonicMs() - cached.readMs >= REFRESH_MS)
      void this.#refresh(tenantId, cached);
    if (cached.waiting < maxWaiting) return;
    throw serviceError(
      "QUEUE_FULL",
      `${cached.waiting} tasks are waiting; the limit is ${maxWaiting}`,
    );
  }

  #cachedFor(tenantId: string): CachedCount {
    let cached = this.#cached.get(tenantId);
    if (cached === undefined) {
      cached = { waiting: 0, readMs: Number.NEGATIVE_INFINITY };
      this.#cached.set(tenantId, cached);
    }
    return cached;
  }

  /** A failed refresh keeps the previous count; store failures are reported elsewhere. */
  async #refresh(tenantId: string, cached: CachedCount): Promise<void> {
    cached.readMs = this.#clock.monotonicMs();
    try {
      const counts = await this.#count(tenantId);
      const open = counts.filter(({ status }) => status === "PENDING" || status === "IN_FLIGHT");
      cached.waiting = open.reduce((sum, { count }) => sum + count, 0);
    } catch {
      return;
    }
  }
}
