/**
 * Conformance of queries: how every store must list, count and export. A part of
 * `conformance.testing.ts`.
 */
import { describe, expect, it } from "vitest";
import type { Store } from "../model/store.ts";
import { batch, claimFirst, claimOf, create, settle, T0, TENANT } from "./store.testing.ts";

export function queryConformance(store: () => Store): void {
  const get = (taskId: string, tenantId = TENANT) => store().query.get(tenantId, taskId);
  describe("queries", () => {
    it("lists newest first, in pages, without bodies", async () => {
      const creates = Array.from({ length: 5 }, () => create());
      await store().commit(batch({ creates }));
      const ids = creates.map(({ task }) => task.taskId).reverse();
      const first = await store().query.list(TENANT, {}, { limit: 2 });
      expect(first.tasks.map(({ taskId }) => taskId)).toEqual(ids.slice(0, 2));
      expect(first.tasks[0]?.body).toBeNull();
      const cursor = first.cursor ?? "";
      const rest = await store().query.list(TENANT, {}, { limit: 10, cursor });
      expect(rest.tasks.map(({ taskId }) => taskId)).toEqual(ids.slice(2));
      expect(rest.cursor).toBeNull();
      expect((await store().query.list("zeta", {}, { limit: 9 })).tasks).toEqual([]);
    });

    it("filters by every field", async () => {
      const { task } = create({
        idempotencyKey: "k",
        destination: "d",
        policyId: "p",
        labels: { team: "a'b\"%" },
        createdAt: T0 + 5,
      });
      const creates = [create(), { task, fingerprint: "f", claimVersion: null }];
      await store().commit(batch({ creates }));
      const matching = [
        { destination: "d" },
        { policyId: "p" },
        { idempotencyKey: "k" },
        { label: { name: "team", value: "a'b\"%" } },
        { createdFrom: T0 + 5 },
        { createdFrom: T0 + 1, createdTo: T0 + 6, status: "PENDING" },
      ] as const;
      for (const filter of matching) {
        const { tasks } = await store().query.list(TENANT, filter, { limit: 9 });
        expect(
          tasks.map(({ taskId }) => taskId),
          JSON.stringify(filter),
        ).toEqual([task.taskId]);
      }
      const empty = [
        { createdTo: T0 },
        { finishedFrom: 0 },
        { reason: "budget" },
        { lastStatus: 503 },
      ];
      for (const filter of empty) {
        expect((await store().query.list(TENANT, filter, { limit: 9 })).tasks).toEqual([]);
      }
    });

    it("finds a dead letter by how it ended", async () => {
      await store().commit(batch({ creates: [create(), create()] }));
      const [claim] = await claimFirst(store(), 1);
      const end = settle(claim!, { status: "EXHAUSTED", reason: "attempts" });
      await store().commit(batch({ now: T0 + 9, settles: [end] }));
      const filter = {
        status: "EXHAUSTED",
        reason: "attempts",
        lastStatus: 503,
        finishedFrom: T0 + 9,
      } as const;
      const { tasks } = await store().query.list(TENANT, filter, { limit: 9 });
      expect(tasks.map(({ taskId }) => taskId)).toEqual([claim?.taskId]);
    });

    it("counts by status through every change", async () => {
      const { task } = create();
      const fresh = { task, fingerprint: null, claimVersion: null };
      await store().commit(batch({ creates: [fresh, create(), create({}, { claimVersion: 0 })] }));
      await store().commit(batch({ cancels: [task] }));
      const [claim] = await claimFirst(store());
      await store().commit(
        batch({ settles: [settle(claim!, { status: "SUCCEEDED", reason: "succeeded" })] }),
      );
      const counts = { IN_FLIGHT: 1, SUCCEEDED: 1, CANCELLED: 1 };
      expect(await store().query.count(TENANT)).toEqual(counts);
      expect(await store().query.count("zeta")).toEqual({});
    });

    it("pages through attempts and exports with bodies, oldest first", async () => {
      await store().commit(batch({ creates: [create({ body: new Uint8Array([7]) }), create()] }));
      const [claim] = await claimFirst(store(), 1);
      await store().commit(batch({ settles: [settle(claim!, { nextAttemptAt: T0 })] }));
      const { claims } = await store().commit(batch({ claims: [claimOf("retry")] }));
      const second = claims[0]?.tasks[0];
      await store().commit(batch({ settles: [settle(second!)] }));
      const page = await store().query.attempts(TENANT, claim!.taskId, { limit: 1 });
      expect(page.attempts[0]?.attemptNumber).toBe(1);
      const next = await store().query.attempts(TENANT, claim!.taskId, {
        limit: 9,
        cursor: page.cursor ?? "",
      });
      expect(next.attempts.map(({ attemptNumber }) => attemptNumber)).toEqual([2]);
      const exported = await store().query.export(TENANT, { limit: 1 });
      expect(exported.tasks[0]?.body).toEqual(new Uint8Array([7]));
      const rest = await store().query.export(TENANT, { limit: 9, cursor: exported.cursor ?? "" });
      expect(rest.tasks).toHaveLength(1);
    });

    it("removes expired tasks, dead letters later, and keys last", async () => {
      const keyed = (key: string) => create({ idempotencyKey: key }, { fingerprint: "f" });
      await store().commit(batch({ creates: [keyed("a"), keyed("b"), keyed("c")] }));
      const [one, two] = await claimFirst(store(), 2);
      const ends = [
        settle(one!, { status: "SUCCEEDED", reason: "succeeded" }),
        settle(two!, { status: "EXHAUSTED", reason: "attempts" }),
      ];
      await store().commit(batch({ settles: ends }));
      const sweep = (now: number) =>
        store().sweep({ now, endedBefore: T0 + 1, deadBefore: T0, limit: 10 });
      expect(await sweep(T0 + 1)).toBe(1);
      expect(await get(one!.taskId)).toBeNull();
      expect(await get(two!.taskId)).not.toBeNull();
      const replay = await store().commit(batch({ creates: [keyed("a")] }));
      expect(replay.creates).toEqual([{ kind: "replayed", taskId: one?.taskId }]);
      expect(await sweep(T0 + 86_400_000)).toBe(2);
      const anew = await store().commit(batch({ creates: [keyed("a"), keyed("c")] }));
      expect(anew.creates.map(({ kind }) => kind)).toEqual(["created", "replayed"]);
    });

    it("keeps the key of an ended task for a day, whatever else is removed", async () => {
      const keyed = (key: string) => create({ idempotencyKey: key }, { fingerprint: "f" });
      await store().commit(batch({ creates: ["a", "b", "c"].map(keyed) }));
      const [stays, removed, discarded] = await claimFirst(store(), 3);
      const end = (now: number, claim: typeof stays, status: "SUCCEEDED" | "EXHAUSTED") =>
        store().commit(batch({ now, settles: [settle(claim!, { status, reason: "attempts" })] }));
      await end(T0 + 30, stays, "EXHAUSTED");
      await end(T0 + 10, removed, "SUCCEEDED");
      await end(T0 + 20, discarded, "EXHAUSTED");
      expect(await store().discard(TENANT, [discarded!.taskId])).toBe(1);
      const sweep = async (now: number, limit = 10) =>
        store().sweep({ now, endedBefore: T0 + 11, deadBefore: 0, limit });
      expect(await sweep(T0 + 40)).toBe(1);
      const replays = await store().commit(batch({ creates: ["a", "b", "c"].map(keyed) }));
      expect(replays.creates.map(({ kind }) => kind)).toEqual(["replayed", "replayed", "replayed"]);
      for (const ms of [10, 20, 30]) {
        expect(await sweep(T0 + ms - 1 + 86_400_000)).toBe(0);
        expect(await sweep(T0 + ms + 86_400_000)).toBe(1);
      }
      const anew = await store().commit(batch({ creates: ["a", "b", "c"].map(keyed) }));
      expect(anew.creates.map(({ kind }) => kind)).toEqual(["created", "created", "created"]);
      expect(await get(stays!.taskId)).not.toBeNull();
    });

    it("discards dead letters and nothing else, of their tenant alone", async () => {
      await store().commit(batch({ creates: [create(), create(), create()] }));
      const [one, two] = await claimFirst(store(), 2);
      const ends = [
        settle(one!, { status: "SUCCEEDED", reason: "succeeded" }),
        settle(two!, { status: "EXHAUSTED", reason: "attempts" }),
      ];
      await store().commit(batch({ settles: ends }));
      const { tasks } = await store().query.list(TENANT, {}, { limit: 9 });
      const ids = [...tasks.map(({ taskId }) => taskId), "nothing"];
      expect(await store().discard("other", ids)).toBe(0);
      expect(await store().discard(TENANT, ids)).toBe(1);
      expect(await store().discard(TENANT, ids)).toBe(0);
      expect(await get(two!.taskId)).toBeNull();
      expect(await store().query.count(TENANT)).toEqual({ PENDING: 1, SUCCEEDED: 1 });
    });
  });
}
