/**
 * Tests of the scheduler: tenants take turns, and so do the destinations of a tenant.
 * Tests of planned claims: what a claim may take when permits are scarce.
 * Tests of how many permits one claim may take, by the guards of its destination.
 */
import {
  createGuards,
  guardOptionsOf,
  PermitBatch,
  resolveDestination,
  seededRandom,
} from "@redrive/core";
import { describe, expect, it } from "vitest";
import { blankDestination } from "../model/destination-row.ts";
import { T0 } from "../stores/store.testing.ts";
import { ALONE, DestinationRuntime } from "./destination-runtime.ts";
import { OwnPartitions } from "./node.ts";
import {
  assignSlots,
  claimCapacity,
  type PlannedClaim,
  plannedClaim,
  Scheduler,
  stopArrivals,
} from "./scheduler.ts";

describe("scheduler", () => {
  const NOW = 1_000_000;
  const MAX_ITEMS = 256;
  const UNLIMITED = { perNode: 1_000_000, perOrigin: 1_000_000 };

  /** A scheduler over a store that only counts: each lane holds tasks that were due long ago. */
  class Backlog {
    readonly scheduler = new Scheduler(UNLIMITED);
    readonly #waiting = new Map<DestinationRuntime, { left: number; dueAt: number }>();
    now = NOW;

    add(tenantId: string, name: string, left: number, dueAt: number): void {
      const key = { tenantId, name };
      const destination = new DestinationRuntime(seededRandom(name), key, NOW, undefined);
      this.#waiting.set(destination, { left, dueAt });
      destination.lanes.first.origin = "https://example.com";
      this.scheduler.expectDueAt(destination.lanes.first, dueAt);
    }

    /** The number of waiting tasks at destinations whose name starts with `prefix`. */
    left(prefix: string): number {
      const waiting = [...this.#waiting].filter(([{ name }]) => name.startsWith(prefix));
      return waiting.reduce((sum, [, { left }]) => sum + left, 0);
    }

    /** One commit: claims, and ends every attempt at once. Returns the claimed tasks by tenant. */
    commit(limit = MAX_ITEMS): Record<string, number> {
      const claimed: Record<string, number> = {};
      for (const claim of this.scheduler.planClaims(this.now, limit, () => false)) {
        const { tenantId } = claim.lane.destination;
        claimed[tenantId] = (claimed[tenantId] ?? 0) + this.#settle(claim);
      }
      return claimed;
    }

    #settle(claim: PlannedClaim): number {
      const { lane, permits } = claim;
      const waiting = this.#waiting.get(lane.destination);
      if (waiting === undefined) throw new Error("an unknown destination was claimed");
      const count = Math.min(waiting.left, permits.size);
      waiting.left -= count;
      const nextDueAt = waiting.left > 0 ? waiting.dueAt : null;
      const result = { tasks: [], nextDueAts: [nextDueAt], row: null };
      assignSlots(this.scheduler.slots, claim, result, this.now);
      this.scheduler.recordClaimed(claim, result);
      lane.destination.returnPermits(permits, this.now);
      this.scheduler.unblock(lane.destination, this.now);
      return count;
    }
  }

  /** The number of commits until the tenant's tasks are claimed. */
  function commitsUntil(backlog: Backlog, tenantId: string, tasks: number, stepMs = 0): number {
    let claimed = 0;
    for (let commits = 1; commits <= 1000; commits++) {
      claimed += backlog.commit()[tenantId] ?? 0;
      if (claimed === tasks) return commits;
      backlog.now += stepMs;
    }
    return Number.POSITIVE_INFINITY;
  }

  describe("a tenant with a backlog", () => {
    it.each([1, 24, 240, 2400])(
      "does not delay ten tasks of another tenant (24,000 tasks at %s destinations)",
      (destinations) => {
        const backlog = new Backlog();
        const tasks = 24_000 / destinations;
        for (let n = 0; n < destinations; n++) backlog.add("a", `a${n}`, tasks, NOW - 60_000 + n);
        for (let n = 0; n < 10; n++) backlog.add("b", `b${n}`, 1, NOW);
        expect(commitsUntil(backlog, "b", 10)).toBe(1);
      },
    );

    it.each([0, 1])(
      "delays a task that becomes due later by one turn (%s ms per commit)",
      (stepMs) => {
        const backlog = new Backlog();
        for (let n = 0; n < 240; n++) backlog.add("a", `a${n}`, 100, NOW - 60_000 + n);
        for (let n = 0; n < 20; n++, backlog.now += stepMs) backlog.commit();
        backlog.add("b", "b", 1, backlog.now);
        expect(commitsUntil(backlog, "b", 1, stepMs)).toBe(1);
      },
    );

    it("takes turns with 200 tenants: each is claimed within one round", () => {
      const backlog = new Backlog();
      for (let n = 0; n < 500; n++) backlog.add("a", `a${n}`, 100, NOW - 60_000 + n);
      for (let n = 0; n < 200; n++) backlog.add(`b${n}`, "b", 1, NOW);
      const tenants = new Set<string>();
      // 201 tenants, and at most 64 lanes per commit.
      for (let commits = 0; commits < 4; commits++) {
        for (const tenantId of Object.keys(backlog.commit())) tenants.add(tenantId);
      }
      expect(tenants.size).toBe(201);
    });

    it("shares the permits of a commit equally, however many destinations it has", () => {
      const backlog = new Backlog();
      for (let n = 0; n < 100; n++) backlog.add("a", `a${n}`, 1000, NOW - 60_000);
      for (let n = 0; n < 4; n++) backlog.add("b", `b${n}`, 1000, NOW);
      expect(backlog.commit(128)).toEqual({ a: 64, b: 64 });
      for (let n = 0; n < 10; n++) expect(backlog.commit(4)).toEqual({ a: 2, b: 2 });
    });

    it("gives every destination its turn although few permits are left", () => {
      const backlog = new Backlog();
      for (let n = 0; n < 20; n++) backlog.add("a", `a${n}`, 1, NOW - 60_000);
      backlog.add("b", "b", 1000, NOW);
      // Half of the permits of each commit.
      for (let n = 0; n < 10; n++) backlog.commit(4);
      expect(backlog.left("a")).toBe(0);
    });

    it("gets every permit when no other tenant waits", () => {
      const backlog = new Backlog();
      for (let n = 0; n < 16; n++) backlog.add("a", `a${n}`, 1000, NOW - 60_000);
      expect(backlog.commit()).toEqual({ a: MAX_ITEMS });
    });
  });

  describe("a destination with a backlog", () => {
    it.each([0, 1])(
      "takes turns with the tenant's other destinations (%s ms per commit)",
      (stepMs) => {
        const backlog = new Backlog();
        for (let n = 0; n < 100; n++) backlog.add("a", `a${n}`, 1000, NOW - 60_000);
        for (let n = 0; n < 10; n++, backlog.now += stepMs) backlog.commit();
        for (let n = 0; n < 10; n++) backlog.add("a", `late${n}`, 1, backlog.now);
        // 110 lanes, and at most 64 lanes per commit.
        for (let n = 0; n < 2; n++, backlog.now += stepMs) backlog.commit();
        expect(backlog.left("late")).toBe(0);
      },
    );
  });

  describe("a wake-up that arrives while the lane is claimed", () => {
    const PARTITION = 7;

    function planned() {
      const scheduler = new Scheduler(UNLIMITED, new OwnPartitions(64), 0);
      const key = { tenantId: "a", name: "a" };
      const { first } = new DestinationRuntime(seededRandom("a"), key, NOW, undefined).lanes;
      scheduler.expectDueAt(first, NOW, PARTITION);
      const [claim] = scheduler.planClaims(NOW, MAX_ITEMS, () => false);
      if (claim === undefined) throw new Error("nothing was claimed");
      return { scheduler, lane: first, claim };
    }

    const nothingNext = { tasks: [], nextDueAts: [null], row: null };

    it("is kept, because the claim may have read the store before", () => {
      const { scheduler, lane, claim } = planned();
      scheduler.expectDueAt(lane, NOW + 5, PARTITION);
      stopArrivals([claim]);
      scheduler.recordClaimed(claim, nothingNext);
      expect(scheduler.nextAt(NOW, () => false)).toBe(NOW + 5);
    });

    it("is kept if the commit fails", () => {
      const { scheduler, lane, claim } = planned();
      scheduler.expectDueAt(lane, NOW - 5, PARTITION);
      scheduler.recordUnclaimed(claim);
      expect([lane.dueAt, scheduler.nextAt(NOW, () => false)]).toEqual([NOW - 5, NOW]);
    });

    it("differs from a task of the same commit, which the claim has seen", () => {
      const { scheduler, lane, claim } = planned();
      stopArrivals([claim]);
      scheduler.expectDueAt(lane, NOW + 5, PARTITION);
      scheduler.recordClaimed(claim, nothingNext);
      expect(scheduler.nextAt(NOW, () => false)).toBe(Number.POSITIVE_INFINITY);
    });
  });

  describe("a lane that waits for a share when its due task moves to another node", () => {
    it("is checked when its next task is due, because only a due task requests a share", () => {
      const partitions = new OwnPartitions(64);
      const scheduler = new Scheduler(UNLIMITED, partitions, 0);
      const key = { tenantId: "a", name: "a" };
      const withoutShare = { ...ALONE, takesAll: false };
      const destination = new DestinationRuntime(
        seededRandom("a"),
        key,
        NOW,
        undefined,
        withoutShare,
      );
      const document = JSON.stringify({ concurrency: { max: 10 } });
      destination.adopt({ ...blankDestination("a", "a"), document, version: 1 }, NOW);
      const { lanes } = destination;
      scheduler.expectDueAt(lanes.first, NOW, 7);
      scheduler.expectDueAt(lanes.first, NOW + 1000, 8);
      expect(scheduler.planClaims(NOW, MAX_ITEMS, () => false)).toEqual([]);
      expect(scheduler.nextAt(NOW, () => false)).toBe(Number.POSITIVE_INFINITY);
      partitions.assign([8]);
      scheduler.forgetForeign([lanes.first]);
      expect(scheduler.nextAt(NOW, () => false)).toBe(NOW + 1000);
    });
  });
});

describe("planned claim", () => {
  const NOW = 1_000_000;

  /** A claim of the lane `name`, whose own tasks are due, while the other lane has a task since `otherAt`. */
  function claimOf(name: "first" | "retry", otherAt: number, isScarce = true) {
    const key = { tenantId: "a", name: "a" };
    const { first, retry } = new DestinationRuntime(seededRandom("a"), key, NOW, undefined).lanes;
    const [lane, other] = name === "first" ? [first, retry] : [retry, first];
    lane.dueAt = NOW - 1000;
    other.dueAt = otherAt;
    const permits = new PermitBatch(name);
    const parts = { lane, partitions: [0], permits, arrivals: undefined, origin: undefined };
    const { ahead, aheadMs } = plannedClaim(parts, { ahead: 5, aheadMs: 8, isScarce, now: NOW });
    return { ahead, aheadMs };
  }

  describe("if permits are scarce", () => {
    it("a first attempt does not overtake a retry that was due before it", () => {
      expect(claimOf("first", NOW - 400)).toEqual({ ahead: 0, aheadMs: -400 });
    });

    it("a retry does not overtake a first attempt that was due before it, or with it", () => {
      expect(claimOf("retry", NOW - 400)).toEqual({ ahead: 0, aheadMs: -401 });
    });

    it("a claim takes tasks that are due soon, if the other lane has no due task", () => {
      expect(claimOf("first", NOW + 1)).toEqual({ ahead: 5, aheadMs: 8 });
    });
  });

  it("with enough permits, a claim takes tasks that are due soon", () => {
    expect(claimOf("first", NOW - 400, false)).toEqual({ ahead: 5, aheadMs: 8 });
  });
});

const guardsOf = (document: object) =>
  createGuards(guardOptionsOf(resolveDestination(document, "service")), T0);

const rate = { perSecond: 100, burst: 1 };

it.each([
  [{}, { due: 64, ahead: 32, tokensMs: 0 }],
  [{ rate }, { due: 64, ahead: 0, tokensMs: 50 }],
  [{ rate: { adaptive: true } }, { due: 1, ahead: 0, tokensMs: 0 }],
  [{ rate: { throttle: true } }, { due: 1, ahead: 0, tokensMs: 0 }],
  [{ rate: { ...rate, throttle: true } }, { due: 1, ahead: 0, tokensMs: 0 }],
])("with %j, a claim takes %j", (document, capacity) => {
  expect(claimCapacity({ admission: { guards: guardsOf(document) } })).toEqual(capacity);
});

it.each([{}, { rate }])("with %j, it takes nothing ahead of time for a probe", (document) => {
  const guards = guardsOf(document);
  if (guards.breaker === undefined) throw new Error("there is no breaker");
  guards.breaker.state = "OPEN";
  expect(claimCapacity({ admission: { guards } })).toMatchObject({ ahead: 0, tokensMs: 0 });
});
