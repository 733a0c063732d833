/**
 * Kinds: what a seed has beside tasks that are created, cancelled and woken. Drawn per seed, so that
 * each kind meets the others in some seeds and has others to itself, and a thousand seeds stay cheap.
 */
import type { Random } from "@redrive/core";

export interface SeedFeatures {
  /** One node on a store of its own, as SQLite is, rather than three that share one. */
  readonly isSingle: boolean;
  /** Destinations' documents are changed while tasks run. */
  readonly documents: boolean;
  /** Tasks ask to be told of their end. */
  readonly callbacks: boolean;
  /** Dead letters are made into new tasks. */
  readonly redrives: boolean;
}

export function drawFeatures(random: Random): SeedFeatures {
  return {
    isSingle: random.next() < 0.25,
    documents: random.next() < 0.5,
    callbacks: random.next() < 0.4,
    redrives: random.next() < 0.4,
  };
}
