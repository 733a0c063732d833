/**
 * Conformance of pages and of the removal of unused rows: how every store must stay small. A part of
 * `conformance.testing.ts`.
 */
import { describe, expect, it } from "vitest";
import type { StartedTask } from "../model/batch.ts";
import { blankDestination, CIRCUIT_KEPT_MS } from "../model/destination-row.ts";
import { GUARD_DOCUMENT } from "../model/document-table.ts";
import type { Store } from "../model/store.ts";
import type { StoredDestinationState } from "../model/task-query.ts";
import {
  batch,
  claimOf,
  create,
  documentsOf,
  newTask,
  report,
  settle,
  T0,
  TENANT,
} from "./store.testing.ts";

const LATER = T0 + 1000;

/** Repeats the removal until everything was examined; returns the number of removed rows. */
export async function removeUnused(store: Store, now = LATER): Promise<number> {
  let removed = 0;
  let cursor: string | null | undefined;
  for (let calls = 0; cursor !== null; calls++) {
    if (calls > 100) throw new Error("the removal does not end");
    const page = await store.removeUnused({ now, limit: 2, cursor });
    removed += page.removed;
    cursor = page.cursor;
  }
  return removed;
}

/** A task that was created, claimed and ended. */
async function endTask(store: Store, destination: string): Promise<StartedTask> {
  await store.commit(batch({ creates: [create({ destination })] }));
  const { claims } = await store.commit(batch({ claims: [claimOf("first", { destination })] }));
  const [claim] = claims[0]?.tasks ?? [];
  if (claim === undefined) throw new Error("nothing was claimed");
  const ended = settle(claim, { status: "SUCCEEDED", reason: "succeeded" });
  await store.commit(batch({ settles: [ended] }));
  return claim;
}

const sweepAll = (store: Store) =>
  store.sweep({ now: LATER, endedBefore: LATER, deadBefore: LATER, limit: 100 });

const guards = (id: string) => ({ kind: GUARD_DOCUMENT, tenantId: TENANT, id, text: "{}" });

export function unusedConformance(store: () => Store): void {
  describe("pages", () => {
    it("return every lane that is due before an instant, its earliest task first", async () => {
      const names = Array.from({ length: 7 }, (_, n) => `d${n}`);
      const creates = names.flatMap((destination, n) =>
        [T0 + n, T0 + n + 3].map((scheduledAt) => create({ destination, scheduledAt })),
      );
      await store().commit(batch({ creates }));
      // A store may return a lane once more, with a later task.
      const found = new Map<string, number>();
      let cursor: string | null | undefined;
      let pages = 0;
      while (cursor !== null) {
        const query = { partitions: [0], from: 0, before: T0 + 5, limit: 2 };
        const page = await store().dueLanes({ ...query, cursor });
        expect(page.lanes.length).toBeLessThanOrEqual(6);
        for (const { destination, dueAt } of page.lanes) {
          if (!found.has(destination)) found.set(destination, dueAt);
        }
        cursor = page.cursor;
        pages++;
      }
      const expected = names.slice(0, 5).map((name, n) => [name, T0 + n]);
      expect([...found].sort()).toEqual(expected);
      // A store examines the destinations that are due, or all of them.
      expect(pages).toBeGreaterThanOrEqual(Math.ceil(found.size / 2));
    });

    it("return destinations by name, with their counts and due instants", async () => {
      const row = { ...blankDestination(TENANT, "b"), version: 1, pausedAt: T0 };
      const creates = [
        create({ destination: "c", scheduledAt: T0 + 9 }),
        create({ destination: "c", scheduledAt: T0 + 5 }),
        create({ tenantId: "zeta", destination: "d" }),
      ];
      await store().commit(batch({ destinations: [{ row }], creates }));
      await endTask(store(), "a");
      const found: StoredDestinationState[] = [];
      let cursor: string | null | undefined;
      while (cursor !== null) {
        const after = cursor === undefined ? {} : { cursor };
        const page = await store().query.destinations(TENANT, { limit: 1, ...after });
        found.push(...page.destinations);
        cursor = page.cursor;
      }
      expect(found).toEqual([
        { row: blankDestination(TENANT, "a"), tasks: { SUCCEEDED: 1 }, nextDueAt: null },
        { row, tasks: {}, nextDueAt: null },
        { row: blankDestination(TENANT, "c"), tasks: { PENDING: 2 }, nextDueAt: T0 + 5 },
      ]);
      expect(await store().query.destination(TENANT, "c")).toEqual(found[2]);
      expect(await store().query.destination(TENANT, "d")).toBeNull();
      const counts = { open: 0, closed: 1, paused: 1 };
      expect(await store().query.countDestinations(TENANT)).toEqual(counts);
    });

    it("return documents by tenant and id, several at once, and none that was removed", async () => {
      const documents = ["a", "b", "c"].map(guards);
      await store().commit(
        batch({ documents: [...documents, { ...guards("a"), tenantId: "zeta" }] }),
      );
      const first = await store().documents.list(GUARD_DOCUMENT, { limit: 2, tenantId: TENANT });
      expect(first.documents.map(({ id }) => id)).toEqual(["a", "b"]);
      const cursor = first.cursor ?? "";
      const page = { limit: 2, tenantId: TENANT, cursor };
      const rest = await store().documents.list(GUARD_DOCUMENT, page);
      expect(rest).toMatchObject({ documents: [{ id: "c" }], cursor: null });
      await store().commit(batch({ documents: [{ ...guards("b"), text: null }] }));
      const keys = ["c", "b", "a"].map((id) => ({ tenantId: TENANT, id }));
      expect(await store().documents.getMany(GUARD_DOCUMENT, keys)).toEqual(["{}", null, "{}"]);
      expect(await documentsOf(store(), GUARD_DOCUMENT)).toHaveLength(3);
    });
  });

  describe("unused rows", () => {
    it("are removed: a destination after its last task, with its guard state", async () => {
      await endTask(store(), "gone");
      await store().commit(batch({ creates: [create({ destination: "used" })] }));
      await store().commit(batch({ documents: [guards("gone"), guards("used")] }));
      await removeUnused(store());
      expect(await documentsOf(store(), GUARD_DOCUMENT)).toHaveLength(2);
      await sweepAll(store());
      expect(await removeUnused(store())).toBeGreaterThan(0);
      expect((await documentsOf(store(), GUARD_DOCUMENT)).map(({ id }) => id)).toEqual(["used"]);
      expect(await removeUnused(store())).toBe(0);
      // The name can be used again, in the next commit.
      await endTask(store(), "gone");
      expect(await store().query.count(TENANT)).toEqual({ PENDING: 1, SUCCEEDED: 1 });
    });

    it("stay while a user or a guard has left something in the row", async () => {
      const blank = (name: string) => ({ ...blankDestination(TENANT, name), version: 1 });
      const open = { breakerState: "OPEN" as const };
      const rows = [
        { ...blank("configured"), document: "{}" },
        { ...blank("paused"), pausedAt: T0 },
        { ...blank("gated"), gateUntil: LATER + 1 },
        { ...blank("open"), ...open, openUntil: LATER + 1 - CIRCUIT_KEPT_MS },
        { ...blank("dead"), ...open, openUntil: LATER - CIRCUIT_KEPT_MS },
        { ...blank("waits"), gateUntil: LATER },
        blank("blank"),
      ];
      await store().commit(batch({ destinations: rows.map((row) => ({ row })) }));
      await store().commit(batch({ creates: [create({ destination: "waits" })] }));
      expect(await removeUnused(store())).toBeGreaterThanOrEqual(2);
      const { destinations } = await store().query.destinations(TENANT, { limit: 9 });
      const kept = ["configured", "gated", "open", "paused", "waits"];
      expect(destinations.map(({ row }) => row.name)).toEqual(kept);
      expect(await store().getDestination(TENANT, "blank")).toBeNull();
      expect(await store().openCircuits(TENANT, 9)).toEqual([rows[3]]);
      const counts = { open: 1, closed: 4, paused: 1 };
      expect(await store().query.countDestinations(TENANT)).toEqual(counts);
    });

    it("are removed: nodes without a lease, but not while they have claims", async () => {
      await store().renew(report("node-1", { leaseMs: 0 }));
      await store().renew(report("alive", { leaseMs: LATER + 10 - T0 }));
      await store().commit(batch({ creates: [create({}, { claimVersion: 0 })] }));
      await removeUnused(store());
      const [claim] = await store().claimsOf("node-1", 5);
      expect(claim).toBeDefined();
      const forAlive = { nodeId: "alive", partitions: [0], limit: 5 };
      expect(await store().lapsed(forAlive)).toEqual([claim]);
      await store().commit(batch({ nodeId: "alive", settles: [settle(claim!)] }));
      await removeUnused(store());
      // A removed node that returns can claim again.
      const claims = [claimOf("retry")];
      await store().commit(batch({ now: T0 + 600, claims }));
      expect(await store().claimsOf("node-1", 5)).toHaveLength(1);
    });

    it("are removed: inline policies, once no stored task uses them", async () => {
      const policyIds = ["inline.used", "inline.gone", "registered"];
      for (const policyId of policyIds) {
        const row = { tenantId: TENANT, policyId, version: 1, document: "{}", createdAt: T0 };
        await store().addPolicy(row);
      }
      await endTask(store(), "other");
      const task = newTask({ policyId: "inline.used", policyVersion: 1 });
      await store().commit(batch({ creates: [{ task, fingerprint: null, claimVersion: null }] }));
      await store().commit(batch({ cancels: [task] }));
      const unused = async () => {
        const { policies, cursor } = await store().unusedPolicies({ limit: 2 });
        if (cursor === null) return policies;
        const rest = await store().unusedPolicies({ limit: 2, cursor });
        return [...policies, ...rest.policies];
      };
      expect(await unused()).toEqual([{ tenantId: TENANT, policyId: "inline.gone" }]);
      await store().removeInline(policyIds.map((policyId) => ({ tenantId: TENANT, policyId })));
      const left = await store().listPolicies(TENANT);
      expect(left.map(({ policyId }) => policyId)).toEqual(["inline.used", "registered"]);
      await sweepAll(store());
      expect(await unused()).toEqual([{ tenantId: TENANT, policyId: "inline.used" }]);
    });
  });
}
