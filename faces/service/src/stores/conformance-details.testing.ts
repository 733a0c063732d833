/**
 * Conformance of details that mutants of the stores have shown to be untested: the ends of ranges,
 * limits, and what a change leaves behind. A part of `conformance.testing.ts`.
 */
import { describe, expect, it } from "vitest";
import { countClasses } from "../collections/hidden-classes.testing.ts";
import type { Store } from "../model/store.ts";
import type { TaskFilter } from "../model/task-query.ts";
import { batch, claimFirst, claimOf, create, report, settle, T0, TENANT } from "./store.testing.ts";

export function detailConformance(store: () => Store): void {
  const idsOf = async (filter: TaskFilter) => {
    const { tasks } = await store().query.list(TENANT, filter, { limit: 9 });
    return tasks.map(({ taskId }) => taskId);
  };

  describe("filters", () => {
    it("include the start of a range and exclude its end", async () => {
      const { task } = create({ createdAt: T0 });
      await store().commit(batch({ creates: [{ task, fingerprint: null, claimVersion: null }] }));
      await store().commit(batch({ now: T0 + 5, cancels: [task] }));
      const { taskId } = task;
      expect(await idsOf({ createdFrom: T0, createdTo: T0 + 1 })).toEqual([taskId]);
      expect(await idsOf({ createdFrom: T0 - 1, createdTo: T0 })).toEqual([]);
      expect(await idsOf({ finishedFrom: T0 + 5, finishedTo: T0 + 6 })).toEqual([taskId]);
      expect(await idsOf({ finishedFrom: T0, finishedTo: T0 + 5 })).toEqual([]);
      expect(await idsOf({ finishedTo: T0 + 6 })).toEqual([taskId]);
    });

    it("exclude tasks that have not ended from every range of ends", async () => {
      await store().commit(batch({ creates: [create()] }));
      expect(await idsOf({ finishedTo: T0 + 1 })).toEqual([]);
    });

    it("compare the value of a label", async () => {
      await store().commit(batch({ creates: [create({ labels: { team: "a" } })] }));
      expect(await idsOf({ label: { name: "team", value: "a" } })).toHaveLength(1);
      expect(await idsOf({ label: { name: "team", value: "b" } })).toEqual([]);
      expect(await idsOf({ label: { name: "other", value: "a" } })).toEqual([]);
    });
  });

  it("gives claimed tasks one hidden class", async () => {
    await store().commit(batch({ creates: Array.from({ length: 40 }, () => create()) }));
    const claimed = await claimFirst(store(), 40);
    expect(claimed).toHaveLength(40);
    expect(countClasses(claimed)).toBe(1);
  });

  it("claims a task that is due behind one that was moved to a later instant", async () => {
    await store().commit(batch({ creates: [create()] }));
    const [moved] = await claimFirst(store());
    if (moved === undefined) throw new Error("nothing was claimed");
    const later = settle(moved, { attempt: null, lane: "first", nextAttemptAt: T0 + 500 });
    const { task } = create({ scheduledAt: T0 + 100 });
    const creates = [{ task, fingerprint: null, claimVersion: null }];
    await store().commit(batch({ settles: [later], creates }));
    const { claims } = await store().commit(batch({ now: T0 + 200, claims: [claimOf("first")] }));
    expect(claims[0]?.tasks.map(({ taskId }) => taskId)).toEqual([task.taskId]);
    expect(claims[0]?.nextDueAts).toEqual([T0 + 500]);
  });

  it("finds the next task of a lane, whatever instants another one had before", async () => {
    const dueAts = [T0 + 300, T0 + 100, T0 + 400];
    const creates = dueAts.map((scheduledAt) => create({ scheduledAt }));
    await store().commit(batch({ creates }));
    await store().commit(batch({ retryNows: [creates[0]!.task] }));
    const [moved] = await claimFirst(store());
    expect(moved?.taskId).toBe(creates[0]?.task.taskId);
    const later = settle(moved!, { attempt: null, lane: "first", nextAttemptAt: T0 + 900 });
    await store().commit(batch({ settles: [later] }));
    const { claims } = await store().commit(batch({ now: T0 + 200, claims: [claimOf("first")] }));
    expect(claims[0]?.tasks.map(({ taskId }) => taskId)).toEqual([creates[1]?.task.taskId]);
    expect(claims[0]?.nextDueAts).toEqual([T0 + 400]);
  });

  describe("a sweep", () => {
    /** Ended tasks, each with an expired key. */
    async function endTasks(count: number): Promise<void> {
      const creates = Array.from({ length: count }, (_, n) =>
        create({ idempotencyKey: `k${n}` }, { fingerprint: "f" }),
      );
      await store().commit(batch({ creates }));
      const claims = await claimFirst(store(), count);
      const ends = ["SUCCEEDED", "EXHAUSTED", "CANCELLED"] as const;
      const settles = claims.map((claim, n) =>
        settle(claim, { status: ends[n % 3] ?? "SUCCEEDED", reason: "attempts" }),
      );
      await store().commit(batch({ settles }));
    }
    const sweep = (limit: number, isContinued = false) =>
      store().sweep({
        now: T0 + 86_400_000,
        endedBefore: T0 + 1,
        deadBefore: T0 + 1,
        limit,
        isContinued,
      });

    it("removes tasks of every end, and at most its limit of tasks and keys", async () => {
      await endTasks(6);
      const before = (await idsOf({})).length;
      expect(await sweep(5)).toBe(5);
      expect((await idsOf({})).length).toBeGreaterThanOrEqual(before - 5);
      while ((await sweep(5)) === 5);
      expect(await idsOf({})).toEqual([]);
      expect(await store().query.count(TENANT)).toEqual({});
    });

    it("continues where the one before has ended, and leaves nothing behind", async () => {
      await endTasks(9);
      expect(await sweep(4)).toBe(4);
      for (let rounds = 0; (await sweep(4, true)) === 4; rounds++) expect(rounds).toBeLessThan(9);
      expect(await idsOf({})).toEqual([]);
      expect(await store().query.count(TENANT)).toEqual({});
      const keyed = create({ idempotencyKey: "k8" }, { fingerprint: "f" });
      const { creates } = await store().commit(batch({ creates: [keyed] }));
      expect(creates[0]?.kind).toBe("created");
    });

    it("finds, when it continues, what has become old since", async () => {
      const retention = { deadBefore: T0, limit: 9 };
      await endTasks(1);
      const first = { ...retention, now: T0 + 86_399_999, endedBefore: T0 };
      expect(await store().sweep(first)).toBe(0);
      const second = { ...retention, now: T0 + 86_400_000, endedBefore: T0 + 1 };
      expect(await store().sweep({ ...second, isContinued: true })).toBe(2);
    });

    it("finds what was written with an earlier instant, unless it continues", async () => {
      const retention = { now: T0 + 100, endedBefore: T0 + 90, deadBefore: T0, limit: 9 };
      expect(await store().sweep(retention)).toBe(0);
      await endTasks(1);
      expect(await store().sweep(retention)).toBe(1);
    });

    it("leaves no attempt behind that a later task could inherit", async () => {
      await endTasks(3);
      await sweep(20);
      await store().commit(batch({ creates: [create(), create(), create()] }));
      for (const taskId of await idsOf({})) {
        const page = await store().query.attempts(TENANT, taskId, { limit: 9 });
        expect(page.attempts).toEqual([]);
      }
    });
  });

  describe("the key of a task", () => {
    const DAY_MS = 86_400_000;
    const owner = () => create({ idempotencyKey: "k" }, { fingerprint: "f" });
    const sweepAt = (now: number) =>
      store().sweep({ now, endedBefore: 0, deadBefore: 0, limit: 9 });
    const createAgain = async () =>
      (await store().commit(batch({ creates: [owner()] }))).creates[0]?.kind;

    it("expires a day after the task was canceled", async () => {
      const first = owner();
      await store().commit(batch({ creates: [first] }));
      await store().commit(batch({ cancels: [first.task] }));
      await sweepAt(T0 + DAY_MS - 1);
      expect(await createAgain()).toBe("replayed");
      await sweepAt(T0 + DAY_MS);
      expect(await createAgain()).toBe("created");
    });

    it("does not expire when another task that uses it ends, such as a redrive", async () => {
      const redrive = create({ idempotencyKey: "k" });
      await store().commit(batch({ creates: [owner(), redrive] }));
      await store().commit(batch({ cancels: [redrive.task] }));
      await sweepAt(T0 + DAY_MS);
      expect(await createAgain()).toBe("replayed");
    });

    it("does not expire when another task that uses it is removed", async () => {
      const redrive = create({ idempotencyKey: "k" });
      await store().commit(batch({ creates: [owner(), redrive] }));
      await store().commit(batch({ cancels: [redrive.task] }));
      const retention = { endedBefore: T0 + 1, deadBefore: 0, limit: 9 };
      await store().sweep({ now: T0 + 10, ...retention });
      expect(await store().query.get(TENANT, redrive.task.taskId)).toBeNull();
      await sweepAt(T0 + DAY_MS);
      expect(await createAgain()).toBe("replayed");
    });
  });

  it("keeps the instant of the first cancel request", async () => {
    await store().commit(batch({ creates: [create()] }));
    const [claim] = await claimFirst(store());
    if (claim === undefined) throw new Error("nothing was claimed");
    await store().commit(batch({ now: T0 + 1, cancels: [claim] }));
    const { cancels } = await store().commit(batch({ now: T0 + 2, cancels: [claim] }));
    expect(cancels).toEqual([{ kind: "requested", cancelRequestedAt: T0 + 1 }]);
    const task = await store().query.get(TENANT, claim.taskId);
    expect(task?.cancelRequestedAt).toBe(T0 + 1);
  });

  it("removes a policy while a task of another tenant uses one of the same name", async () => {
    const policy = { tenantId: "zeta", policyId: "p", version: 1, document: "{}", createdAt: T0 };
    await store().addPolicy(policy);
    await store().addPolicy({ ...policy, tenantId: TENANT });
    await store().commit(batch({ creates: [create({ policyId: "p", policyVersion: 1 })] }));
    expect(await store().removePolicy("zeta", "p", T0)).toBe(true);
  });

  it("keeps the latest instant if a node with an earlier clock renews its lease", async () => {
    await store().renew(report("node-1", { now: T0 + 7 }));
    await store().renew(report("node-2", { now: T0 + 3 }));
    const latestAt = await store().latestAt();
    if (store().exclusive) expect(latestAt).toBe(T0 + 7);
    else expect([0, T0 + 7]).toContain(latestAt);
  });

  it("discards the attempts of a dead letter with it", async () => {
    await store().commit(batch({ creates: [create()] }));
    const [claim] = await claimFirst(store());
    if (claim === undefined) throw new Error("nothing was claimed");
    const end = settle(claim, { status: "EXHAUSTED", reason: "attempts" });
    await store().commit(batch({ settles: [end] }));
    await store().discard(TENANT, [claim.taskId]);
    await store().commit(batch({ creates: [create()] }));
    const [taskId = ""] = await idsOf({});
    expect((await store().query.attempts(TENANT, taskId, { limit: 9 })).attempts).toEqual([]);
  });
}
