/**
 * Metered store: any store, with the size and the time of its commits told to whoever listens.
 */
import type { Clock } from "@redrive/core";
import type { Batch } from "./batch.ts";
import type { Store } from "./store.ts";

/** A commit that has succeeded. */
export interface CommitSample {
  /** Tasks created, settled, cancelled, rescheduled and claimed, and rows of destinations. */
  readonly items: number;
  readonly durationMs: number;
}

export type CommitListener = (sample: CommitSample) => void;

export interface MeteredStore {
  readonly store: Store;
  /** Returns what ends the listening. */
  onCommit(listener: CommitListener): () => void;
}

export function meteredStore(clock: Clock, inner: Store): MeteredStore {
  const listeners = new Set<CommitListener>();
  async function commit(batch: Batch) {
    const startMs = clock.monotonicMs();
    const result = await inner.commit(batch);
    const claimed = result.claims.reduce((sum, { tasks }) => sum + tasks.length, 0);
    const sample = {
      items: itemsOf(batch) + claimed,
      durationMs: clock.monotonicMs() - startMs,
    };
    for (const listener of listeners) listener(sample);
    return result;
  }
  return {
    store: { ...inner, commit },
    onCommit(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

function itemsOf({ destinations, creates, settles, cancels, retryNows }: Batch): number {
  return destinations.length + creates.length + settles.length + cancels.length + retryNows.length;
}
