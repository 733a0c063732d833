/**
 * Faulty store: a memory store behind a bad connection. A commit may be lost, torn (only its first
 * items are applied), unknown (it is applied, but reports a failure) or late.
 */
import type { Clock, Random } from "@redrive/core";
import type { Batch, CommitResult } from "../../model/batch.ts";
import type { Store } from "../../model/store.ts";
import { wrapped } from "../../model/wrapped.ts";
import type { MemoryStore } from "./memory-store.ts";

export type StoreFault = "lost" | "torn" | "unknown" | "late";

const KINDS: readonly StoreFault[] = ["lost", "torn", "unknown", "late"];

export interface Faults {
  /** Share of operations that fail, 0 to 1. May be changed at any time. */
  rate: number;
  /** Maximum delay of a late result. */
  readonly longestMs: number;
  /** How often each fault has occurred. */
  readonly counts: Record<StoreFault, number>;
}

export function createFaults(rate: number, longestMs: number): Faults {
  return { rate, longestMs, counts: { lost: 0, torn: 0, unknown: 0, late: 0 } };
}

class ConnectionLost extends Error {
  override readonly name: string = "ConnectionLost";
}

/** `inner` may be any store that commits synchronously, so that faults can wrap other stores. */
export function faultyStore(
  inner: MemoryStore,
  clock: Clock,
  random: Random,
  faults: Faults,
): Store {
  const draw = (): StoreFault | undefined => {
    if (random.next() >= faults.rate) return undefined;
    const kind = KINDS[Math.floor(random.next() * KINDS.length)] ?? "lost";
    faults.counts[kind]++;
    return kind;
  };
  const later = <T>(work: () => T): Promise<T> => {
    const lateMs = Math.floor(random.next() * faults.longestMs);
    const workFirst = random.next() < 0.5;
    return new Promise((resolve) => {
      const early = workFirst ? work() : undefined;
      clock.alarm(lateMs, () => resolve(workFirst ? (early as T) : work()));
    });
  };
  const lost = () => Promise.reject(new ConnectionLost("the connection was lost"));

  function commit(batch: Batch): Promise<CommitResult> {
    switch (draw()) {
      case undefined:
        return Promise.resolve(inner.commitNow(batch));
      case "lost":
        return lost();
      case "torn":
        inner.commitNow(torn(batch, random));
        return lost();
      case "unknown":
        inner.commitNow(batch);
        return lost();
      case "late":
        return later(() => inner.commitNow(batch));
    }
  }

  /** Operations other than commits are only lost or late. */
  function ask<T>(work: () => Promise<T>): Promise<T> {
    const kind = draw();
    if (kind === undefined) return work();
    return kind === "late" ? later(work).then((result) => result) : lost();
  }

  const faulty: Partial<Store> = {
    commit,
    nextDue: (query) => ask(() => inner.nextDue(query)),
    removeUnused: (query) => ask(() => inner.removeUnused(query)),
    lapsed: (query) => ask(() => inner.lapsed(query)),
    claimsOf: (nodeId, limit) => ask(() => inner.claimsOf(nodeId, limit)),
    renew: (lease) => ask(() => inner.renew(lease)),
    getPolicy: (...ref) => ask(() => inner.getPolicy(...ref)),
  };
  return wrapped<Store>(inner, faulty);
}

const PARTS = [
  "destinations",
  "creates",
  "settles",
  "cancels",
  "retryNows",
  "claims",
  "documents",
] as const;

/** The first items of a batch, in the order in which they are applied. */
function torn(batch: Batch, random: Random): Batch {
  const size = PARTS.reduce((sum, part) => sum + batch[part].length, 0);
  let left = Math.floor(random.next() * size);
  const cut: Record<string, unknown> = { ...batch };
  for (const part of PARTS) {
    cut[part] = batch[part].slice(0, left);
    left = Math.max(0, left - batch[part].length);
  }
  return cut as unknown as Batch;
}
