/**
 * Conformance of the transfer between stores. A part of `conformance.testing.ts`. The memory store is
 * the other side.
 */
import { describe, expect, it, onTestFinished } from "vitest";
import { partitionOf } from "../model/partition.ts";
import { KEY_RETENTION_MS, type Store } from "../model/store.ts";
import type { TransferTask } from "../model/transfer.ts";
import { memoryStore } from "./memory/memory-store.ts";
import {
  attemptLog,
  batch,
  create,
  dueLanes,
  newTask,
  partitionsOf,
  report,
  settle,
  T0,
  TENANT,
} from "./store.testing.ts";
import { contentOf } from "./store-content.testing.ts";
import { claimOnly, fill, readAll, transfer, writeAll } from "./transfer-content.testing.ts";

export function transferConformance(store: () => Store, open: () => Promise<Store>): void {
  /** A filled store of this kind, to which all rows were moved. */
  async function moved() {
    const source = memoryStore({ exclusive: false });
    const tasks = await fill(source);
    const rows = await readAll(source);
    const counts = await writeAll(store(), rows);
    return { source, tasks, rows, counts };
  }

  describe("transfer", () => {
    it("reads every row once, in the same order for every size of a page", async () => {
      await fill(store());
      const all = await readAll(store());
      const counts = Object.entries(all).map(([kind, rows]) => [kind, rows.length]);
      expect(Object.fromEntries(counts)).toEqual({
        policy: 5,
        destination: 1,
        document: 2,
        task: 10,
        attempt: 5,
        key: 1,
      });
      expect(await readAll(store(), 1)).toEqual(all);
      expect(await readAll(store(), 2)).toEqual(all);
    });

    it("gives a store of another kind the same content, and takes it back", async () => {
      await fill(store());
      const other = memoryStore({ exclusive: false });
      expect(await writeAll(other, await readAll(store()))).toEqual({ added: 24 });
      const back = await open();
      onTestFinished(() => back.close());
      expect(await writeAll(back, await readAll(other))).toEqual({ added: 24 });
      expect(await readAll(back)).toEqual(await readAll(store()));
      expect(await contentOf(back)).toEqual(await contentOf(store()));
    });

    it("changes nothing when the same rows are written again", async () => {
      const { rows } = await moved();
      const before = await contentOf(store());
      expect(await writeAll(store(), rows)).toEqual({ same: 24 });
      expect(await contentOf(store())).toEqual(before);
    });

    it("adds what an interrupted write has left out", async () => {
      const source = memoryStore();
      await fill(source);
      const rows = await readAll(source);
      const [first, ...others] = rows.attempt;
      const part = { ...rows, task: rows.task.slice(0, 4), attempt: [], key: [] };
      expect(await writeAll(store(), part)).toEqual({ added: 12 });
      const owner = rows.task.filter(({ taskId }) => taskId === first?.taskId);
      await transfer(store()).write("task", owner);
      await transfer(store()).write("attempt", first === undefined ? [] : [first]);
      const all = { ...rows, attempt: first === undefined ? others : [first, ...others] };
      const counts = await writeAll(store(), all);
      expect((counts["added"] ?? 0) + (counts["same"] ?? 0)).toBe(24);
      expect(counts["different"]).toBeUndefined();
      expect(await readAll(store())).toEqual(rows);
    });

    it("keeps a row that differs, and says so", async () => {
      const { rows } = await moved();
      const changed = {
        policy: rows.policy.map((row) => ({ ...row, document: "other" })),
        destination: rows.destination.map((row) => ({ ...row, pausedAt: null })),
        document: rows.document.map((row) => ({ ...row, version: row.version + 1 })),
        task: rows.task.map((row) => ({ ...row, nextAttemptAt: 1 })),
        attempt: rows.attempt.map((row) => ({ ...row, durationMs: 1 })),
        key: rows.key.map((row) => ({ ...row, fingerprint: "other" })),
      };
      const before = await contentOf(store());
      expect(await writeAll(store(), changed)).toEqual({ different: 24 });
      expect(await contentOf(store())).toEqual(before);
    });

    it("compares without writing", async () => {
      const source = memoryStore();
      await fill(source);
      const rows = await readAll(source);
      expect(await writeAll(store(), rows, "compare")).toEqual({ added: 24 });
      expect(await readAll(store())).toEqual(await readAll(memoryStore()));
      await writeAll(store(), rows);
      expect(await writeAll(store(), rows, "compare")).toEqual({ same: 24 });
    });

    it("refuses a task whose key belongs to another one, and an attempt without a task", async () => {
      const { rows } = await moved();
      const owner = rows.task.find(({ key }) => key !== null) as TransferTask;
      const rival = { ...owner, taskId: newTask().taskId };
      expect(await transfer(store()).write("task", [rival])).toEqual(["different"]);
      expect(await store().query.get(owner.tenantId, rival.taskId)).toBeNull();
      const orphan = { tenantId: TENANT, taskId: rival.taskId, ...attemptLog() };
      await expect(transfer(store()).write("attempt", [orphan])).rejects.toThrow(rival.taskId);
    });

    it("writes a row that is given twice once", async () => {
      const source = memoryStore();
      await fill(source);
      const [task] = (await readAll(source)).task;
      if (task === undefined) throw new Error("there is no task");
      const twice = [task, task, { ...task, attemptNumber: 99 }];
      expect(await transfer(store()).write("task", twice)).toEqual(["added", "same", "different"]);
      expect(await store().query.count(task.tenantId)).toEqual({ [task.status]: 1 });
    });

    it("keeps the keys of tasks that exist and of tasks that are gone, until they expire", async () => {
      const { tasks } = await moved();
      const again = (
        task: { taskId: string; idempotencyKey: string | null },
        fingerprint: string,
      ) =>
        create(
          {
            taskId: task.taskId.replace(/.{6}$/u, "ffffff"),
            idempotencyKey: task.idempotencyKey,
          },
          { fingerprint },
        );
      for (const name of ["waiting", "running", "succeeded", "dead", "discarded"] as const) {
        const { taskId, idempotencyKey } = tasks[name];
        const creates = [again(tasks[name], `f-${idempotencyKey}`), again(tasks[name], "g")];
        const result = await store().commit(batch({ creates }));
        expect(result.creates).toEqual([
          { kind: "replayed", taskId },
          { kind: "conflict", taskId },
        ]);
      }
      const sweepAt = (now: number) =>
        store().sweep({ now, endedBefore: 0, deadBefore: 0, limit: 100 });
      expect(await sweepAt(T0 + 6 + KEY_RETENTION_MS)).toBe(0);
      // Succeeded, dead and discarded end at T0 + 7, and the canceled one at T0 + 8.
      expect(await sweepAt(T0 + 8 + KEY_RETENTION_MS)).toBe(4);
      const waiting = again(tasks.waiting, "f-k-waiting");
      const gone = again(tasks.discarded, "f-k-discarded");
      const { creates } = await store().commit(batch({ creates: [waiting, gone] }));
      expect(creates.map(({ kind }) => kind)).toEqual(["replayed", "created"]);
    });

    it("makes waiting tasks due in their lanes", async () => {
      const { source, tasks } = await moved();
      const lanes = (await dueLanes(source)).map(({ partition: _, ...lane }) => lane);
      const found = (await dueLanes(store())).map(({ partition: _, ...lane }) => lane);
      expect(new Set(found)).toEqual(new Set(lanes));
      const claim = await claimOnly(store(), tasks.retried, { now: T0 + 9000 });
      expect(claim).toMatchObject({ attemptNumber: 3, claimEpoch: 5, lastDelayMs: 500 });
      const log = attemptLog({ attemptNumber: 3 });
      const end = settle(claim, { status: "SUCCEEDED", reason: "succeeded", attempt: log });
      const { settles } = await store().commit(batch({ settles: [end] }));
      expect(settles).toEqual(["SUCCEEDED"]);
      const { taskId } = tasks.retried;
      const { attempts } = await store().query.attempts(TENANT, taskId, { limit: 9 });
      expect(attempts.map(({ attemptNumber }) => attemptNumber)).toEqual([1, 2, 3]);
    });

    it("gives claims of the source to the rescuer, which can settle them once", async () => {
      const { tasks } = await moved();
      const query = { nodeId: "new", partitions: partitionsOf(store()), limit: 9 };
      const lapsed = await store().lapsed(query);
      expect(new Set(lapsed.map(({ taskId }) => taskId))).toEqual(
        new Set([tasks.running.taskId, tasks.canceling.taskId]),
      );
      const claim = lapsed.find(({ taskId }) => taskId === tasks.running.taskId);
      if (claim === undefined) throw new Error("there is no claim");
      expect(claim).toMatchObject({ attemptNumber: 1, claimEpoch: 1, claimedAt: T0 });
      const attempt = attemptLog({ outcome: "abandoned", responseStatus: null });
      const end = settle(claim, { abandonedCount: 1, attempt });
      const { settles } = await store().commit(batch({ settles: [end, end] }));
      expect(settles).toEqual(["PENDING", "fenced"]);
      expect(await store().query.get(TENANT, claim.taskId)).toMatchObject({
        status: "PENDING",
        attemptNumber: 1,
        claimEpoch: 2,
      });
      expect(await store().lapsed(query)).toHaveLength(1);
    });

    it("keeps what a policy, a redrive and a removal depend on", async () => {
      const { tasks } = await moved();
      const made = create({ policyId: "p", policyVersion: 3 });
      const removed = create({ policyId: "p", policyVersion: 2 });
      const { dead } = tasks;
      const redrive = create({
        taskId: dead.taskId.replace(/.{6}$/u, "eeeeee"),
        redrivenFrom: dead.taskId,
      });
      const creates = [made, removed, redrive];
      const result = await store().commit(batch({ creates }));
      expect(result.creates.map(({ kind }) => kind)).toEqual([
        "created",
        "unknown-policy",
        "redriven",
      ]);
      expect(await store().removePolicy(TENANT, "p", T0)).toBe(false);
      const policy = { tenantId: TENANT, policyId: "p", document: "{}", createdAt: T0 };
      expect(await store().addPolicy({ ...policy, version: 3 })).toBe(false);
      expect(await store().addPolicy({ ...policy, version: 4 })).toBe(true);
      const unused = await store().unusedPolicies({ limit: 9 });
      expect(unused.policies).toEqual([]);
      const retention = { now: T0 + 10, endedBefore: T0 + 10, deadBefore: T0 + 10, limit: 99 };
      expect(await store().sweep(retention)).toBe(3);
      expect(await store().query.count(TENANT)).toEqual({ PENDING: 5, IN_FLIGHT: 2 });
    });

    it("writes a destination row over the version that was moved", async () => {
      const { rows } = await moved();
      const [row] = rows.destination;
      if (row === undefined) throw new Error("there is no row");
      expect(await store().getDestination(TENANT, row.name)).toEqual(row);
      expect(await store().openCircuits(TENANT, 9)).toEqual([row]);
      const next = { ...row, version: row.version + 1, pausedAt: null };
      const { destinations } = await store().commit(
        batch({ destinations: [{ row }, { row: next }] }),
      );
      expect(destinations).toEqual([row, null]);
      const task = newTask({ destination: row.name });
      const claimed = { ...create(), task, claimVersion: row.version };
      const { creates } = await store().commit(batch({ creates: [claimed] }));
      expect(creates).toEqual([{ kind: "created", started: null, row: next }]);
      expect(partitionOf(task.taskId, store().partitions)).toBe(0);
    });

    it("knows the nodes that have a lease", async () => {
      expect(await transfer(store()).liveNodes()).toEqual([]);
      await store().renew(report("node-1"));
      await store().renew(report("node-2", { isLeaving: true }));
      const live = [...(await transfer(store()).liveNodes())].sort();
      expect(live).toEqual(store().exclusive ? [] : ["node-1", "node-2"]);
      await store().retire("node-1");
      await store().renew(report("node-2", { leaseMs: 0 }));
      expect(await transfer(store()).liveNodes()).toEqual([]);
    });

    it("remembers the latest instant of what was moved", async () => {
      await moved();
      const latestAt = await store().latestAt();
      // Engine time follows the clock of a shared store, so it needs no latest instant.
      if (store().exclusive) expect(latestAt).toBe(T0 + 12);
      else expect([0, T0 + 12]).toContain(latestAt);
    });
  });
}
