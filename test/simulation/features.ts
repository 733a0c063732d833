/**
 * Features: what a seed exercises beyond creating, canceling and retrying tasks. Features are drawn
 * per seed. Each one meets the others in some seeds and runs alone in some, and a thousand seeds
 * stay cheap.
 */
import type { Random } from "@redrive/core";

export interface SeedFeatures {
  /** One node with its own store, like SQLite, instead of three nodes that share one. */
  readonly isSingle: boolean;
  /** Operators change the documents of destinations while tasks run. */
  readonly documents: boolean;
  /** Some tasks have a callback URL. */
  readonly callbacks: boolean;
  /** Dead letters are redriven. */
  readonly redrives: boolean;
  /** A tenant with a backlog shares the nodes with a tenant that has few tasks. */
  readonly tenants: boolean;
  /** The clocks of the nodes are wrong by up to two hours, drift, and are set while they run. */
  readonly clocks: boolean;
  /** Every call to the store takes some milliseconds. */
  readonly latency: boolean;
  /** Nodes are cut off from the store for seconds, in both directions or in one. */
  readonly cuts: boolean;
  /** Fifty destinations instead of four. */
  readonly manyDestinations: boolean;
  /** Ended tasks are removed soon. */
  readonly retention: boolean;
  /** Some documents are from a newer version, which the nodes cannot read. */
  readonly versionSkew: boolean;
  /** In a shared store, a node starts a second commit beside a running one for a single item. */
  readonly overlap: boolean;
  /** Nodes that share the store: mostly three, sometimes sixteen. */
  readonly nodes: number;
  /** A thousand and more destinations with one task each, which is due in a while. */
  readonly crowd: boolean;
  /** Until the faults stop, each read of what is due takes seconds. */
  readonly slowReads: boolean;
}

const FEW_NODES = 3;
const MANY_NODES = 16;

export function drawFeatures(random: Random): SeedFeatures {
  return {
    isSingle: random.next() < 0.25,
    documents: random.next() < 0.5,
    callbacks: random.next() < 0.4,
    redrives: random.next() < 0.4,
    tenants: random.next() < 0.3,
    clocks: random.next() < 0.4,
    latency: random.next() < 0.4,
    cuts: random.next() < 0.4,
    manyDestinations: random.next() < 0.2,
    retention: random.next() < 0.2,
    versionSkew: random.next() < 0.2,
    overlap: random.next() < 0.5,
    nodes: random.next() < 0.03 ? MANY_NODES : FEW_NODES,
    crowd: random.next() < 0.01,
    slowReads: random.next() < 0.1,
  };
}
