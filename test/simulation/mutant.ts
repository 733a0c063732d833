/** Mutant: a version of Redrive with one safeguard removed, and the checker that must find it. */
import type { Deliver } from "../../faces/service/src/engine/runner.ts";
import type { MemoryStore } from "../../faces/service/src/stores/memory/memory-store.ts";

export interface Mutant {
  readonly name: string;
  /** The name of the checker that must find it. */
  readonly caughtBy: string;
  /** Another checker that may find it first. */
  readonly orBy?: string;
  /** The first seed that finds it. The test tries it first. Default: 0. */
  readonly foundBy?: number;
  /** Changes what the store does. */
  readonly wrapMemory?: (memory: MemoryStore) => MemoryStore;
  /** Changes what nodes read and write. `memory` is the store below the observer. */
  readonly wrapStore?: (observed: MemoryStore, memory: MemoryStore) => MemoryStore;
  readonly wrapDeliver?: (deliver: Deliver) => Deliver;
  /** Overrides the retry budget for all destinations. */
  readonly retryBudget?: false;
}
