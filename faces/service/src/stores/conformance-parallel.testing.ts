/**
 * Conformance of nodes that write at the same time: of two writes that exclude each other, exactly
 * one succeeds. A part of `conformance.testing.ts`.
 */
import { describe, expect, it } from "vitest";
import type { Batch, CommitResult, StartedTask } from "../model/batch.ts";
import { blankDestination } from "../model/destination-row.ts";
import type { Store } from "../model/store.ts";
import { isEnded } from "../model/task.ts";
import {
  batch,
  claimFirst,
  claimOf,
  create,
  DESTINATION,
  settle,
  T0,
  TENANT,
} from "./store.testing.ts";

const NODES = ["node-1", "node-2"] as const;

export function parallelConformance(store: () => Store): void {
  /** Both nodes commit before either has its result. */
  const commitBoth = (batchOf: (nodeId: string) => Partial<Batch>): Promise<CommitResult[]> =>
    Promise.all(NODES.map((nodeId) => store().commit(batch({ nodeId, ...batchOf(nodeId) }))));

  async function claimOne(): Promise<StartedTask> {
    await store().commit(batch({ creates: [create()] }));
    const [claim] = await claimFirst(store());
    if (claim === undefined) throw new Error("nothing was claimed");
    return claim;
  }

  describe("two nodes that commit in parallel", () => {
    it("claim each task once", async () => {
      const creates = Array.from({ length: 20 }, () => create());
      await store().commit(batch({ creates }));
      const claims = [claimOf("first", { limit: 15 })];
      const results = await commitBoth(() => ({ claims }));
      const ids = results.flatMap(({ claims }) => claims[0]?.tasks.map(({ taskId }) => taskId));
      expect(ids.sort()).toEqual(creates.map(({ task }) => task.taskId).sort());
      const owned = await Promise.all(NODES.map((nodeId) => store().claimsOf(nodeId, 50)));
      const claimed = results.map(({ claims }) => claims[0]?.tasks.length);
      expect(owned.map(({ length }) => length)).toEqual(claimed);
    });

    it("store one task for a key", async () => {
      const results = await commitBoth(() => ({
        creates: [create({ idempotencyKey: "k" }, { fingerprint: "f" })],
      }));
      const kinds = results.map(({ creates }) => creates[0]?.kind);
      expect(kinds.sort()).toEqual(["created", "replayed"]);
      expect((await store().query.list(TENANT, {}, { limit: 9 })).tasks).toHaveLength(1);
    });

    it("redrive a source once", async () => {
      const source = create();
      await store().commit(batch({ creates: [source] }));
      const results = await commitBoth(() => ({
        creates: [create({ redrivenFrom: source.task.taskId })],
      }));
      const kinds = results.map(({ creates }) => creates[0]?.kind);
      expect(kinds.sort()).toEqual(["created", "redriven"]);
      expect((await store().query.list(TENANT, {}, { limit: 9 })).tasks).toHaveLength(2);
    });

    it("settle a claim once", async () => {
      const claim = await claimOne();
      const results = await commitBoth(() => ({ settles: [settle(claim)] }));
      const settled = results.map(({ settles }) => settles[0]);
      expect(settled.sort()).toEqual(["PENDING", "fenced"]);
      const { attempts } = await store().query.attempts(TENANT, claim.taskId, { limit: 9 });
      expect(attempts).toHaveLength(1);
    });

    it("agree on how a task ended if one settles it and the other cancels it", async () => {
      const claim = await claimOne();
      const done = settle(claim, { status: "SUCCEEDED", reason: "succeeded" });
      const [settled, cancelled] = await commitBoth((nodeId) =>
        nodeId === "node-1" ? { settles: [done] } : { cancels: [claim] },
      );
      expect(settled?.settles).toEqual(["SUCCEEDED"]);
      expect(["requested", "ended"]).toContain(cancelled?.cancels[0]?.kind);
      const task = await store().query.get(TENANT, claim.taskId);
      expect(task).toMatchObject({ status: "SUCCEEDED", reason: "succeeded" });
    });

    it("write one version of a row, and only that node claims under it", async () => {
      await store().commit(batch({ creates: [create(), create()] }));
      const results = await commitBoth((nodeId) => ({
        destinations: [
          {
            row: {
              ...blankDestination(TENANT, DESTINATION),
              version: 1,
              gateUntil: nodeId === "node-1" ? 1 : 2,
            },
          },
        ],
        claims: [claimOf("first", { limit: 1, version: 1 })],
      }));
      const winners = results.filter(({ destinations }) => destinations[0] === null);
      const losers = results.filter(({ destinations }) => destinations[0] !== null);
      expect([winners.length, losers.length]).toEqual([1, 1]);
      const stored = await store().getDestination(TENANT, DESTINATION);
      expect(winners[0]?.claims[0]?.tasks).toHaveLength(1);
      expect(losers[0]?.claims[0]).toMatchObject({ tasks: [], row: stored });
      expect(losers[0]?.destinations).toEqual([stored]);
    });

    it("write one version of a document and of a policy", async () => {
      const document = { kind: "redrive", tenantId: TENANT, id: "b", version: 1, text: "{}" };
      const puts = NODES.map((nodeId) => store().documents.put({ ...document, text: nodeId }));
      expect((await Promise.all(puts)).sort()).toEqual([false, true]);
      const policy = { tenantId: TENANT, policyId: "p", version: 1, document: "{}", createdAt: T0 };
      const adds = NODES.map(() => store().addPolicy(policy));
      expect((await Promise.all(adds)).sort()).toEqual([false, true]);
    });

    it("keep the counts equal to the tasks", async () => {
      const creates = Array.from({ length: 30 }, () => create());
      await store().commit(batch({ creates }));
      for (let round = 0; round < 3; round++) {
        const now = T0 + 500 * round;
        const claims = (["first", "retry"] as const).map((lane) => claimOf(lane, { limit: 4 }));
        const claimed = await commitBoth(() => ({ now, claims }));
        const tasks = claimed.map(({ claims }) => claims.flatMap(({ tasks }) => tasks));
        await commitBoth((nodeId) => ({
          now,
          settles: (tasks[NODES.indexOf(nodeId as "node-1")] ?? []).map((task, index) =>
            settle(task, {
              nextAttemptAt: now + 500,
              ...(index % 3 === 0 && { status: "SUCCEEDED", reason: "succeeded" }),
            }),
          ),
          cancels: [creates[29 - round]!.task],
        }));
      }
      const { tasks } = await store().query.list(TENANT, {}, { limit: 50 });
      const expected: Record<string, number> = {};
      for (const { status } of tasks) expected[status] = (expected[status] ?? 0) + 1;
      expect(await store().query.count(TENANT)).toEqual(expected);
      expect(tasks.some(({ status }) => isEnded(status))).toBe(true);
    });
  });
}
