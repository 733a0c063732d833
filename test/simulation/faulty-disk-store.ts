/**
 * Brittle store: a memory store that fails as a file of one's own does. The disk is full (nothing of
 * the commit happens); it breaks (nobody knows what happened, and the process must end); or the
 * process dies within the commit, which has then happened or not.
 */
import type { Random } from "@redrive/core";
import type { Batch, CommitResult } from "../../faces/service/src/model/batch.ts";
import type { Store } from "../../faces/service/src/model/store.ts";
import { StoreBrokenError, StoreFullError } from "../../faces/service/src/model/store-errors.ts";
import type { MemoryStore } from "../../faces/service/src/stores/memory/memory-store.ts";

type DiskFault = "full" | "broken" | "killed";

export interface DiskFaults {
  /** Share of commits that find the disk full, 0 to 1. May be changed at any time. */
  rate: number;
  readonly counts: Record<DiskFault, number>;
}

/** Shares of the faults. The others end the process, so they are rarer. */
const BROKEN = 0.017;
const KILLED = 0.017;

export function createDiskFaults(rate: number): DiskFaults {
  return { rate, counts: { full: 0, broken: 0, killed: 0 } };
}

function faultOf(draw: number): DiskFault {
  if (draw < BROKEN) return "broken";
  return draw < BROKEN + KILLED ? "killed" : "full";
}

/** `die` ends the process that asks. */
export function faultyDiskStore(
  inner: MemoryStore,
  random: Random,
  faults: DiskFaults,
  die: () => void,
): Store {
  const draw = (): DiskFault | undefined => {
    if (random.next() >= faults.rate) return undefined;
    const kind = faultOf(random.next());
    faults.counts[kind]++;
    return kind;
  };
  const commitSometimes = (batch: Batch) => {
    if (random.next() < 0.5) inner.commitNow(batch);
  };

  function commit(batch: Batch): Promise<CommitResult> {
    switch (draw()) {
      case undefined:
        return Promise.resolve(inner.commitNow(batch));
      case "full":
        return Promise.reject(new StoreFullError("the disk is full"));
      case "broken":
        commitSometimes(batch);
        return Promise.reject(new StoreBrokenError("the disk cannot be relied on"));
      case "killed":
        commitSometimes(batch);
        die();
        return new Promise(() => {});
    }
  }

  return { ...inner, commit };
}
