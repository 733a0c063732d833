/**
 * Conformance of what nodes of a fleet share: partitions, wake-ups, leases and shares of limits. A part
 * of `conformance.testing.ts`. An exclusive store has one node and one partition, so for it only the
 * shape of the results is tested.
 */
import { describe, expect, it } from "vitest";
import { blankDestination } from "../model/destination-row.ts";
import type { LaneDue, WakeUp } from "../model/lane-due.ts";
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
  dueLanes,
  nextTaskId,
  partitionsOf,
  report,
  settle,
  T0,
  TENANT,
} from "./store.testing.ts";

/** A create in that partition. */
function createIn(partition: number, fields: Partial<NewTask> = {}) {
  const byte = partition.toString(16).padStart(2, "0");
  const taskId = nextTaskId().replace("-8000-", `-80${byte}-`);
  return create({ taskId, ...fields });
}

/** What a listener hears that follows these partitions. */
function listenTo(store: Store, partitions: readonly number[]) {
  const all: WakeUp[] = [];
  const wakeUps = store.onWakeUp((wakeUp) => all.push(wakeUp));
  wakeUps.follow(partitions);
  const lanes = () =>
    all
      .flatMap((wakeUp) => (typeof wakeUp === "string" ? [] : wakeUp))
      .filter(({ destination }) => destination !== "probe");
  /** A channel is followed soon, so the first message may be lost. */
  const isReady = async () => {
    const partition = partitions[0] ?? 0;
    const probe = { tenantId: TENANT, destination: "probe", lane: "first", partition, dueAt: 0 };
    const isTold = async () => {
      await store.commit(batch({ wakeUps: [probe as LaneDue] }));
      return all.length > 0;
    };
    await expect.poll(isTold).toBe(true);
    all.splice(0);
  };
  return { all, wakeUps, lanes, isReady };
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
      const query = { partitions: [1, 3], from: T0 - 9, before: T0 + 9, limit: 99 };
      const { lanes } = await store().dueLanes(query);
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

    it("are swept on their own or with others, and none is forgotten", async () => {
      if (store().exclusive) return;
      const made = [1, 2, 2, 3].map((partition, at) => ({
        ...createIn(partition, { idempotencyKey: `k${at}` }),
        fingerprint: "f",
      }));
      await store().commit(batch({ creates: made }));
      await store().commit(batch({ cancels: made.map(({ task }) => task) }));
      const ends = { now: T0 + 86_400_000, endedBefore: T0 + 1, deadBefore: 0, limit: 9 };
      const left = async () => {
        const { tasks } = await store().query.list(TENANT, {}, { limit: 9 });
        return new Set(tasks.map(({ taskId }) => partitionOf(taskId, store().partitions)));
      };
      await store().sweep({ ...ends, partitions: [2] });
      expect(await left()).not.toContain(2);
      await store().sweep({ ...ends, partitions: [1, 3], isContinued: true });
      expect(await left()).toEqual(new Set());
      const { creates } = await store().commit(batch({ creates: made }));
      expect(creates.map(({ kind }) => kind)).toEqual(made.map(() => "created"));
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

  describe("a commit", () => {
    it("that arrives after it has expired is refused, and stores nothing", async () => {
      if (store().exclusive) return;
      const now = await store().clock();
      const late = batch({
        expiresAt: Math.floor(now) - 1000,
        creates: [createIn(3), createIn(9)],
      });
      await expect(store().commit(late)).rejects.toThrow(/expired/u);
      expect(await store().query.count(TENANT)).toEqual({});
      await store().commit({ ...late, expiresAt: Math.floor(now) + 60_000 });
      expect(await store().query.count(TENANT)).toEqual({ PENDING: 2 });
    });

    it("does not settle the claim of another node, although its epoch is the same", async () => {
      if (store().exclusive) return;
      await store().commit(batch({ creates: [create()] }));
      const { claims } = await store().commit(
        batch({ nodeId: "node-2", claims: [claimOf("first")] }),
      );
      const claim = claims[0]?.tasks[0];
      if (claim === undefined) throw new Error("nothing was claimed");
      expect(claim).toMatchObject({ claimEpoch: 1, claimedBy: "node-2" });
      // Its own claim with this epoch was lost in a failover.
      const lost = { ...claim, claimedBy: "node-1" };
      const refused = await store().commit(batch({ nodeId: "node-1", settles: [settle(lost)] }));
      expect(refused.settles).toEqual(["fenced"]);
      // A node that rescues the claim names the node that has it.
      const rescued = await store().commit(batch({ nodeId: "node-1", settles: [settle(claim)] }));
      expect(rescued.settles).toEqual(["PENDING"]);
    });

    it("returns the claimant with each claim, also of a new task and of a node that is gone", async () => {
      const created = await store().commit(
        batch({ nodeId: "node-2", creates: [create({}, { claimVersion: 0 })] }),
      );
      expect(created.creates[0]).toMatchObject({ started: { claimedBy: "node-2" } });
      const own = await store().claimsOf("node-2", 9);
      expect(own.map(({ claimedBy }) => claimedBy)).toEqual(["node-2"]);
      const query = { nodeId: "node-1", partitions: partitionsOf(store()), limit: 9 };
      const lapsed = await store().lapsed(query);
      expect(lapsed.map(({ claimedBy }) => claimedBy)).toEqual(["node-2"]);
    });
  });

  describe("due lanes", () => {
    it("are those of tasks that are due within the time, in pages, whatever waits for later", async () => {
      if (store().exclusive) return;
      const dueIn = (destination: string, ms: number) =>
        createIn(2, { destination, scheduledAt: T0 + ms });
      const soon = Array.from({ length: 30 }, (_, n) => dueIn(`soon-${n}`, n));
      const other = [dueIn("early", -9000), dueIn("early", 90_000), dueIn("late", 90_000)];
      await store().commit(batch({ creates: [...soon, ...other] }));
      const found = new Map<string, number>();
      let cursor: string | null | undefined;
      while (cursor !== null) {
        const query = { partitions: [1, 2], from: T0, before: T0 + 20, limit: 3, cursor };
        const page = await store().dueLanes(query);
        for (const { destination, dueAt } of page.lanes) found.set(destination, dueAt);
        expect(page.lanes.length).toBeLessThanOrEqual(9);
        cursor = page.cursor;
      }
      const expected = Array.from({ length: 20 }, (_, n) => [`soon-${n}`, T0 + n] as const);
      expect([...found].sort()).toEqual(expected.toSorted());
    });

    it("change between two pages, and none that stays is left out", async () => {
      if (store().exclusive) return;
      const names = Array.from({ length: 12 }, (_, n) => `d${n}`);
      const creates = names.map((destination) => createIn(4, { destination }));
      await store().commit(batch({ creates }));
      const found = new Set<string>();
      let cursor: string | null | undefined;
      for (let page = 0; cursor !== null; page++) {
        const query = { partitions: [4], from: 0, before: T0 + 1, limit: 2, cursor };
        const { lanes, cursor: next } = await store().dueLanes(query);
        for (const { destination } of lanes) found.add(destination);
        cursor = next;
        const claims = [claimOf("first", { destination: `d${page}`, partitions: [4] })];
        await store().commit(batch({ claims }));
      }
      const left = (await dueLanes(store())).map(({ destination }) => destination);
      expect(left.filter((name) => !found.has(name))).toEqual([]);
    });
  });

  describe("wake-ups", () => {
    const lane: LaneDue = {
      tenantId: TENANT,
      destination: DESTINATION,
      lane: "first",
      partition: 3,
      dueAt: T0 + 1,
    };

    it("reach those that follow the partition, at once", async () => {
      if (store().exclusive) return;
      const told = listenTo(store(), [3, 5]);
      const others = listenTo(store(), [4]);
      const foreign = { ...lane, partition: 4 };
      await told.isReady();
      await store().commit(batch({ creates: [createIn(3)], wakeUps: [foreign, lane] }));
      await expect.poll(() => told.lanes()).toEqual([lane]);
      await expect.poll(() => others.lanes()).toEqual([foreign]);
    });

    it("follow the partitions that a listener follows later", async () => {
      if (store().exclusive) return;
      const told = listenTo(store(), [3]);
      await told.isReady();
      told.wakeUps.follow([4]);
      const foreign = { ...lane, partition: 4 };
      // To follow takes effect soon.
      const isTold = async () => {
        await store().commit(batch({ wakeUps: [lane, foreign] }));
        return told.lanes().some(({ partition }) => partition === 4);
      };
      await expect.poll(isTold).toBe(true);
      expect(told.lanes().some(({ partition }) => partition === 3)).toBe(false);
    });

    it("tell everybody when a node joins, shares its limits or leaves", async () => {
      if (store().exclusive) return;
      const told = listenTo(store(), []);
      const changes = () => told.all.filter((wakeUp) => wakeUp === "nodes-changed").length;
      const reports = [
        report("node-1", { takesAll: true }),
        report("node-1"),
        report("node-2"),
        report("node-2", { isLeaving: true }),
      ];
      for (const one of reports) {
        const before = changes();
        await store().renew(one);
        await expect.poll(changes).toBe(before + 1);
      }
      const before = changes();
      await store().retire("node-2");
      await expect.poll(changes).toBe(before + 1);
    });

    it("do not reach a listener that has stopped", async () => {
      const told = listenTo(store(), [0]);
      told.wakeUps.stop();
      await store().renew(report("node-9"));
      await store().commit(batch({ creates: [create()], wakeUps: [{ ...lane, partition: 0 }] }));
      expect(told.all).toEqual([]);
    });
  });

  describe("leases", () => {
    it("name the nodes that hold one", async () => {
      const first = await store().renew(report("node-1"));
      expect(first).toMatchObject({ nodes: ["node-1"], destinations: [] });
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
