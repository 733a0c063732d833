/**
 * Conformance of what nodes of a fleet share: partitions, hints, leases and shares of limits. A part
 * of `conformance.testing.ts`. An exclusive store has one node and one partition, so for it only the
 * shape of the results is tested.
 */
import { describe, expect, it } from "vitest";
import { blankDestination } from "../model/destination-row.ts";
import type { LaneDue } from "../model/lane-due.ts";
import { LATE_REPORT, type RateUse, RESERVED_MS, type SlotUse } from "../model/node-report.ts";
import { partitionOf } from "../model/partition.ts";
import type { Store } from "../model/store.ts";
import type { NewTask } from "../model/task.ts";
import {
  batch,
  claimOf,
  create,
  DESTINATION,
  destinationReport,
  nextTaskId,
  partitionsOf,
  report,
  T0,
  TENANT,
} from "./store.testing.ts";

/** A create in that partition. */
function createIn(partition: number, fields: Partial<NewTask> = {}) {
  const byte = partition.toString(16).padStart(2, "0");
  const taskId = nextTaskId().replace("-8000-", `-80${byte}-`);
  return create({ taskId, ...fields });
}

const slots = (limit: number, wanted: number, used = 0): SlotUse => ({ limit, wanted, used });

export function fleetConformance(store: () => Store): void {
  describe("partitions", () => {
    it("are a divisor of 256, and one in an exclusive store", () => {
      const { partitions, exclusive } = store();
      expect(256 % partitions).toBe(0);
      expect(partitions === 1).toBe(exclusive);
    });

    it("list and claim only the tasks of the requested partitions", async () => {
      if (store().exclusive) return;
      const made = [createIn(1), createIn(1, { scheduledAt: T0 + 5 }), createIn(2), createIn(3)];
      await store().commit(batch({ creates: made }));
      const { lanes } = await store().nextDue({ partitions: [1, 3], before: T0 + 9, limit: 99 });
      const due = lanes.map(({ partition, dueAt }) => [partition, dueAt]);
      expect(due.sort()).toEqual([
        [1, T0],
        [3, T0],
      ]);
      const claims = [claimOf("first", { partitions: [2, 1, 5] })];
      const { claims: results } = await store().commit(batch({ claims }));
      const [result] = results;
      const claimed = result?.tasks.map(({ taskId }) => partitionOf(taskId, store().partitions));
      expect(claimed?.sort()).toEqual([1, 2]);
      expect(result?.nextDueAts).toEqual([null, T0 + 5, null]);
    });

    it("share the limit of one claim", async () => {
      if (store().exclusive) return;
      const made = [1, 2, 3, 4].flatMap((partition) => [createIn(partition), createIn(partition)]);
      await store().commit(batch({ creates: made }));
      const claims = [claimOf("first", { partitions: [1, 2, 3, 4], limit: 4 })];
      const claimed = new Set<string>();
      // A store may divide the limit among the partitions, so a claim may find less than there is.
      for (let round = 0; round < 8; round++) {
        const { claims: results } = await store().commit(batch({ claims }));
        const tasks = results[0]?.tasks ?? [];
        expect(tasks.length).toBeLessThanOrEqual(4);
        for (const { taskId } of tasks) claimed.add(taskId);
      }
      expect(claimed.size).toBe(8);
    });

    it("keep the tasks that are stored together in one commit", async () => {
      if (store().exclusive) return;
      const source = createIn(7);
      await store().commit(batch({ creates: [source] }));
      const redrive = createIn(7, { redrivenFrom: source.task.taskId });
      const { creates } = await store().commit(batch({ creates: [redrive] }));
      expect(creates[0]?.kind).toBe("created");
      const found = await store().query.get(TENANT, source.task.taskId);
      expect(found?.redrivenTo).toBe(redrive.task.taskId);
    });
  });

  describe("hints", () => {
    const lane: LaneDue = {
      tenantId: TENANT,
      destination: DESTINATION,
      lane: "first",
      partition: 3,
      dueAt: T0 + 1,
    };

    it("reach the node that leases the partition, until it has handled them", async () => {
      if (store().exclusive) return;
      const renew = (nodeId: string, partitions: readonly number[], handledHints: string[] = []) =>
        store().renew(report(nodeId, { partitions, handledHints }));
      await renew("node-2", [3]);
      await store().commit(batch({ creates: [createIn(3)], hints: [lane] }));
      expect((await renew("node-1", [1, 2])).hints).toEqual([]);
      const { hints } = await renew("node-2", [3]);
      expect(hints).toMatchObject([lane]);
      // A response may be lost, so the hint is repeated.
      expect((await renew("node-2", [3])).hints).toEqual(hints);
      expect((await renew("node-2", [3], [hints[0]!.hintId])).hints).toEqual([]);
      expect((await renew("node-2", [3])).hints).toEqual([]);
    });

    it("reach a listener at once", async () => {
      if (store().exclusive) return;
      const received: LaneDue[] = [];
      const heard = new Promise<void>((resolve) => {
        store().onHint((lanes) => {
          received.push(...(lanes ?? []));
          if (received.length > 0) resolve();
        });
      });
      await store().renew(report("node-2", { partitions: [3] }));
      await store().commit(batch({ creates: [createIn(3)], hints: [lane] }));
      await heard;
      expect(received).toEqual([lane]);
    });

    it("tell a listener when a node joins, shares its limits or leaves", async () => {
      if (store().exclusive) return;
      let listener = (_lanes: readonly LaneDue[] | null) => {};
      store().onHint((lanes) => listener(lanes));
      const told = () =>
        new Promise<void>((resolve) => {
          listener = (lanes) => lanes === null && resolve();
        });
      for (const fields of [{ takesAll: true }, { takesAll: false }, { isLeaving: true }]) {
        const heard = told();
        await store().renew(report("node-2", fields));
        await heard;
      }
      const heard = told();
      await store().retire("node-2");
      await heard;
    });

    it("do not reach a listener that was removed", async () => {
      let calls = 0;
      store().onHint(() => calls++)();
      await store().renew(report("node-9"));
      await store().commit(batch({ creates: [create()], hints: [{ ...lane, partition: 0 }] }));
      expect(calls).toBe(0);
    });
  });

  describe("leases", () => {
    it("name the nodes that hold one", async () => {
      const first = await store().renew(report("node-1"));
      expect(first).toMatchObject({ nodes: ["node-1"], hints: [], destinations: [] });
      if (store().exclusive) return;
      expect(first.wasLapsed).toBe(true);
      const second = await store().renew(report("node-2"));
      expect(second.nodes).toEqual(["node-1", "node-2"]);
      const again = await store().renew(report("node-1", { leaseMs: 0 }));
      expect(again.wasLapsed).toBe(false);
      expect((await store().renew(report("node-2"))).nodes).toEqual(["node-2"]);
      expect((await store().renew(report("node-1"))).wasLapsed).toBe(true);
      await store().retire("node-2");
      expect((await store().renew(report("node-1"))).nodes).toEqual(["node-1"]);
    });

    it("do not name a node that is leaving, but keep its claims", async () => {
      await store().renew(report("node-1"));
      await store().commit(batch({ creates: [create({}, { claimVersion: 0 })] }));
      const leaving = await store().renew(report("node-1", { isLeaving: true }));
      expect(leaving.nodes).toEqual([]);
      if (store().exclusive) return;
      const { nodes, takesAll } = await store().renew(report("node-2", { takesAll: true }));
      expect({ nodes, takesAll }).toEqual({ nodes: ["node-2"], takesAll: false });
      const query = { nodeId: "node-2", partitions: partitionsOf(store()), limit: 9 };
      expect(await store().lapsed(query)).toEqual([]);
      await store().retire("node-1");
      expect(await store().lapsed(query)).toHaveLength(1);
    });

    it("of a retired node do not come back with a report that arrives late", async () => {
      // The calls of an exclusive store run in order.
      if (store().exclusive) return;
      const late = report("node-1");
      const first = report("node-3");
      await store().renew(report("node-1"));
      await store().retire("node-1");
      await store().retire("node-3");
      await expect(store().renew(late)).rejects.toThrow(LATE_REPORT);
      // Also the next report, the first one of a node, and after the removal of unused rows.
      await expect(store().renew(report("node-1"))).rejects.toThrow(LATE_REPORT);
      await expect(store().renew(first)).rejects.toThrow(LATE_REPORT);
      await store().removeUnused({ now: T0, limit: 100, cursor: undefined });
      await expect(store().renew(late)).rejects.toThrow(LATE_REPORT);
      expect((await store().renew(report("node-2"))).nodes).toEqual(["node-2"]);
    });

    it("follow the clock of the store", async () => {
      const before = await store().clock();
      const { now } = await store().renew(report("node-1", { now: before }));
      expect(now).toBeGreaterThanOrEqual(before);
      expect(await store().clock()).toBeGreaterThanOrEqual(now);
    });
  });

  describe("shares", () => {
    const share = async (nodeId: string, use: SlotUse, takesAll = false) => {
      const destinations = [destinationReport({ slots: use, retrySlots: use })];
      const renewal = await store().renew(report(nodeId, { destinations, takesAll }));
      const [granted] = renewal.destinations;
      expect(granted?.retrySlots).toBe(granted?.slots);
      return granted?.slots;
    };

    it("grant a node that is alone what it wants, up to the limit", async () => {
      expect(await share("node-1", slots(5, 3))).toBe(3);
      expect(await share("node-1", slots(5, 9))).toBe(5);
    });

    it("never exceed the limit together, and count running attempts", async () => {
      if (store().exclusive) return;
      expect(await share("node-1", slots(5, 4))).toBe(4);
      expect(await share("node-2", slots(5, 4))).toBe(1);
      // Node 1 gives two back, but still runs three.
      expect(await share("node-1", slots(5, 2, 3))).toBe(2);
      expect(await share("node-2", slots(5, 4))).toBe(2);
      expect(await share("node-1", slots(5, 2, 1))).toBe(2);
      expect(await share("node-2", slots(5, 4))).toBe(3);
      await store().retire("node-1");
      expect(await share("node-2", slots(5, 5))).toBe(5);
    });

    it("of retries are not more than those of all attempts", async () => {
      const shareOf = async (all: SlotUse | null, retries: SlotUse) => {
        const destinations = [destinationReport({ slots: all, retrySlots: retries })];
        return (await store().renew(report("node-1", { destinations }))).destinations[0];
      };
      const limited = await shareOf(slots(5, 2), slots(5, 4));
      expect(limited).toMatchObject({ slots: 2, retrySlots: 2 });
      expect(await shareOf(null, slots(5, 4))).toMatchObject({ slots: 0, retrySlots: 4 });
    });

    it("are none while another node takes all", async () => {
      if (store().exclusive) return;
      const takeAll = (nodeId: string, takesAll: boolean) =>
        store().renew(report(nodeId, { takesAll }));
      expect((await takeAll("node-1", true)).takesAll).toBe(true);
      expect(await share("node-2", slots(5, 4), true)).toBe(0);
      // It keeps all until it agrees to share.
      expect((await takeAll("node-1", true)).takesAll).toBe(true);
      expect(await share("node-2", slots(5, 4), true)).toBe(0);
      expect((await takeAll("node-1", false)).takesAll).toBe(false);
      expect(await share("node-2", slots(5, 4))).toBe(4);
      expect((await takeAll("node-1", true)).takesAll).toBe(false);
    });

    it("are not taken in full by a node whose lease had ended", async () => {
      if (store().exclusive) return;
      const takeAll = (nodeId: string, leaseMs: number) =>
        store().renew(report(nodeId, { takesAll: true, leaseMs }));
      expect((await takeAll("node-1", 0)).takesAll).toBe(true);
      expect((await takeAll("node-2", 3_600_000)).takesAll).toBe(true);
      expect((await takeAll("node-1", 3_600_000)).takesAll).toBe(false);
    });

    it("are not undone by an older report that arrives late", async () => {
      // The calls of an exclusive store run in order.
      if (store().exclusive) return;
      const use = (nodeId: string, used: number) =>
        report(nodeId, { destinations: [destinationReport({ slots: slots(5, used, used) })] });
      const older = use("node-1", 0);
      await store().renew(use("node-1", 4));
      await expect(store().renew(older)).rejects.toThrow(LATE_REPORT);
      const { destinations } = await store().renew(use("node-2", 5));
      expect(destinations[0]?.slots).toBe(1);
    });

    it("return what other nodes have seen, and forget nodes without a lease", async () => {
      if (store().exclusive) return;
      const seen = { calls: 6, failures: 4, slowCalls: 1, demand: 2 };
      const tell = (nodeId: string, leaseMs?: number) =>
        store().renew(
          report(nodeId, {
            destinations: [destinationReport(seen)],
            ...(leaseMs !== undefined && { leaseMs }),
          }),
        );
      await tell("node-1");
      await tell("node-2");
      const { destinations } = await tell("node-3");
      const others = { calls: 12, failures: 8, slowCalls: 2, demanding: 2, demand: 4 };
      expect(destinations[0]?.others).toEqual(others);
      await tell("node-1", 0);
      await store().retire("node-2");
      const none = { calls: 0, failures: 0, slowCalls: 0, demanding: 0, demand: 0 };
      expect((await tell("node-3")).destinations[0]?.others).toEqual(none);
    });

    it("return the row if the node knows another version", async () => {
      const row = { ...blankDestination(TENANT, DESTINATION), version: 1, pausedAt: T0 };
      await store().commit(batch({ destinations: [{ row }] }));
      const rowFor = async (version: number) => {
        const destinations = [destinationReport({ version })];
        return (await store().renew(report("node-1", { destinations }))).destinations[0]?.row;
      };
      expect(await rowFor(0)).toEqual(row);
      expect(await rowFor(1)).toBeNull();
    });

    it.each(["rate", "retryRate"] as const)("reserve each token of a %s once", async (name) => {
      const rate: RateUse = { perSecond: 10, burst: 3, wanted: 100 };
      const reserve = async (nodeId: string, wanted: number) => {
        const destinations = [destinationReport({ [name]: { ...rate, wanted } })];
        const { now, destinations: shares } = await store().renew(report(nodeId, { destinations }));
        return { now, rate: shares[0]?.[name] ?? null };
      };
      const first = await reserve("node-1", 2);
      // The burst was not used before, so its tokens may be used at once.
      expect(first.rate?.count).toBe(2);
      expect(first.rate?.startAt).toBeCloseTo(first.now - 200, 3);
      if (store().exclusive) return;
      const second = await reserve("node-2", 100);
      // On a slow machine, tokens of the time between both calls are left out: the burst is 3.
      const nextAt = Math.max(first.now, second.now - 200);
      expect(second.rate?.startAt).toBeCloseTo(nextAt, 3);
      const lastAt = (second.rate?.startAt ?? 0) + 100 * ((second.rate?.count ?? 0) - 1);
      expect(lastAt).toBeLessThanOrEqual(second.now + RESERVED_MS);
      expect(lastAt).toBeGreaterThan(second.now + RESERVED_MS - 100);
    });

    it("keep the tokens of calls and of retries apart", async () => {
      const rate: RateUse = { perSecond: 1, burst: 1, wanted: 1 };
      const both = [destinationReport({ rate, retryRate: rate })];
      const { destinations } = await store().renew(report("node-1", { destinations: both }));
      expect(destinations[0]).toMatchObject({ rate: { count: 1 }, retryRate: { count: 1 } });
      expect(destinations[0]?.rate?.startAt).toBe(destinations[0]?.retryRate?.startAt);
    });
  });
}
