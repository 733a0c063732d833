/**
 * Conformance of rows that are written again after they were removed: no claim is made under what a node
 * knows of a removed row. For shared stores. A part of `conformance.testing.ts`.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { DestinationRow } from "../model/destination-row.ts";
import { blankDestination } from "../model/destination-row.ts";
import type { Store } from "../model/store.ts";
import { removeUnused } from "./conformance-unused.testing.ts";
import {
  batch,
  create,
  DESTINATION,
  destinationReport,
  report,
  settle,
  T0,
  TENANT,
} from "./store.testing.ts";

const LATER = T0 + 1000;
const RUNS = 25;
/** Ends the search for a smaller counterexample. */
const MAX_MS = 40_000;

const NOTHING = blankDestination(TENANT, DESTINATION);
const OPENED = { breakerState: "OPEN", openUntil: T0 + 9, openCount: 1 } as const;
const CLOSED = { breakerState: "CLOSED", openUntil: 0, openCount: 0 } as const;

const CHANGES: readonly Partial<DestinationRow>[] = [
  { pausedAt: T0 },
  { pausedAt: null },
  OPENED,
  CLOSED,
  { document: "{}" },
  { document: null },
];

type Step =
  | { readonly kind: "write"; readonly node: number; readonly change: number }
  | { readonly kind: "claim"; readonly version: number; readonly byte: number }
  | { readonly kind: "renew"; readonly node: number }
  | { readonly kind: "reset"; readonly node: number }
  | { readonly kind: "remove" };

const node = fc.nat(2);
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant("write" as const), node, change: fc.nat(CHANGES.length - 1) }),
  fc.record({ kind: fc.constant("claim" as const), version: fc.nat(50), byte: fc.nat(255) }),
  fc.record({ kind: fc.constant("renew" as const), node }),
  fc.record({ kind: fc.constant("reset" as const), node }),
  fc.record({ kind: fc.constant("remove" as const) }),
);

let lastTask = 0;

/** Creates a task that is to be claimed under this version. Nothing of it is left afterward. */
async function claimUnder(store: Store, version: number, byte = 0) {
  const part = byte.toString(16).padStart(2, "0");
  const taskId = `01900000-0000-7000-80${part}-${String(++lastTask).padStart(12, "0")}`;
  const creates = [create({ taskId }, { claimVersion: version })];
  const [result] = (await store.commit(batch({ creates }))).creates;
  if (result?.kind !== "created") throw new Error("the task was not created");
  const { started, row } = result;
  const ended =
    started === null
      ? { cancels: [{ tenantId: TENANT, taskId }] }
      : { settles: [settle(started, { status: "SUCCEEDED", reason: "succeeded" })] };
  await store.commit(batch(ended));
  await store.sweep({ now: LATER, endedBefore: LATER, deadBefore: LATER, limit: 100 });
  return { isClaimed: started !== null, row };
}

/** Null: written. Otherwise what refused the write. */
async function write(store: Store, row: DestinationRow): Promise<DestinationRow | null> {
  const { destinations } = await store.commit(batch({ destinations: [{ row }] }));
  return destinations[0] ?? null;
}

/** Nodes that know different states of one destination. */
class Nodes {
  readonly #store: Store;
  /** What each node believes. */
  readonly #rows = [NOTHING, NOTHING, NOTHING];
  /** All versions that a node believed at any time. */
  readonly #seen = new Set([0]);
  /** The versions that were written. */
  readonly #written = new Set<number>();

  constructor(store: Store) {
    this.#store = store;
  }

  #learn(node: number, row: DestinationRow): void {
    this.#rows[node] = row;
    this.#seen.add(row.version);
  }

  async apply(step: Step): Promise<unknown> {
    const store = this.#store;
    switch (step.kind) {
      case "write":
        return this.#write(step.node, CHANGES[step.change] ?? {});
      case "claim": {
        const seen = [...this.#seen];
        const version = seen[step.version % seen.length] ?? 0;
        const stored = await store.getDestination(TENANT, DESTINATION);
        const { isClaimed, row } = await claimUnder(store, version, step.byte);
        const isRefused = stored !== null && stored.version !== version;
        expect({ isClaimed, row }).toEqual({
          isClaimed: !isRefused,
          row: isRefused ? stored : null,
        });
        return;
      }
      case "renew":
        return this.#renew(step.node);
      case "reset":
        return this.#learn(step.node, NOTHING);
      case "remove":
        return removeUnused(store, LATER);
    }
  }

  async #write(node: number, change: Partial<DestinationRow>): Promise<void> {
    const known = this.#rows[node] ?? NOTHING;
    const row = { ...known, ...change, version: known.version + 1 };
    const other = await write(this.#store, row);
    if (other === null) {
      expect(this.#written, `version ${row.version} was written before`).not.toContain(row.version);
      this.#written.add(row.version);
    }
    this.#learn(node, other ?? row);
  }

  /** A node that reports what it knows has the current state afterward. */
  async #renew(node: number): Promise<void> {
    const known = this.#rows[node] ?? NOTHING;
    const destinations = [destinationReport({ version: known.version })];
    const renewal = await this.#store.renew(report(`node-${node}`, { destinations }));
    const row = renewal.destinations[0]?.row ?? known;
    this.#learn(node, row);
    const { version: _, ...state } = row;
    const stored = await this.#store.getDestination(TENANT, DESTINATION);
    const { version: __, ...expected } = stored ?? NOTHING;
    expect(state).toEqual(expected);
  }
}

export function removedConformance(store: () => Store, open: () => Promise<Store>): void {
  describe("a row that was removed", () => {
    it("is followed by one with a higher version, so that no claim under an old one is made", async () => {
      if (store().exclusive) return;
      expect(await write(store(), { ...NOTHING, ...OPENED, version: 1 })).toBeNull();
      expect(await write(store(), { ...NOTHING, ...CLOSED, version: 2 })).toBeNull();
      await removeUnused(store(), LATER);
      expect(await store().getDestination(TENANT, DESTINATION)).toBeNull();
      expect(await store().query.destination(TENANT, DESTINATION)).toBeNull();
      expect((await claimUnder(store(), 2)).isClaimed).toBe(true);
      const refusal = await write(store(), { ...NOTHING, pausedAt: T0, version: 1 });
      expect(refusal).toEqual({ ...NOTHING, version: 2 });
      const paused = { ...NOTHING, pausedAt: T0, version: 3 };
      expect(await write(store(), paused)).toBeNull();
      for (const version of [0, 1, 2]) {
        expect(await claimUnder(store(), version)).toEqual({ isClaimed: false, row: paused });
      }
    });

    it("is a blank one to a node that reports an older version", async () => {
      if (store().exclusive) return;
      await write(store(), { ...NOTHING, pausedAt: T0, version: 1 });
      await write(store(), { ...NOTHING, version: 2 });
      await removeUnused(store(), LATER);
      const versions = [1, 2, 0];
      const destinations = versions.map((version) => destinationReport({ version }));
      const renewal = await store().renew(report("node-1", { destinations }));
      const rows = renewal.destinations.map(({ row }) => row);
      expect(rows).toEqual([{ ...NOTHING, version: 2 }, null, null]);
    });

    it("is never claimed under by what a node knew before, in any order of events", async () => {
      if (store().exclusive) return;
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 60 }), async (steps) => {
          const own = await open();
          try {
            const nodes = new Nodes(own);
            for (const one of steps) await nodes.apply(one);
          } finally {
            await own.close();
          }
        }),
        { numRuns: RUNS, interruptAfterTimeLimit: MAX_MS },
      );
    });
  });
}
