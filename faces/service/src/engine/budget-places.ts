/**
 * Budget places: this node's place among the nodes that divide a retry budget. What a node used counts
 * for a window, so a place depends on the nodes of the last window too.
 */
import type { BudgetPlace } from "@redrive/core";

/** A retry budget with a longer window is divided as if its window were this long. */
const MAX_WINDOW_MS = 60_000;

export type NodePlace = Omit<BudgetPlace, "reserved">;

/** The latest result of `placeAt`, and what it was for. */
interface LastPlace {
  readonly windowMs: number;
  readonly now: number;
  readonly place: NodePlace | undefined;
}

const NO_PLACE: LastPlace = { windowMs: 0, now: Number.NaN, place: undefined };

export class BudgetPlaces {
  readonly #leaseMs: number;
  /** The numbers of nodes, the latest last, and since when. */
  #history: readonly { readonly since: number; readonly nodes: number }[] = [];
  #lastPlace = NO_PLACE;
  /** When this node joined others; -Infinity: it was the first. */
  #joinedAt = Number.NEGATIVE_INFINITY;

  constructor(leaseMs: number) {
    this.#leaseMs = leaseMs;
  }

  /** No number of nodes is known. */
  get isEmpty(): boolean {
    return this.#history.length === 0;
  }

  /** From when the place stays the same, unless the nodes change again; -Infinity: it has none. */
  get settledAt(): number {
    const changedAt = this.#history.at(-1)?.since ?? Number.NEGATIVE_INFINITY;
    return changedAt + this.#leaseMs + MAX_WINDOW_MS + 1;
  }

  /** Undefined: this node has never shared a budget. */
  placeAt(windowMs: number, now: number): NodePlace | undefined {
    const { windowMs: knownMs, now: knownAt, place } = this.#lastPlace;
    // One exchange asks for every destination, and most have the same window.
    if (windowMs === knownMs && now === knownAt) return place;
    const found = this.#find(Math.min(windowMs, MAX_WINDOW_MS), now);
    this.#lastPlace = { windowMs, now, place: found };
    return found;
  }

  #find(windowMs: number, now: number): NodePlace | undefined {
    const latest = this.#history.at(-1);
    if (latest === undefined) return undefined;
    const recent = this.#history.filter(({ since }, at) => {
      const until = this.#history[at + 1]?.since ?? now;
      return until >= now - windowMs || since >= now - windowMs;
    });
    return {
      nodes: latest.nodes,
      maxNodes: Math.max(...recent.map(({ nodes }) => nodes)),
      isNew: this.#isNew(windowMs, now),
    };
  }

  /**
   * A node that cannot reach the store learns of a new node only when its own lease ends. Until then it
   * uses its old part of a retry budget, or all of it, and what it used counts for a window.
   */
  #isNew(windowMs: number, now: number): boolean {
    return now - this.#joinedAt < this.#leaseMs + windowMs;
  }

  /** The number of live nodes has changed, or is known for the first time. */
  record(nodes: number, now: number): void {
    if (this.isEmpty && nodes > 1) this.#joinedAt = now;
    const kept = this.#history.filter(({ since }) => now - since < MAX_WINDOW_MS);
    const last = this.#history.at(-1);
    this.#history = [
      ...(last && !kept.includes(last) ? [last] : []),
      ...kept,
      { since: now, nodes },
    ];
    this.#lastPlace = NO_PLACE;
  }
}
