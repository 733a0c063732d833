/**
 * Conformance of nodes, destinations and policies. A part of `conformance.testing.ts`.
 */
import { describe, expect, it } from "vitest";
import { blankDestination, type DestinationRow } from "../model/destination-row.ts";
import type { Store } from "../model/store.ts";
import { PRESET_VERSION } from "../model/store.ts";
import type { NewTask } from "../model/task.ts";
import { batch, claimFirst, create, report, settle, T0, TENANT } from "./store.testing.ts";

export function tableConformance(store: () => Store): void {
  describe("nodes", () => {
    it("returns the claims of nodes whose lease has expired, and a node's own", async () => {
      const lapsedFor = (nodeId: string) => store().lapsed({ nodeId, partitions: [0], limit: 5 });
      await store().renew(report("node-1"));
      await store().renew(report("node-2"));
      await store().commit(batch({ creates: [create()] }));
      const [claim] = await claimFirst(store());
      expect(await lapsedFor("node-2")).toEqual(store().exclusive ? [claim] : []);
      await store().renew(report("node-1", { leaseMs: 0 }));
      expect(await lapsedFor("node-2")).toEqual([claim]);
      expect(await lapsedFor("node-1")).toEqual([]);
      expect(await store().claimsOf("node-1", 5)).toEqual([claim]);
      expect(await store().claimsOf("node-2", 5)).toEqual([]);
      if (store().exclusive) return;
      const elsewhere = { nodeId: "node-2", partitions: [1], limit: 5 };
      expect(await store().lapsed(elsewhere)).toEqual([]);
    });

    it("stores the highest instant that it has seen", async () => {
      await store().renew(report("node-1", { now: T0 + 7 }));
      const latestAt = await store().latestAt();
      // Engine time follows the clock of a shared store, so it needs no latest instant.
      if (store().exclusive) expect(latestAt).toBe(T0 + 7);
      else expect([0, T0 + 7]).toContain(latestAt);
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
      expect(await store().addPolicy({ ...policy, version: 4 })).toBe(false);
      expect(await store().getPolicy(TENANT, "p", 1)).toEqual({ ...policy, removedAt: null });
      expect((await store().getPolicy(TENANT, "p"))?.version).toBe(2);
      expect(await store().getPolicy("zeta", "p")).toBeNull();
      const newest = { ...policy, version: 2, removedAt: null };
      expect(await store().listPolicies(TENANT)).toEqual([newest]);
    });

    it("keeps a policy that a waiting or running task uses", async () => {
      const policy = {
        tenantId: TENANT,
        policyId: "p",
        version: 1,
        document: "{}",
        createdAt: T0,
      };
      await store().addPolicy(policy);
      const made = create({ policyId: "p", policyVersion: 1 });
      await store().commit(batch({ creates: [made] }));
      expect(await store().removePolicy(TENANT, "p", T0)).toBe(false);
      const [claim] = await claimFirst(store());
      expect(await store().removePolicy(TENANT, "p", T0)).toBe(false);
      const ended = settle(claim!, { status: "SUCCEEDED", reason: "succeeded" });
      await store().commit(batch({ settles: [ended] }));
      expect(await store().removePolicy(TENANT, "p", T0 + 5)).toBe(true);
      expect(await store().removePolicy(TENANT, "p", T0 + 6)).toBe(false);
      const removed = { ...policy, removedAt: T0 + 5 };
      expect(await store().getPolicy(TENANT, "p")).toEqual(removed);
      expect(await store().getPolicy(TENANT, "p", 1)).toEqual(removed);
      expect(await store().listPolicies(TENANT)).toEqual([]);
    });

    it("never uses a version of a removed policy again", async () => {
      const policy = { tenantId: TENANT, policyId: "p", version: 1, document: "{}", createdAt: T0 };
      await store().addPolicy(policy);
      await store().removePolicy(TENANT, "p", T0);
      expect(await store().addPolicy(policy)).toBe(false);
      expect(await store().addPolicy({ ...policy, version: 2 })).toBe(true);
      expect(await store().getPolicy(TENANT, "p")).toMatchObject({ version: 2, removedAt: null });
      expect(await store().listPolicies(TENANT)).toHaveLength(1);
    });

    it("creates no task under a policy that does not exist or was removed", async () => {
      const policy = { tenantId: TENANT, policyId: "p", version: 1, document: "{}", createdAt: T0 };
      await store().addPolicy(policy);
      const make = (fields: Partial<NewTask>) =>
        create(
          { policyId: "p", policyVersion: 1, idempotencyKey: "k", ...fields },
          { fingerprint: "f" },
        );
      const unknown = [make({ policyVersion: 2 }), make({ tenantId: "zeta" })];
      const { creates } = await store().commit(batch({ creates: unknown }));
      expect(creates).toEqual([{ kind: "unknown-policy" }, { kind: "unknown-policy" }]);
      await store().removePolicy(TENANT, "p", T0);
      const late = make({});
      const again = await store().commit(batch({ creates: [late] }));
      expect(again.creates).toEqual([{ kind: "unknown-policy" }]);
      expect(await store().query.get(TENANT, late.task.taskId)).toBeNull();
      // The key is still free.
      const good = make({ policyId: "background", policyVersion: PRESET_VERSION });
      const { creates: created } = await store().commit(batch({ creates: [good] }));
      expect(created[0]?.kind).toBe("created");
      expect(await store().query.countTenant(TENANT)).toBe(1);
      expect(await store().query.countTenant("zeta")).toBe(0);
    });
  });
}
