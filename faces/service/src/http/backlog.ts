/**
 * Backlog: refuses tasks of a tenant that has too many waiting, so that no caller can fill the disk
 * for all. The count is read apart from the requests and may be a second old.
 */
import type { Clock } from "@redrive/core";
import { serviceError } from "../model/errors.ts";
import type { TaskCount } from "../model/task-query.ts";

export type CountTasks = (tenantId: string) => Promise<readonly TaskCount[]>;

interface Seen {
  waiting: number;
  atMs: number;
}

const LOOK_AGAIN_MS = 1000;

export class Backlog {
  readonly #clock: Clock;
  readonly #count: CountTasks;
  readonly #most: number;
  readonly #seen = new Map<string, Seen>();

  constructor(clock: Clock, count: CountTasks, most: number) {
    this.#clock = clock;
    this.#count = count;
    this.#most = most;
  }

  /** Throws `QUEUE_FULL` if the tenant had too many when it was last looked. */
  check(tenantId: string, most: number = this.#most): void {
    const seen = this.#seenOf(tenantId);
    if (this.#clock.monotonicMs() - seen.atMs >= LOOK_AGAIN_MS) void this.#look(tenantId, seen);
    if (seen.waiting < most) return;
    throw serviceError("QUEUE_FULL", `${seen.waiting} tasks are waiting; at most ${most} may`);
  }

  #seenOf(tenantId: string): Seen {
    let seen = this.#seen.get(tenantId);
    if (seen === undefined) {
      seen = { waiting: 0, atMs: Number.NEGATIVE_INFINITY };
      this.#seen.set(tenantId, seen);
    }
    return seen;
  }

  /** A count that fails leaves the one before: the store's own trouble is told elsewhere. */
  async #look(tenantId: string, seen: Seen): Promise<void> {
    seen.atMs = this.#clock.monotonicMs();
    try {
      const counts = await this.#count(tenantId);
      const open = counts.filter(({ status }) => status === "PENDING" || status === "IN_FLIGHT");
      seen.waiting = open.reduce((sum, { count }) => sum + count, 0);
    } catch {
      return;
    }
  }
}
