/**
 * Faulty store: a memory store behind a bad connection. A commit may be lost, torn (only some of its
 * partitions are applied), unknown (it is applied, but reports a failure), delayed (it reports a
 * failure and is applied later) or late. A call of any other method is lost or late. A node may also
 * be cut off for a while.
 */
import type { Clock, Random } from "@redrive/core";
import type { Batch, CommitResult } from "../../model/batch.ts";
import { partitionOf } from "../../model/partition.ts";
import type { Store } from "../../model/store.ts";
import { namesOf, wrapped } from "../../model/wrapped.testing.ts";
import type { MemoryStore } from "./memory-store.ts";

export type StoreFault = "lost" | "torn" | "unknown" | "delayed" | "late";

const KINDS: readonly StoreFault[] = ["lost", "torn", "unknown", "delayed", "late"];

export interface Faults {
  /** Share of operations that fail, 0 to 1. May be changed at any time. */
  rate: number;
  /** Every call takes at most this long, also without a fault. May be changed at any time. */
  latencyMs: number;
  /** Maximum delay of a late result. */
  readonly longestMs: number;
  /** How often each fault has occurred. */
  readonly counts: Record<StoreFault | "cut", number>;
}

/**
 * `requests`: nothing reaches the store. `responses`: the store does what it is asked, but nothing
 * returns. Such calls never end: the caller must give up.
 */
export type Cut = "requests" | "responses";

export function createFaults(rate: number, longestMs: number, latencyMs = 0): Faults {
  const counts = { lost: 0, torn: 0, unknown: 0, delayed: 0, late: 0, cut: 0 };
  return { rate, latencyMs, longestMs, counts };
}

class ConnectionLost extends Error {
  override readonly name: string = "ConnectionLost";
}

/** One for all: a stack trace costs more than the call, and says nothing. */
const CONNECTION_LOST = new ConnectionLost("the connection was lost");

type Call = (...args: readonly unknown[]) => unknown;

/** Methods that are not calls to the store server. */
const LOCAL: ReadonlySet<string> = new Set(["onWakeUp", "close", "commitNow", "all"]);

/**
 * `inner` may be any store that commits synchronously, so that faults can wrap other stores. `cutOf`:
 * how the node is cut off now.
 */
export function faultyStore(
  inner: MemoryStore,
  clock: Clock,
  random: Random,
  faults: Faults,
  cutOf: () => Cut | undefined = () => undefined,
): Store {
  const draw = (): StoreFault | undefined => {
    if (random.next() >= faults.rate) return undefined;
    const kind = KINDS[Math.floor(random.next() * KINDS.length)] ?? "lost";
    faults.counts[kind]++;
    return kind;
  };
  const later = <T>(work: () => T, maxMs: number): Promise<T> => {
    const lateMs = Math.floor(random.next() * maxMs);
    const workFirst = random.next() < 0.5;
    return new Promise((resolve, reject) => {
      const early = workFirst ? work() : undefined;
      clock.alarm(lateMs, () => {
        try {
          resolve(workFirst ? (early as T) : work());
        } catch (error) {
          // A commit that has expired, because the machine slept meanwhile.
          reject(error);
        }
      });
    });
  };
  const lost = () => Promise.reject(CONNECTION_LOST);
  const never = <T>(work: () => unknown, cut: Cut): Promise<T> => {
    faults.counts.cut++;
    if (cut === "responses") void work();
    return new Promise(() => {});
  };
  /** Without a fault. */
  const pass = <T>(work: () => T): Promise<Awaited<T>> =>
    Promise.resolve(faults.latencyMs === 0 ? work() : later(work, faults.latencyMs));

  function commit(batch: Batch): Promise<CommitResult> {
    const work = () => inner.commitNow(batch);
    const cut = cutOf();
    if (cut !== undefined) return never(work, cut);
    switch (draw()) {
      case undefined:
        return pass(work);
      case "lost":
        return lost();
      case "torn":
        inner.commitNow(torn(batch, random, inner.partitions));
        return lost();
      case "unknown":
        work();
        return lost();
      case "delayed":
        clock.alarm(Math.floor(random.next() * faults.longestMs), () => {
          try {
            work();
          } catch {
            // It has expired.
          }
        });
        return lost();
      case "late":
        return later(work, faults.longestMs);
    }
  }

  /** Operations other than commits are only lost or late. */
  function ask(work: () => Promise<unknown>): Promise<unknown> {
    const cut = cutOf();
    if (cut !== undefined) return never(work, cut);
    const kind = draw();
    if (kind === undefined) return pass(work);
    return kind === "late" ? later(work, faults.longestMs).then((result) => result) : lost();
  }

  function asked<Part extends object>(part: Part): Part {
    const changes: Partial<Record<keyof Part, Call>> = {};
    for (const name of namesOf(part)) {
      const isCall = typeof part[name] === "function" && !LOCAL.has(String(name));
      if (!isCall || String(name).startsWith("peek")) continue;
      changes[name] = (...args) => ask(() => (part[name] as Call)(...args) as Promise<unknown>);
    }
    return wrapped(part, changes as Partial<Part>);
  }

  const { query, documents } = inner;
  const onWakeUp: Store["onWakeUp"] = (listener) =>
    inner.onWakeUp((wakeUp) => {
      // Best effort: a wake-up may be lost.
      if (cutOf() === undefined && random.next() >= faults.rate)
        clock.alarm(0, () => listener(wakeUp));
    });
  return wrapped<Store>(asked<Store>(inner), {
    commit,
    onWakeUp,
    query: asked(query),
    documents: asked(documents),
  });
}

/** The items of a random subset of the partitions. Rows of destinations and documents have their own. */
function torn(batch: Batch, random: Random, partitions: number): Batch {
  const isKept = new Map<number | string, boolean>();
  const keeps = (part: number | string): boolean => {
    const known = isKept.get(part) ?? random.next() < 0.5;
    isKept.set(part, known);
    return known;
  };
  const keepsTask = ({ taskId }: { readonly taskId: string }) =>
    keeps(partitionOf(taskId, partitions));
  return {
    ...batch,
    destinations: batch.destinations.filter(({ row }) => keeps(`row ${row.name}`)),
    creates: batch.creates.filter(({ task }) => keepsTask(task)),
    settles: batch.settles.filter(keepsTask),
    cancels: batch.cancels.filter(keepsTask),
    retryNows: batch.retryNows.filter(keepsTask),
    claims: batch.claims.flatMap((claim) => {
      const kept = claim.partitions.filter(keeps);
      return kept.length === 0 ? [] : [{ ...claim, partitions: kept }];
    }),
    wakeUps: batch.wakeUps.filter(({ partition }) => keeps(partition)),
    documents: batch.documents.filter(({ id }) => keeps(`document ${id}`)),
  };
}
