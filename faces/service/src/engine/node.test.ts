/**
 * Tests of the lease of a node in a shared store: how long it may be used, and what a gap is.
 * Tests which partitions a node leases, and in which partition it stores a task.
 */
import { virtualClock } from "@redrive/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { uuidV7 } from "../model/ids.ts";
import { partitionByteOf, partitionOf } from "../model/partition.ts";
import { T0 } from "../stores/store.testing.ts";
import { EngineTime } from "../time/engine-time.ts";
import { assignPartitions } from "./fleet.ts";
import { NodeLease, OwnPartitions } from "./node.ts";

function setup() {
  const clock = virtualClock(T0);
  const time = new EngineTime(clock, 0);
  return { clock, lease: new NodeLease({ clock, time, isExclusive: false, leaseMs: 10_000 }) };
}

describe("the lease of a node", () => {
  it("counts from the request, and is used for nine tenths of its length", async () => {
    const { clock, lease } = setup();
    const requested = lease.request();
    await clock.advance(3000);
    lease.record(requested, true);
    await clock.advance(5999);
    expect(lease.isHeld()).toBe(true);
    await clock.advance(1);
    expect(lease.isHeld()).toBe(false);
  });

  it("has a gap if the store says that it had ended, although this node has not noticed", async () => {
    const { clock, lease } = setup();
    lease.record(lease.request(), true);
    expect(lease.heldSince()).toBe(T0);
    await clock.advance(1000);
    lease.record(lease.request(), false);
    expect(lease.heldSince()).toBe(T0);
    lease.record(lease.request(), true);
    expect(lease.heldSince()).toBe(T0 + 1000);
  });

  it("is uncertain after the machine may have slept, until it is renewed", async () => {
    const { clock, lease } = setup();
    const wall = { aheadMs: 0 };
    const machine = { ...clock, now: () => clock.now() + wall.aheadMs };
    const time = new EngineTime(clock, 0);
    const slept = new NodeLease({ clock: machine, time, isExclusive: false });
    slept.record(slept.request(), false);
    wall.aheadMs = 500;
    expect(slept.isCertain()).toBe(true);
    wall.aheadMs = 501;
    expect([slept.isHeld(), slept.isCertain()]).toEqual([true, false]);
    slept.record(slept.request(), false);
    expect(slept.isCertain()).toBe(true);
    expect(lease.isHeld()).toBe(false);
  });
});

const nodeNames = fc.uniqueArray(fc.uuid(), { minLength: 1, maxLength: 9 });
const range = (count: number) => Array.from({ length: count }, (_, n) => n);
const counts = fc.constantFrom(1, 16, 64, 256);

describe("the partitions of nodes", () => {
  it("have one owner each, and are divided equally", () => {
    fc.assert(
      fc.property(nodeNames, counts, (nodes, count) => {
        const lists = nodes.map((node) => assignPartitions(nodes, node, range(count)));
        const all = lists.flat().sort((a, b) => a - b);
        expect(all).toEqual(Array.from({ length: count }, (_, partition) => partition));
        const most = Math.ceil(count / nodes.length);
        for (const { length } of lists) expect(length).toBeLessThanOrEqual(most);
      }),
    );
  });

  it("do not depend on the order of the nodes", () => {
    fc.assert(
      fc.property(nodeNames, (nodes) => {
        const [node = ""] = nodes;
        const reversed = assignPartitions([...nodes].reverse(), node, range(64));
        expect(reversed).toEqual(assignPartitions(nodes, node, range(64)));
      }),
    );
  });

  it("mostly stay when a node leaves", () => {
    const nodes = ["a", "b", "c", "d"].map((name) => `node-${name}`);
    const before = assignPartitions(nodes, "node-a", range(64));
    const after = assignPartitions(nodes.slice(0, 3), "node-a", range(64));
    const kept = before.filter((partition) => after.includes(partition));
    expect(before.length).toBe(16);
    expect(kept.length).toBeGreaterThanOrEqual(12);
  });
});

describe("the partition of a new task", () => {
  const newId = uuidV7((bytes) => bytes.fill(7));

  it("is one of the node's, and changes with time", () => {
    const own = new OwnPartitions(64);
    own.assign([3, 9]);
    const bytes = Array.from({ length: 100 }, (_, n) => own.byteFor("t", null, 1000 + n * 60));
    const found = bytes.map((byte) => partitionOf(newId(1000, byte), 64));
    expect(new Set(found)).toEqual(new Set([3, 9]));
    expect(own.byteFor("t", null, 9000)).toBe(own.byteFor("t", null, 9001));
  });

  it("changes after 256 tasks of one instant", () => {
    const partitions = new OwnPartitions(64);
    const bytes = Array.from({ length: 257 }, () => partitions.byteFor("acme", null, 1_000_000));
    expect([new Set(bytes.slice(0, 256)).size, new Set(bytes).size]).toEqual([1, 2]);
  });

  it("is that of its key", () => {
    const one = new OwnPartitions(64);
    const other = new OwnPartitions(64);
    other.assign([1]);
    const byte = one.byteFor("t", "key", 1);
    expect(other.byteFor("t", "key", 99)).toBe(byte);
    expect(partitionByteOf(newId(1000, byte))).toBe(byte);
    const keys = Array.from({ length: 2000 }, (_, n) => one.byteFor("t", `order-${n}`, 1) ?? 0);
    expect(new Set(keys.map((key) => key % 64)).size).toBe(64);
  });

  it("is random in a store with a single one", () => {
    const own = new OwnPartitions(1);
    expect(own.byteFor("t", null, 1)).toBeUndefined();
    expect(own.of(newId(1))).toBe(0);
    expect(own.has(0)).toBe(true);
  });
});
