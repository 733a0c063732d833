/**
 * Conformance: what every store must do, as one suite. A store's own test passes a function that
 * opens an empty store. A skip must give a reason.
 */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Settle } from "../model/batch.ts";
import { blankDestination } from "../model/destination-row.ts";
import type { Store } from "../model/store.ts";
import { detailConformance } from "./conformance-details.testing.ts";
import { documentConformance } from "./conformance-documents.testing.ts";
import { fleetConformance } from "./conformance-fleet.testing.ts";
import { listConformance } from "./conformance-lists.testing.ts";
import { parallelConformance } from "./conformance-parallel.testing.ts";
import { queryConformance } from "./conformance-queries.testing.ts";
import { randomConformance } from "./conformance-random.testing.ts";
import { removedConformance } from "./conformance-removed.testing.ts";
import { tableConformance } from "./conformance-tables.testing.ts";
import { tenantConformance } from "./conformance-tenants.testing.ts";
import { transferConformance } from "./conformance-transfer.testing.ts";
import { unusedConformance } from "./conformance-unused.testing.ts";
import {
  attemptLog,
  batch,
  claimFirst,
  claimOf,
  create,
  DESTINATION,
  dueLanes,
  newTask,
  settle,
  T0,
  TENANT,
} from "./store.testing.ts";

export interface ConformanceSkips {
  /** Why the content of the store cannot be moved. Default: it can. */
  readonly transfer?: string;
}

export function storeConformance(
  name: string,
  open: () => Promise<Store>,
  skips: ConformanceSkips = {},
): void {
  describe(`${name} store`, () => {
    let store: Store;
    beforeEach(async () => {
      store = await open();
    });
    afterEach(() => store.close());

    const get = (taskId: string, tenantId = TENANT) => store.query.get(tenantId, taskId);

    describe("creates", () => {
      it("reads a task back with every field", async () => {
        const task = newTask({
          idempotencyKey: "k",
          headers: { a: "1", b: "ü" },
          body: Uint8Array.from({ length: 256 }, (_, byte) => byte),
          deadlineAt: T0 + 5,
          scheduledAt: T0 + 1,
          labels: { team: "billing" },
          callbackUrl: "https://example.com/done",
          idempotent: false,
        });
        const result = await store.commit(batch({ creates: [create(task, { fingerprint: "f" })] }));
        expect(result.creates).toEqual([{ kind: "created", started: null, row: null }]);
        const found = await get(task.taskId);
        expect(found).toMatchObject({
          ...task,
          status: "PENDING",
          attemptNumber: 0,
          nextAttemptAt: T0 + 1,
          claimEpoch: 0,
          claimedBy: null,
          finishedAt: null,
        });
        expect(found?.body).toEqual(task.body);
      });

      it("distinguishes an empty body from none, and keeps NUL", async () => {
        const bodies = [null, new Uint8Array(), new Uint8Array([65, 0, 66])];
        const creates = bodies.map((body) => create({ body }));
        await store.commit(batch({ creates }));
        for (const { task } of creates) {
          expect((await get(task.taskId))?.body).toEqual(task.body);
        }
      });

      it("returns the existing task for a known key, in the same batch and later", async () => {
        const first = create({ idempotencyKey: "k" }, { fingerprint: "f" });
        const again = create({ idempotencyKey: "k" }, { fingerprint: "f" });
        const other = create({ idempotencyKey: "k" }, { fingerprint: "g" });
        const { creates } = await store.commit(batch({ creates: [first, again, other] }));
        const { taskId } = first.task;
        expect(creates.slice(1)).toEqual([
          { kind: "replayed", taskId },
          { kind: "conflict", taskId },
        ]);
        const later = await store.commit(batch({ creates: [again] }));
        expect(later.creates).toEqual([{ kind: "replayed", taskId }]);
        expect(await get(again.task.taskId)).toBeNull();
      });

      it("separates the keys of tenants", async () => {
        const one = create({ idempotencyKey: "k" }, { fingerprint: "f" });
        const two = create({ idempotencyKey: "k", tenantId: "zeta" }, { fingerprint: "g" });
        const { creates } = await store.commit(batch({ creates: [one, two] }));
        expect(creates.map(({ kind }) => kind)).toEqual(["created", "created"]);
      });

      it("inserts a task already claimed", async () => {
        const { creates } = await store.commit(
          batch({ creates: [create({}, { claimVersion: 0 })] }),
        );
        const [result] = creates;
        expect(result).toMatchObject({
          kind: "created",
          started: { attemptNumber: 1, claimEpoch: 1 },
        });
        expect(await claimFirst(store)).toEqual([]);
      });

      it("redrives a source once", async () => {
        const source = create();
        await store.commit(batch({ creates: [source] }));
        const again = () => create({ redrivenFrom: source.task.taskId });
        const [first, second] = [again(), again()];
        const { creates } = await store.commit(batch({ creates: [first, second] }));
        expect(creates[0]?.kind).toBe("created");
        expect(creates[1]).toEqual({ kind: "redriven", taskId: first.task.taskId });
        expect((await get(source.task.taskId))?.redrivenTo).toBe(first.task.taskId);
      });
    });

    describe("claims", () => {
      it("claims what is due, earliest first, and returns when the next task is due", async () => {
        const creates = [T0 + 2, T0, T0 + 1, T0 + 9].map((scheduledAt) => create({ scheduledAt }));
        await store.commit(batch({ creates }));
        const { claims } = await store.commit(
          batch({ now: T0 + 2, claims: [claimOf("first", { limit: 2 })] }),
        );
        expect(claims[0]?.tasks.map((task) => task.nextAttemptAt)).toEqual([T0, T0 + 1]);
        expect(claims[0]?.nextDueAts).toEqual([T0 + 2]);
        expect(claims[0]?.tasks[0]).toMatchObject({
          attemptNumber: 1,
          claimEpoch: 1,
          claimedAt: T0 + 2,
        });
        const rest = await store.commit(batch({ now: T0 + 2, claims: [claimOf("first")] }));
        expect(rest.claims[0]?.tasks).toHaveLength(1);
        expect(rest.claims[0]?.nextDueAts).toEqual([T0 + 9]);
      });

      it("claims what becomes due within the time ahead, and nothing later", async () => {
        const creates = [T0 + 4, T0 + 5, T0 + 6].map((scheduledAt) => create({ scheduledAt }));
        await store.commit(batch({ creates }));
        const { claims } = await store.commit(
          batch({ now: T0, claims: [claimOf("first", { aheadMs: 5, aheadLimit: 9 })] }),
        );
        expect(claims[0]?.tasks.map((task) => task.nextAttemptAt)).toEqual([T0 + 4, T0 + 5]);
        expect(claims[0]?.tasks.map((task) => task.claimedAt)).toEqual([T0, T0]);
        expect(claims[0]?.nextDueAts).toEqual([T0 + 6]);
      });

      it("claims everything that is due, and tasks ahead of time only up to their own limit", async () => {
        const dueAt = [T0 - 1, T0, T0 + 1, T0 + 2];
        const creates = dueAt.map((scheduledAt) => create({ scheduledAt }));
        await store.commit(batch({ creates }));
        const ahead = (aheadLimit: number) => claimOf("first", { aheadMs: 5, aheadLimit });
        const one = await store.commit(batch({ now: T0, claims: [ahead(1)] }));
        expect(one.claims[0]?.tasks.map((task) => task.nextAttemptAt)).toEqual([T0 - 1, T0]);
        const two = await store.commit(batch({ now: T0, claims: [ahead(1)] }));
        expect(two.claims[0]?.tasks.map((task) => task.nextAttemptAt)).toEqual([T0 + 1]);
        expect(two.claims[0]?.nextDueAts).toEqual([T0 + 2]);
      });

      it("returns the complete payload", async () => {
        const { task } = create({ body: new Uint8Array([1, 0, 2]), labels: { a: "b" } });
        await store.commit(batch({ creates: [{ task, fingerprint: null, claimVersion: null }] }));
        const [claim] = await claimFirst(store);
        expect(claim).toMatchObject(task);
      });

      it("never claims a task that is in flight or not due", async () => {
        await store.commit(batch({ creates: [create(), create({ scheduledAt: T0 + 1 })] }));
        expect(await claimFirst(store)).toHaveLength(1);
        expect(await claimFirst(store)).toEqual([]);
      });

      it("separates lanes, destinations and tenants", async () => {
        const creates = [create({ destination: "other" }), create({ tenantId: "zeta" })];
        await store.commit(batch({ creates }));
        expect(await claimFirst(store)).toEqual([]);
        const due = await dueLanes(store);
        expect(due).toHaveLength(2);
        expect(due).toContainEqual({
          tenantId: TENANT,
          destination: "other",
          lane: "first",
          partition: 0,
          dueAt: T0,
        });
      });

      it("claims nothing under an old version of the destination", async () => {
        const row = { ...blankDestination(TENANT, DESTINATION), version: 1, gateUntil: T0 + 9 };
        const creates = [create({}, { claimVersion: 0 })];
        const claims = [claimOf("first"), claimOf("first", { limit: 10, version: 1 })];
        const result = await store.commit(batch({ destinations: [{ row }], creates, claims }));
        expect(result.creates).toEqual([{ kind: "created", started: null, row }]);
        expect(result.claims[0]).toEqual({ tasks: [], nextDueAts: [T0], row });
        expect(result.claims[1]?.tasks).toHaveLength(1);
      });
    });

    it("claims nothing under a row whose write was rejected", async () => {
      const row = { ...blankDestination(TENANT, DESTINATION), version: 1, openUntil: T0 + 9 };
      await store.commit(batch({ destinations: [{ row }], creates: [create()] }));
      const rival = { ...row, openUntil: T0 + 5 };
      const result = await store.commit(
        batch({
          destinations: [{ row: rival }],
          claims: [claimOf("first", { limit: 1, version: 1 })],
        }),
      );
      expect(result.destinations).toEqual([row]);
      expect(result.claims).toEqual([{ tasks: [], nextDueAts: [T0], row }]);
    });

    describe("settles", () => {
      async function claimOne() {
        await store.commit(
          batch({ creates: [create({ idempotencyKey: "k" }, { fingerprint: "f" })] }),
        );
        const [claim] = await claimFirst(store);
        if (claim === undefined) throw new Error("nothing was claimed");
        return claim;
      }

      it("give the next claim the status of the attempt", async () => {
        const claim = await claimOne();
        expect(claim.lastStatus).toBeNull();
        await store.commit(batch({ settles: [settle(claim)] }));
        const { claims } = await store.commit(batch({ now: T0 + 500, claims: [claimOf("retry")] }));
        expect(claims[0]?.tasks[0]).toMatchObject({ taskId: claim.taskId, lastStatus: 503 });
        expect((await store.claimsOf("node-1", 10))[0]?.lastStatus).toBe(503);
      });

      it("writes the attempt and the new state together", async () => {
        const claim = await claimOne();
        const { settles } = await store.commit(batch({ settles: [settle(claim)] }));
        expect(settles).toEqual(["PENDING"]);
        expect(await get(claim.taskId)).toMatchObject({
          status: "PENDING",
          attemptNumber: 1,
          nextAttemptAt: T0 + 500,
          lastDelayMs: 500,
          lastStatus: 503,
          lastError: "answered 503",
          claimedBy: null,
        });
        const { attempts } = await store.query.attempts(TENANT, claim.taskId, { limit: 10 });
        expect(attempts).toEqual([attemptLog()]);
        const lane = { tenantId: TENANT, destination: DESTINATION };
        expect(await dueLanes(store)).toEqual([
          { ...lane, lane: "retry", partition: 0, dueAt: T0 + 500 },
        ]);
      });

      it("rejects a claim that was settled, and one that was claimed again", async () => {
        const claim = await claimOne();
        const twice = await store.commit(batch({ settles: [settle(claim), settle(claim)] }));
        expect(twice.settles).toEqual(["PENDING", "fenced"]);
        await store.commit(batch({ now: T0 + 500, claims: [claimOf("retry")] }));
        const late = settle(claim, { status: "SUCCEEDED", reason: "succeeded" });
        expect((await store.commit(batch({ settles: [late] }))).settles).toEqual(["fenced"]);
        expect((await get(claim.taskId))?.status).toBe("IN_FLIGHT");
      });

      it("rejects the claim of a removed task whose row number another task got", async () => {
        const gone = await claimOne();
        const dead = settle(gone, { status: "EXHAUSTED", reason: "attempts" });
        await store.commit(batch({ settles: [dead] }));
        expect(await store.discard(TENANT, [gone.taskId])).toBe(1);
        const next = create({}, { claimVersion: 0 });
        const { creates } = await store.commit(batch({ creates: [next] }));
        const started = creates[0]?.kind === "created" ? creates[0].started : null;
        if (started === null) throw new Error("nothing was claimed");
        // A store that reuses row numbers gives the new claim the same number and epoch.
        const late = { ...settle(gone), ref: started.ref, claimEpoch: started.claimEpoch };
        expect((await store.commit(batch({ settles: [late] }))).settles).toEqual(["fenced"]);
        expect(await get(next.task.taskId)).toMatchObject({ status: "IN_FLIGHT", claimEpoch: 1 });
        expect((await store.commit(batch({ settles: [settle(started)] }))).settles).toEqual([
          "PENDING",
        ]);
      });

      it("returns the attempt number if nothing was sent", async () => {
        const claim = await claimOne();
        const release = settle(claim, { attempt: null, lane: "first", nextAttemptAt: T0 });
        await store.commit(batch({ settles: [release] }));
        const [again] = await claimFirst(store);
        expect(again).toMatchObject({ attemptNumber: 1, claimEpoch: 3 });
      });

      it("keeps the last error of an attempt, unless a settle without an attempt has another", async () => {
        const claim = await claimOne();
        await store.commit(batch({ settles: [settle(claim)] }));
        const settleRetry = async (now: number, fields: Partial<Settle>) => {
          const { claims } = await store.commit(batch({ now, claims: [claimOf("retry")] }));
          const [again] = claims[0]?.tasks ?? [];
          if (again === undefined) throw new Error("nothing was claimed");
          await store.commit(
            batch({ now, settles: [settle(again, { ...fields, attempt: null })] }),
          );
        };
        await settleRetry(T0 + 500, {});
        const before = { attemptNumber: 1, lastStatus: 503, lastError: "answered 503" };
        expect(await get(claim.taskId)).toMatchObject(before);
        const lastError = "held by a pause";
        await settleRetry(T0 + 1000, { status: "EXHAUSTED", reason: "held", lastError });
        const ended = { status: "EXHAUSTED", reason: "held", attemptNumber: 1, lastStatus: 503 };
        expect(await get(claim.taskId)).toMatchObject({ ...ended, lastError });
      });

      it("does not change ended tasks", async () => {
        const claim = await claimOne();
        const done = settle(claim, { status: "SUCCEEDED", reason: "succeeded" });
        await store.commit(batch({ now: T0 + 3, settles: [done] }));
        expect(await get(claim.taskId)).toMatchObject({ status: "SUCCEEDED", finishedAt: T0 + 3 });
        expect(await dueLanes(store)).toEqual([]);
        const { retryNows, cancels } = await store.commit(
          batch({ retryNows: [claim], cancels: [claim] }),
        );
        expect(retryNows).toEqual([{ kind: "not-pending", status: "SUCCEEDED" }]);
        expect(cancels).toEqual([{ kind: "ended", status: "SUCCEEDED" }]);
      });

      it("cancels a waiting task at once; a second cancel returns the same", async () => {
        const { task } = create();
        await store.commit(batch({ creates: [{ task, fingerprint: null, claimVersion: null }] }));
        const { cancels } = await store.commit(batch({ cancels: [task, task] }));
        expect(cancels).toEqual([{ kind: "cancelled" }, { kind: "cancelled" }]);
        expect(await claimFirst(store)).toEqual([]);
        expect(await get(task.taskId)).toMatchObject({ status: "CANCELLED", reason: "aborted" });
      });

      it("lets only the success of a running attempt win over a cancel", async () => {
        const claim = await claimOne();
        const { cancels } = await store.commit(batch({ now: T0 + 1, cancels: [claim] }));
        expect(cancels).toEqual([{ kind: "requested", cancelRequestedAt: T0 + 1 }]);
        expect((await store.commit(batch({ settles: [settle(claim)] }))).settles).toEqual([
          "CANCELLED",
        ]);
        expect(await get(claim.taskId)).toMatchObject({ status: "CANCELLED", reason: "aborted" });
      });

      it("does not find tasks of another tenant", async () => {
        const claim = await claimOne();
        const foreign = { tenantId: "zeta", taskId: claim.taskId };
        const { cancels, retryNows } = await store.commit(
          batch({ cancels: [foreign], retryNows: [foreign] }),
        );
        expect([cancels[0]?.kind, retryNows[0]?.kind]).toEqual(["unknown", "unknown"]);
        expect(await get(claim.taskId, "zeta")).toBeNull();
        const page = await store.query.attempts("zeta", claim.taskId, { limit: 10 });
        expect(page.attempts).toEqual([]);
      });

      it("makes a waiting task due now (retryNow)", async () => {
        const { task } = create({ scheduledAt: T0 + 1000 });
        await store.commit(batch({ creates: [{ task, fingerprint: null, claimVersion: null }] }));
        const { retryNows } = await store.commit(batch({ retryNows: [task] }));
        expect(retryNows).toEqual([
          { kind: "rescheduled", destination: DESTINATION, lane: "first" },
        ]);
        expect(await claimFirst(store)).toHaveLength(1);
      });
    });

    queryConformance(() => store);
    listConformance(() => store);
    documentConformance(() => store);
    tableConformance(() => store);
    if (skips.transfer === undefined) transferConformance(() => store, open);
    else it.skip(`transfer: ${skips.transfer}`);
    fleetConformance(() => store);
    tenantConformance(() => store);
    parallelConformance(() => store);
    detailConformance(() => store);
    randomConformance(open);
    unusedConformance(() => store);
    removedConformance(() => store, open);
  });
}
