/** Tests of commits that overlap: in a shared store, a second commit starts while many items wait. */
import { seededRandom, virtualClock } from "@redrive/core";
import { expect, it } from "vitest";
import type { Batch, CommitResult } from "../model/batch.ts";
import type { Store } from "../model/store.ts";
import { laneOf } from "../model/task.ts";
import { wrapped } from "../model/wrapped.testing.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import {
  batch as batchOf,
  claimOf,
  create,
  pinnedTask,
  settle,
  T0,
  TENANT,
} from "../stores/store.testing.ts";
import { Engine } from "./engine.ts";

/** Far enough that no task is due. */
const LATER = T0 + 3_600_000;

interface HeldCommit {
  readonly batch: Batch;
  readonly release: () => Promise<void>;
  /** The response is lost; the commit may have happened. */
  readonly lose: () => void;
}

interface Options {
  readonly exclusive?: boolean;
  readonly overlapItems?: number;
  /** `overlapItems` of the store. */
  readonly ofStore?: number;
  /** Which commits wait until they are released. Default: those with new tasks. */
  readonly holds?: (batch: Batch) => boolean;
  /** Fills the store before the engine starts. */
  readonly prepare?: (store: Store) => Promise<void>;
}

/** An engine with commits that a test holds, or lets fail. */
async function setup(options: Options = {}) {
  const { exclusive = false, overlapItems, ofStore, holds, prepare } = options;
  const clock = virtualClock(T0);
  const inner = memoryStore({ exclusive, clock });
  const policy = { tenantId: TENANT, policyId: "background", version: 1, createdAt: T0 };
  await inner.addPolicy({ ...policy, document: "{}" });
  await prepare?.(inner);
  const held: HeldCommit[] = [];
  const test = { fails: false, claimChecks: 0 };
  const isHeld = holds ?? (({ creates }: Batch) => creates.length > 0);
  const hold = (batch: Batch) =>
    new Promise<CommitResult>((resolve, reject) => {
      const release = async () => resolve(await inner.commit(batch));
      held.push({ batch, release, lose: () => reject(new Error("lost")) });
    });
  const store: Store = wrapped<Store>(inner, {
    ...(ofStore !== undefined && { overlapItems: ofStore }),
    commit: (batch) => {
      if (test.fails) return Promise.reject(new Error("lost"));
      return isHeld(batch) ? hold(batch) : inner.commit(batch);
    },
    claimsOf: (nodeId, limit) => {
      test.claimChecks++;
      return inner.claimsOf(nodeId, limit);
    },
  });
  const random = seededRandom("overlap");
  const nodeId = "node";
  const deliver = () => {};
  const engine = await Engine.open({ clock, random, store, nodeId, overlapItems, deliver });
  await engine.start();
  const stored: number[] = [];
  const failed: number[] = [];
  const enqueue = (count: number) => {
    for (let n = 0; n < count; n++) {
      const task = pinnedTask({ createdAt: T0, scheduledAt: LATER });
      engine.create(
        task,
        null,
        () => void stored.push(n),
        () => void failed.push(n),
      );
    }
  };
  const sizes = () => held.map(({ batch: { creates } }) => creates.length);
  return { clock, engine, inner, held, stored, failed, enqueue, sizes, test };
}

it("a second commit starts beside the first one, and its result waits for the first", async () => {
  const { clock, held, stored, enqueue, sizes } = await setup();
  enqueue(500);
  await clock.advance(1);
  expect(sizes()).toEqual([250, 250]);
  await held[1]?.release();
  await clock.advance(1);
  expect(stored).toEqual([]);
  await held[0]?.release();
  await clock.advance(1);
  expect(stored).toEqual(Array.from({ length: 500 }, (_, n) => n));
});

const upTo = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => from + n);

it.each([
  ["before", [0, 1]],
  ["after", [1, 0]],
] as const)(
  "the first commit fails %s the second succeeds: only its items fail, and the engine works on",
  async (_, order) => {
    const { clock, engine, inner, held, stored, failed, enqueue, sizes, test } = await setup();
    enqueue(500);
    await clock.advance(1);
    for (const index of order) {
      if (index === 0) held[0]?.lose();
      else await held[1]?.release();
      await clock.advance(1);
    }
    expect(failed).toEqual(upTo(0, 250));
    expect(stored).toEqual(upTo(250, 500));
    expect(inner.all()).toHaveLength(250);
    // The failure began a pause, which the success of the second one must not leave behind.
    enqueue(1);
    await clock.advance(2000);
    expect(sizes()).toEqual([250, 250, 1]);
    await held[2]?.release();
    await clock.advance(1);
    expect(stored.at(-1)).toBe(0);
    // A claim of the lost commit may be stored, so the node compares its claims with the store.
    const checks = test.claimChecks;
    await clock.advance(4000);
    expect(test.claimChecks).toBeGreaterThan(checks);
    await engine.stop(0);
  },
);

it("no third commit starts, and few items wait for the next commit", async () => {
  const { clock, held, enqueue, sizes } = await setup();
  enqueue(200);
  await clock.advance(1);
  expect(sizes()).toEqual([200]);
  enqueue(127);
  await clock.advance(1);
  expect(sizes()).toEqual([200]);
  enqueue(500);
  await clock.advance(1);
  expect(sizes()).toEqual([200, 256]);
  await held[0]?.release();
  await clock.advance(1);
  expect(sizes()).toEqual([200, 256, 256]);
});

it("the store says how many items are worth a second commit", async () => {
  const { clock, held, enqueue, sizes } = await setup({ ofStore: 16 });
  enqueue(31);
  await clock.advance(1);
  expect(sizes()).toEqual([31]);
  await held[0]?.release();
  await clock.advance(1);
  enqueue(64);
  await clock.advance(1);
  expect(sizes()).toEqual([31, 32, 32]);
});

it.each([
  ["starts as soon as the last one has ended", 64, 2],
  ["waits for the end of the turn if few items wait, because more are about to come", 63, 1],
] as const)("the next commit %s", async (_, waiting, commits) => {
  const { clock, held, stored, enqueue } = await setup();
  enqueue(1);
  await clock.advance(1);
  enqueue(waiting);
  await clock.advance(1);
  await held[0]?.release();
  for (let turns = 0; stored.length === 0 && turns < 20; turns++) await Promise.resolve();
  expect([stored.length, held.length]).toEqual([1, commits]);
  await clock.advance(1);
  expect(held).toHaveLength(2);
});

it("an exclusive store gets one commit at a time", async () => {
  const { clock, held, enqueue, sizes } = await setup({ exclusive: true });
  enqueue(500);
  await clock.advance(1);
  expect(sizes()).toEqual([256]);
  await held[0]?.release();
  await clock.advance(1);
  expect(sizes()).toEqual([256, 244]);
});

/** Stores one task that was abandoned twice at each destination. */
async function addSuspects(store: Store, destinations: readonly string[]): Promise<void> {
  const creates = destinations.map((destination) => create({ scheduledAt: T0, destination }));
  await store.commit(batchOf({ now: T0, creates }));
  const partitions = Array.from({ length: store.partitions }, (_, partition) => partition);
  const claims = destinations.map((destination) => claimOf("first", { destination, partitions }));
  const result = await store.commit(batchOf({ now: T0, claims }));
  const abandoned = { lane: laneOf(1, 2), abandonedCount: 2, nextAttemptAt: T0 } as const;
  const settles = result.claims.flatMap(({ tasks }) => tasks.map((one) => settle(one, abandoned)));
  expect(settles).toHaveLength(destinations.length);
  await store.commit(batchOf({ now: T0, settles }));
}

it("only one of two running commits claims a suspect", async () => {
  const isSuspect = ({ claims }: Batch) => claims.some(({ lane }) => lane === "suspect");
  const { clock, held, enqueue } = await setup({
    overlapItems: 1,
    holds: ({ nodeId }) => nodeId === "node",
    prepare: (store) => addSuspects(store, ["one", "other"]),
  });
  await clock.advance(1);
  expect(held.map(({ batch }) => isSuspect(batch))).toEqual([true]);
  enqueue(1);
  await clock.advance(1);
  expect(held.map(({ batch }) => isSuspect(batch))).toEqual([true, false]);
});

it("claims are compared with the store while no commit runs, and no second commit delays that", async () => {
  const { clock, held, enqueue, test } = await setup({ overlapItems: 1 });
  test.fails = true;
  enqueue(1);
  await clock.advance(1);
  test.fails = false;
  await clock.advance(1000);
  const before = test.claimChecks;
  enqueue(1);
  await clock.advance(4000);
  expect([held.length, test.claimChecks]).toEqual([1, before]);
  enqueue(1);
  await clock.advance(1);
  expect(held).toHaveLength(1);
  await held[0]?.release();
  await clock.advance(1);
  expect(test.claimChecks).toBe(before + 1);
  expect(held).toHaveLength(2);
});
