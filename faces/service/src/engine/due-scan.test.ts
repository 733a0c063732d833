/** Tests of what a node reads of the lanes that are due: in pages, one at a time, and beside everything else. */
import { seededRandom, statusOutcome, virtualClock } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { notStarted } from "../deliver/attempt.ts";
import { GUARD_DOCUMENT } from "../model/document-table.ts";
import type { DuePage, Store } from "../model/store.ts";
import { wrapped } from "../model/wrapped.testing.ts";
import { type MemoryStore, memoryStore } from "../stores/memory/memory-store.ts";
import { batch, create, T0, TENANT } from "../stores/store.testing.ts";
import { Engine } from "./engine.ts";
import { fleet } from "./fleet.testing.ts";

const PAGE = 512;
const SWEEP_MS = 300_000;

/** A store with `due` destinations that are due, and `later` destinations that are due after a day. */
async function filled(due: number, later: number): Promise<MemoryStore> {
  const store = memoryStore();
  const policy = { tenantId: TENANT, policyId: "background", version: 1, createdAt: T0 };
  await store.addPolicy({ ...policy, document: "{}" });
  const dueCreates = Array.from({ length: due }, (_, n) => create({ destination: `due-${n}` }));
  const laterCreates = Array.from({ length: later }, (_, n) =>
    create({ destination: `later-${n}`, scheduledAt: T0 + 86_400_000 }),
  );
  await store.commit(batch({ creates: [...laterCreates, ...dueCreates] }));
  return store;
}

/** Boots an engine whose attempts succeed. Counts the calls and the lanes of `dueLanes`. */
async function boot(memory: MemoryStore, changes: Partial<Store> = {}) {
  const clock = virtualClock(T0);
  const calls = { dueLanes: 0, lanes: 0, keys: 0, lists: 0 };
  const counted = (page: DuePage) => {
    calls.dueLanes++;
    calls.lanes += page.lanes.length;
    return page;
  };
  const store: Store = {
    ...memory,
    dueLanes: async (query) => counted(await memory.dueLanes(query)),
    documents: {
      ...memory.documents,
      getMany(kind, keys) {
        calls.keys += keys.length;
        return memory.documents.getMany(kind, keys);
      },
      list(kind, page) {
        calls.lists++;
        return memory.documents.list(kind, page);
      },
    },
    ...changes,
  };
  const sent: string[] = [];
  const engine = await Engine.open({
    clock,
    random: seededRandom("sync"),
    store,
    nodeId: "node-1",
    deliver: ({ destination }, _, done) => {
      sent.push(destination);
      clock.alarm(1, () => done({ ...notStarted(statusOutcome(200), null), durationMs: 1 }));
    },
  });
  await engine.start();
  return { clock, engine, calls, sent };
}

it("reads a page, starts, and reads the others while it runs", async () => {
  const memory = await filled(PAGE * 4, 0);
  const waiting: (() => void)[] = [];
  let pages = 0;
  const dueLanes: Store["dueLanes"] = async (query) => {
    if (++pages > 1) await new Promise<void>((resolve) => waiting.push(resolve));
    return memory.dueLanes(query);
  };
  const { clock, engine, sent } = await boot(memory, { dueLanes });
  expect(engine.isRunning()).toBe(true);
  await clock.advance(2000);
  expect(new Set(sent).size).toBe(PAGE);
  // A pause lasts as long as the read before it.
  while (pages < 4) {
    waiting.shift()?.();
    await clock.advance(5000);
  }
  waiting.shift()?.();
  await clock.advance(1000);
  expect(new Set(sent).size).toBe(PAGE * 4);
});

it("keeps only what is due within the horizon, and repeats the load only when it moves", async () => {
  const memory = await filled(10, 5000);
  const { clock, engine, calls, sent } = await boot(memory);
  await clock.advance(1000);
  expect(sent).toHaveLength(10);
  expect(engine.destinations.size).toBe(10);
  expect(calls).toEqual({ dueLanes: Math.ceil(5010 / PAGE), lanes: 10, keys: 10, lists: 0 });
  await clock.advance(SWEEP_MS - 10_000);
  expect(calls.dueLanes).toBe(Math.ceil(5010 / PAGE));
  await clock.advance(20_000);
  expect(calls.dueLanes).toBeGreaterThan(Math.ceil(5010 / PAGE));
  expect(calls.lanes).toBe(10);
});

it("does not start a new task before older tasks of its destination are loaded", async () => {
  const memory = await filled(PAGE + 1, 0);
  const last = `due-${PAGE}`;
  let release = () => {};
  let pages = 0;
  const dueLanes: Store["dueLanes"] = async (query) => {
    if (++pages > 1) {
      await new Promise<void>((resolve) => {
        release = resolve;
      });
    }
    return memory.dueLanes(query);
  };
  const { clock, engine } = await boot(memory, { dueLanes });
  const { task } = create({ destination: last, createdAt: T0, scheduledAt: T0 + 1 });
  const created = new Promise((done, failed) => engine.create(task, null, done, failed));
  await clock.advance(100);
  expect(await created).toMatchObject({ kind: "created", started: null });
  release();
  await clock.advance(5000);
  const ended = memory.all().filter(({ destination }) => destination === last);
  const starts = await Promise.all(
    ended.map(async ({ taskId }) => {
      const { attempts } = await memory.query.attempts(TENANT, taskId, { limit: 1 });
      return attempts[0]?.startedAt ?? Number.NaN;
    }),
  );
  expect(starts).toEqual(starts.toSorted((a, b) => a - b));
  expect(ended.map(({ status }) => status)).toEqual(["SUCCEEDED", "SUCCEEDED"]);
});

it("repeats a load that failed, and loses no task", async () => {
  const memory = await filled(PAGE * 2, 0);
  let pages = 0;
  const dueLanes: Store["dueLanes"] = async (query) => {
    if (++pages === 2) throw new Error("no connection");
    return memory.dueLanes(query);
  };
  const { clock, sent } = await boot(memory, { dueLanes });
  await clock.advance(10_000);
  expect(new Set(sent).size).toBe(PAGE * 2);
});

it("restores the guards of a destination before its first attempt, and of no other", async () => {
  const memory = await filled(3, 100);
  const documents = ["due-0", "later-0"].map((id) => ({
    kind: GUARD_DOCUMENT,
    tenantId: TENANT,
    id,
    text: "{}",
  }));
  await memory.commit(batch({ documents }));
  const { clock, engine, calls } = await boot(memory);
  expect(engine.destinations.find(TENANT, "due-0")?.hasSavedGuards).toBe(true);
  expect(engine.destinations.find(TENANT, "due-1")?.hasSavedGuards).toBe(false);
  expect(engine.destinations.find(TENANT, "later-0")).toBeUndefined();
  expect(calls.keys).toBe(3);
  expect(engine.destination(TENANT, "later-0").hasSavedGuards).toBe(false);
  await clock.advance(1);
  expect(engine.destination(TENANT, "later-0").hasSavedGuards).toBe(true);
});

describe("a node of a fleet whose wake-ups are lost", () => {
  /** Each read takes this long. */
  async function slowNode(readMs: number) {
    const { clock, boot, store, storeOf, sent } = await fleet([]);
    const inner = storeOf("node-1");
    let reads = 0;
    const slow: Partial<Store> = {
      dueLanes: async (query) => {
        reads++;
        await clock.sleep(readMs);
        return inner.dueLanes(query);
      },
      onWakeUp: () => ({ follow: () => {}, stop: () => {} }),
    };
    await boot("node-1", wrapped<Store>(inner, slow));
    await clock.advance(30_000);
    /** Another node stores a task that is due at once. */
    const storeOther = async () => {
      const scheduledAt = clock.now();
      const one = create({ createdAt: scheduledAt, scheduledAt });
      await store.commit(batch({ now: scheduledAt, nodeId: "node-2", creates: [one] }));
      return one.task.taskId;
    };
    return { clock, sent, storeOther, reads: () => reads };
  }

  it("sends what another node has stored within about a second", async () => {
    const { clock, sent, storeOther } = await slowNode(5);
    const taskId = await storeOther();
    await clock.advance(1100);
    expect(sent.map((one) => one.taskId)).toEqual([taskId]);
  });

  it("does so within seconds while each read takes two of them, and asks such a store for less", async () => {
    const fast = await slowNode(5);
    const slow = await slowNode(2000);
    const taskId = await slow.storeOther();
    await slow.clock.advance(8000);
    expect(slow.sent.map((one) => one.taskId)).toEqual([taskId]);
    const before = [fast.reads(), slow.reads()] as const;
    await Promise.all([fast.clock.advance(300_000), slow.clock.advance(300_000)]);
    const [fastReads, slowReads] = [fast.reads() - before[0], slow.reads() - before[1]];
    expect(fastReads).toBeGreaterThan(290);
    expect(slowReads).toBeGreaterThan(60);
    expect(slowReads).toBeLessThan(fastReads / 2);
  });
});
