/**
 * Commit overlap: when a commit may start beside a running one, and how many items it takes. In a shared
 * store, two commits overlap, so that the server works while the node does (`docs/decisions/0041`).
 */
import type { Store } from "../../model/store.ts";
import type { CommitQueue } from "./commit-queue.ts";
import type { RunningCommits } from "./running-commits.ts";

/** More would only make commits smaller. */
const MAX_RUNNING = 2;
/** Of a store that does not say it. */
const MIN_OVERLAP_ITEMS = 128;
/** With this many items the next commit starts at once. Fewer wait for others. */
const MIN_NEXT_ITEMS = 64;

export interface OverlapParts {
  readonly store: Pick<Store, "exclusive" | "overlapItems">;
  readonly queue: CommitQueue;
  /** Replaces that of the store. At least 1. */
  readonly overlapItems?: number | undefined;
}

export class CommitOverlap {
  readonly #overlapItems: number;
  readonly #nextItems: number;
  readonly #queue: CommitQueue;
  readonly #running: RunningCommits;

  constructor({ store, queue, overlapItems }: OverlapParts, running: RunningCommits) {
    const shared = overlapItems ?? store.overlapItems ?? MIN_OVERLAP_ITEMS;
    this.#overlapItems = store.exclusive ? Number.POSITIVE_INFINITY : shared;
    this.#nextItems = store.exclusive ? Number.POSITIVE_INFINITY : MIN_NEXT_ITEMS;
    this.#queue = queue;
    this.#running = running;
  }

  /** May a commit start beside a running one? */
  mayOverlap(): boolean {
    const isFree = this.#running.count < MAX_RUNNING && this.#running.mayOverlap;
    return isFree && this.#queue.itemCount() >= this.#overlapItems;
  }

  /**
   * May the next commit start as soon as the last one has ended? The server would be idle if it waited
   * for the end of the turn, and for more items.
   */
  isNextReady(): boolean {
    return this.#queue.itemCount() >= this.#nextItems;
  }

  /**
   * How many items the next commit takes. If no commit runs and enough items wait for two, each takes
   * half: the callers of one then add their next items while the server works on the other. If rows
   * of destinations wait, the commit that writes them overlaps with none, so it takes all. Rows that its
   * own items change are not known yet.
   */
  itemsToTake(): number {
    const count = this.#queue.itemCount();
    const isEnough = count >= 2 * this.#overlapItems;
    const isDivided = this.#running.count === 0 && isEnough && !this.#queue.hasChanged();
    return isDivided ? Math.ceil(count / 2) : count;
  }
}
