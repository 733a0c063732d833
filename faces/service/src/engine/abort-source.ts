/**
 * Abort source: one signal for all attempts of a node. The host's `AbortSignal` keeps its listeners
 * in a list that is searched on every removal; with thousands in flight a set is cheaper.
 */
import type { AbortSignalLike } from "@redrive/core";

export class AbortSource implements AbortSignalLike {
  aborted = false;
  reason: unknown;
  readonly #listeners = new Set<() => void>();

  addEventListener(_type: "abort", listener: () => void): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_type: "abort", listener: () => void): void {
    this.#listeners.delete(listener);
  }

  /** Once. */
  abort(reason: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    const listeners = [...this.#listeners];
    this.#listeners.clear();
    for (const listener of listeners) listener();
  }
}
