/**
 * Late tasks: finds the task that has been due for longest although its destination lets tasks through. A
 * round examines all destinations, a few at a time.
 */
import type { DestinationRuntime } from "./destination-runtime.ts";
import { earliestDueAt } from "./lanes.ts";

export class LateTasks {
  /** Of the round in progress, and of the last complete one. */
  #current = Number.POSITIVE_INFINITY;
  #last = Number.POSITIVE_INFINITY;

  get oldestDueAt(): number {
    return Math.min(this.#last, this.#current);
  }

  record({ row, lanes }: DestinationRuntime, now: number): void {
    if (row.pausedAt !== null || row.breakerState !== "CLOSED" || row.gateUntil > now) return;
    const dueAt = earliestDueAt(lanes);
    if (dueAt <= now) this.#current = Math.min(this.#current, dueAt);
  }

  endRound(): void {
    this.#last = this.#current;
    this.#current = Number.POSITIVE_INFINITY;
  }
}
