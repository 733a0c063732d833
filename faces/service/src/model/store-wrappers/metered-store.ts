/** Metered store: wraps a store and reports the size and duration of its commits. */
import type { Clock } from "@redrive/core";
import type { Batch } from "../batch.ts";
import type { Store } from "../store.ts";
import { wrapped } from "./wrapped.ts";

/** A successful commit. */
export interface CommitSample {
  /** Number of tasks created, settled, canceled, rescheduled and claimed, and of destination rows. */
  readonly items: number;
  readonly durationMs: number;
}

export type CommitListener = (sample: CommitSample) => void;

export interface MeteredStore {
  readonly store: Store;
  /** Returns a function that removes the listener. */
  onCommit(listener: CommitListener): () => void;
}

export function meteredStore(clock: Clock, inner: Store): MeteredStore {
  const listeners = new Set<CommitListener>();
  const metered = (store: Store) => wrapped(store, { commit: (batch) => commit(store, batch) });
  async function commit(store: Store, batch: Batch) {
    const startMs = clock.monotonicMs();
    const result = await store.commit(batch);
    const claimed = result.claims.reduce((sum, { tasks }) => sum + tasks.length, 0);
    const sample = {
      items: itemsOf(batch) + claimed,
      durationMs: clock.monotonicMs() - startMs,
    };
    for (const listener of listeners) listener(sample);
    return result;
  }
  const { shards } = inner;
  return {
    store: wrapped(metered(inner), {
      ...(shards && { shards: { ...shards, stores: shards.stores.map(metered) } }),
    }),
    onCommit(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

function itemsOf({ destinations, creates, settles, cancels, retryNows }: Batch): number {
  return destinations.length + creates.length + settles.length + cancels.length + retryNows.length;
}
