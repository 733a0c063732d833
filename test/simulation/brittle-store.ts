/**
 * Brittle store: a memory store that fails like a local file. The disk is full (nothing of the commit
 * happens), the disk breaks (the effect is unknown, and the process must end), or the process dies
 * during the commit (which may or may not have happened).
 */
import type { Random } from "@redrive/core";
import type { Batch, CommitResult } from "../../faces/service/src/model/batch.ts";
import type { Store } from "../../faces/service/src/model/store.ts";
import { StoreBrokenError, StoreFullError } from "../../faces/service/src/model/store-errors.ts";
import type { MemoryStore } from "../../faces/service/src/stores/memory/memory-store.ts";

type BrittleFault = "full" | "broken" | "killed";

export interface BrittleFaults {
  /** Share of commits that find the disk full, 0 to 1. May be changed at any time. */
  rate: number;
  readonly counts: Record<BrittleFault, number>;
}

/** Shares of the faults. These two end the process, so they are rare. */
const BROKEN = 0.017;
const KILLED = 0.017;

export function createBrittleFaults(rate: number): BrittleFaults {
  return { rate, counts: { full: 0, broken: 0, killed: 0 } };
}

function kindOf(draw: number): BrittleFault {
  if (draw < BROKEN) return "broken";
  return draw < BROKEN + KILLED ? "killed" : "full";
}

/** `die` ends the calling process. */
export function brittleStore(
  inner: MemoryStore,
  random: Random,
  faults: BrittleFaults,
  die: () => void,
): Store {
  const draw = (): BrittleFault | undefined => {
    if (random.next() >= faults.rate) return undefined;
    const kind = kindOf(random.next());
    faults.counts[kind]++;
    return kind;
  };
  const maybeCommit = (batch: Batch) => {
    if (random.next() < 0.5) inner.commitNow(batch);
  };

  function commit(batch: Batch): Promise<CommitResult> {
    switch (draw()) {
      case undefined:
        return Promise.resolve(inner.commitNow(batch));
      case "full":
        return Promise.reject(new StoreFullError("the disk is full"));
      case "broken":
        maybeCommit(batch);
        return Promise.reject(new StoreBrokenError("the disk cannot be trusted"));
      case "killed":
        maybeCommit(batch);
        die();
        return new Promise(() => {});
    }
  }

  return { ...inner, commit };
}
