/**
 * Conformance of nodes, destinations and policies. A part of `conformance.testing.ts`.
 */
import { describe, expect, it } from "vitest";
import { blankDestination, type DestinationRow } from "../model/destination-row.ts";
import type { Store } from "../model/store.ts";
import { batch, claimFirst, create, T0, TENANT } from "./store.testing.ts";

export function tableConformance(store: () => Store): void {
  describe("nodes", () => {
    it("returns the claims of nodes whose lease has expired, and a node's own", async () => {
      await store().renew({ nodeId: "node-1", now: T0, leaseUntil: T0 + 10 });
      await store().renew({ nodeId: "node-2", now: T0, leaseUntil: T0 + 20 });
      await store().commit(batch({ creates: [create()] }));
      const [claim] = await claimFirst(store());
      const lapsed = await store().lapsed({ now: T0 + 10, nodeId: "node-2", limit: 5 });
      expect(lapsed).toEqual([claim]);
      expect(await store().lapsed({ now: T0 + 10, nodeId: "node-1", limit: 5 })).toEqual([]);
      expect(await store().claimsOf("node-1", 5)).toEqual([claim]);
      expect(await store().claimsOf("node-2", 5)).toEqual([]);
      if (store().exclusive) return;
      expect(await store().lapsed({ now: T0 + 9, nodeId: "node-2", limit: 5 })).toEqual([]);
    });

    it("stores the highest instant that it has seen", async () => {
      await store().renew({ nodeId: "node-1", now: T0 + 7, leaseUntil: T0 + 10 });
      expect(await store().latestAt()).toBe(T0 + 7);
    });
  });

  describe("destinations and policies", () => {
    it("writes a row only over the version before it", async () => {
      const row: DestinationRow = {
        ...blankDestination(TENANT, "x"),
        version: 1,
        document: "{}",
        pausedAt: T0,
        breakerState: "OPEN",
        openUntil: T0 + 5,
        openCount: 2,
      };
      const rival = { ...row, gateUntil: T0 + 1 };
      const writes = [{ row }, { row: rival }, { row: { ...rival, version: 2 } }];
      const { destinations } = await store().commit(batch({ destinations: writes }));
      expect(destinations).toEqual([null, row, null]);
      expect(await store().getDestination(TENANT, "x")).toEqual({ ...rival, version: 2 });
      expect(await store().getDestination("zeta", "x")).toBeNull();
      expect(await store().openCircuits(TENANT, 9)).toEqual([{ ...rival, version: 2 }]);
      expect(await store().openCircuits("zeta", 9)).toEqual([]);
    });

    it("keeps versions of policies, and rejects one that exists", async () => {
      const policy = {
        tenantId: TENANT,
        policyId: "p",
        version: 1,
        document: "{}",
        createdAt: T0,
      };
      expect(await store().addPolicy(policy)).toBe(true);
      expect(await store().addPolicy({ ...policy, document: "other" })).toBe(false);
      expect(await store().addPolicy({ ...policy, version: 2 })).toBe(true);
      expect(await store().getPolicy(TENANT, "p", 1)).toEqual(policy);
      expect((await store().getPolicy(TENANT, "p"))?.version).toBe(2);
      expect(await store().getPolicy("zeta", "p")).toBeNull();
      expect(await store().listPolicies(TENANT)).toEqual([{ ...policy, version: 2 }]);
    });

    it("keeps a policy that an active task uses", async () => {
      const policy = {
        tenantId: TENANT,
        policyId: "p",
        version: 1,
        document: "{}",
        createdAt: T0,
      };
      await store().addPolicy(policy);
      const { task } = create({ policyId: "p" });
      await store().commit(batch({ creates: [{ task, fingerprint: null, claimVersion: null }] }));
      expect(await store().removePolicy(TENANT, "p")).toBe(false);
      await store().commit(batch({ cancels: [task] }));
      expect(await store().removePolicy(TENANT, "p")).toBe(true);
      expect(await store().getPolicy(TENANT, "p")).toBeNull();
    });
  });
}
