/**
 * Faulty disk store: a memory store that fails like a file on the node's own disk. A full disk
 * rejects the commit and changes nothing. A broken disk leaves the commit's result unknown, and the
 * process must end. A process that dies during a commit may or may not have stored it.
 */
import type { Random } from "@redrive/core";
import type { Batch, CommitResult } from "../../faces/service/src/model/batch.ts";
import type { Store } from "../../faces/service/src/model/store.ts";
import { StoreBrokenError, StoreFullError } from "../../faces/service/src/model/store-errors.ts";
import { wrapped } from "../../faces/service/src/model/wrapped.testing.ts";
import type { MemoryStore } from "../../faces/service/src/stores/memory/memory-store.ts";

type DiskFault = "full" | "broken" | "killed";

export interface DiskFaults {
  /** Share of commits that fail, 0 to 1. Can change at any time. */
  rate: number;
  readonly counts: Record<DiskFault, number>;
}

/** Shares of all faults; the rest are `full`. These two end the process, so they are rarer. */
const BROKEN = 0.017;
const KILLED = 0.017;

export function createDiskFaults(rate: number): DiskFaults {
  return { rate, counts: { full: 0, broken: 0, killed: 0 } };
}

function faultOf(draw: number): DiskFault {
  if (draw < BROKEN) return "broken";
  return draw < BROKEN + KILLED ? "killed" : "full";
}

/** `die` ends the process that commits. */
export function faultyDiskStore(
  inner: MemoryStore,
  random: Random,
  faults: DiskFaults,
  die: () => void,
): Store {
  const draw = (): DiskFault | undefined => {
    if (random.next() >= faults.rate) return undefined;
    const fault = faultOf(random.next());
    faults.counts[fault]++;
    return fault;
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
        return Promise.reject(new StoreBrokenError("the disk is broken"));
      case "killed":
        commitSometimes(batch);
        die();
        return new Promise(() => {});
    }
  }

  return wrapped<Store>(inner, { commit });
}
