/**
 * Kinds: what a seed contains besides tasks that are created, canceled and retried. Each seed draws
 * its kinds, so that a kind occurs alone in some seeds and with others in other seeds, and a thousand
 * seeds stay cheap.
 */
import type { Random } from "@redrive/core";

export interface Kinds {
  /** One node on an exclusive store, like SQLite, instead of three that share one. */
  readonly isSingle: boolean;
  /** The documents of destinations change while tasks run. */
  readonly documents: boolean;
  /** Tasks have callback URLs. */
  readonly callbacks: boolean;
  /** Dead letters are redriven. */
  readonly redrives: boolean;
}

export function kindsOf(random: Random): Kinds {
  return {
    isSingle: random.next() < 0.25,
    documents: random.next() < 0.5,
    callbacks: random.next() < 0.4,
    redrives: random.next() < 0.4,
  };
}
