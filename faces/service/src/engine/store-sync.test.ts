/** Tests of what a node loads at its start: pages of lanes that are due soon, and nothing else. */
import { seededRandom, statusOutcome, virtualClock } from "@redrive/core";
import { expect, it } from "vitest";
import { notStarted } from "../deliver/attempt-result.ts";
import { GUARD_DOCUMENT } from "../model/document-table.ts";
import type { DuePage, Store } from "../model/store.ts";
import { type MemoryStore, memoryStore } from "../stores/memory/memory-store.ts";
import { batch, create, T0, TENANT } from "../stores/store.testing.ts";
import { Engine } from "./engine.ts";
import { HORIZON_MS } from "./store-sync.ts";

const PAGE = 256;

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

/** Boots an engine whose attempts succeed. Counts the calls and the lanes of `nextDue`. */
async function boot(memory: MemoryStore, changes: Partial<Store> = {}) {
  const clock = virtualClock(T0);
  const calls = { nextDue: 0, lanes: 0, keys: 0, lists: 0 };
  const counted = (page: DuePage) => {
    calls.nextDue++;
    calls.lanes += page.lanes.length;
    return page;
  };
  const store: Store = {
    ...memory,
    nextDue: async (query) => counted(await memory.nextDue(query)),
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
  const nextDue: Store["nextDue"] = async (query) => {
    if (++pages > 1) await new Promise<void>((resolve) => waiting.push(resolve));
    return memory.nextDue(query);
  };
  const { clock, engine, sent } = await boot(memory, { nextDue });
  expect(engine.isRunning()).toBe(true);
  await clock.advance(2000);
  expect(new Set(sent).size).toBe(PAGE);
  while (waiting.length > 0) {
    waiting.shift()?.();
    await clock.advance(1000);
  }
  expect(new Set(sent).size).toBe(PAGE * 4);
});

it("keeps only what is due within the horizon, and repeats the load only when it moves", async () => {
  const memory = await filled(10, 5000);
  const { clock, engine, calls, sent } = await boot(memory);
  await clock.advance(1000);
  expect(sent).toHaveLength(10);
  expect(engine.destinations.size).toBe(10);
  expect(calls).toEqual({ nextDue: Math.ceil(5010 / PAGE), lanes: 10, keys: 10, lists: 0 });
  await clock.advance(HORIZON_MS / 2 - 10_000);
  expect(calls.nextDue).toBe(Math.ceil(5010 / PAGE));
  await clock.advance(20_000);
  expect(calls.nextDue).toBeGreaterThan(Math.ceil(5010 / PAGE));
  expect(calls.lanes).toBe(10);
});

it("does not start a new task before older tasks of its destination are loaded", async () => {
  const memory = await filled(PAGE + 1, 0);
  const last = `due-${PAGE}`;
  let release = () => {};
  let pages = 0;
  const nextDue: Store["nextDue"] = async (query) => {
    if (++pages > 1) {
      await new Promise<void>((resolve) => {
        release = resolve;
      });
    }
    return memory.nextDue(query);
  };
  const { clock, engine } = await boot(memory, { nextDue });
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
  const nextDue: Store["nextDue"] = async (query) => {
    if (++pages === 2) throw new Error("no connection");
    return memory.nextDue(query);
  };
  const { clock, sent } = await boot(memory, { nextDue });
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
