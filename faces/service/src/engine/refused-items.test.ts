/** Tests that an item which the store refuses fails alone, is reported, and is not repeated forever. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Outcome, seededRandom, virtualClock } from "@redrive/core";
import { describe, expect, it, onTestFinished } from "vitest";
import { notStarted } from "../deliver/attempt.ts";
import type { Batch, CreateResult } from "../model/batch.ts";
import type { Store } from "../model/store.ts";
import { StoreFullError, StoreRefusedError } from "../model/store-errors.ts";
import type { NewTask } from "../model/task.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { sqliteStore } from "../stores/sqlite/sqlite-store.ts";
import { pinnedTask, T0, TENANT } from "../stores/store.testing.ts";
import { Engine } from "./engine.ts";
import type { EngineEvent } from "./events.ts";

/** SQLite refuses a fraction in a column of integers. */
const BAD_AT = T0 + 0.5;
/** SQLite stores it as NULL, which the column refuses. */
const BAD_MS = Number.NaN;

function tempSqlite(): Store {
  const folder = mkdtempSync(join(tmpdir(), "redrive-refused-"));
  const store = sqliteStore(join(folder, "r.db"));
  onTestFinished(async () => {
    await store.close();
    rmSync(folder, { recursive: true });
  });
  return store;
}

/** A memory store that refuses what SQLite refuses. */
function strictMemory(): Store {
  const inner = memoryStore();
  const isBad = ({ creates, settles }: Batch) =>
    creates.some(({ task }) => task.deadlineAt === BAD_AT) ||
    settles.some(({ attempt }) => Number.isNaN(attempt?.durationMs));
  return {
    ...inner,
    commit: (batch) =>
      isBad(batch) ? Promise.reject(new StoreRefusedError("refused")) : inner.commit(batch),
  };
}

async function setup(inner: Store) {
  const clock = virtualClock(T0);
  const policy = { tenantId: TENANT, policyId: "background", version: 1, createdAt: T0 };
  await inner.addPolicy({ ...policy, document: JSON.stringify({ jitterType: "NONE" }) });
  const counts = { commits: 0, failed: 0 };
  let fault: unknown;
  const store: Store = {
    ...inner,
    commit: (batch) => {
      counts.commits++;
      if (fault !== undefined) return Promise.reject(fault);
      return inner.commit(batch).catch((error: unknown) => {
        counts.failed++;
        throw error;
      });
    },
  };
  const events: EngineEvent[] = [];
  const durations = new Map<string, number>();
  const engine = await Engine.open({
    clock,
    random: seededRandom("refused"),
    store,
    nodeId: "node-1",
    deliver: (task, _, done) => {
      const outcome: Outcome = { kind: "success", status: 200 };
      const durationMs = durations.get(task.taskId) ?? 5;
      clock.alarm(5, () => done({ ...notStarted(outcome, null), status: 200, durationMs }));
    },
  });
  engine.events.listen((event) => events.push({ ...event }));
  await engine.start();
  const enqueue = (fields: Partial<NewTask> = {}) => {
    const task = pinnedTask(fields);
    const created = new Promise<CreateResult>((done, failed) =>
      engine.create(task, null, done, failed),
    ).then(
      ({ kind }) => kind,
      ({ code }: { code: string }) => code,
    );
    return { task, created };
  };
  const get = (taskId: string) => store.query.get(TENANT, taskId);
  const setFault = (error: unknown) => {
    fault = error;
  };
  return { clock, engine, counts, events, enqueue, get, durations, setFault };
}

describe.each([
  ["SQLite", tempSqlite],
  ["memory", strictMemory],
])("in a %s store", (_, open) => {
  it("a create that the store refuses fails alone, and the other 99 are stored", async () => {
    const { clock, counts, events, enqueue, get } = await setup(open());
    counts.commits = 0;
    const items = Array.from({ length: 100 }, (_, at) =>
      enqueue(at === 37 ? { deadlineAt: BAD_AT } : {}),
    );
    await clock.advance(100);
    const results = await Promise.all(items.map(({ created }) => created));
    expect(results.filter((kind) => kind === "created")).toHaveLength(99);
    expect(results[37]).toBe("STORE_REFUSED");
    expect(await get(items[37]?.task.taskId ?? "")).toBeNull();
    const refused = events.filter(({ type }) => type === "store.refused");
    expect(refused.map(({ taskId }) => taskId)).toEqual([items[37]?.task.taskId]);
    // 1 refused commit, then two halves at each of 7 levels.
    expect(counts.failed).toBeLessThanOrEqual(8);
    expect(events.some(({ type }) => type === "store.failed")).toBe(false);
  });

  it("a settle that the store refuses is stored with less content, and blocks no other", async () => {
    const { clock, counts, events, enqueue, get, durations } = await setup(open());
    const items = Array.from({ length: 20 }, () => enqueue());
    const bad = items[7]?.task.taskId ?? "";
    durations.set(bad, BAD_MS);
    await clock.advance(1000);
    for (const { task } of items) {
      expect(await get(task.taskId)).toMatchObject({ status: "SUCCEEDED", attemptNumber: 1 });
    }
    expect((await get(bad))?.lastError).toContain("refused");
    expect(events.filter(({ type }) => type === "store.refused")).toHaveLength(1);
    const { commits } = counts;
    await clock.advance(60_000);
    expect(counts.commits - commits).toBeLessThan(5);
  });

  it("settles that are all refused are stored with less content, although no good one is among them", async () => {
    const { clock, enqueue, get, durations } = await setup(open());
    const items = Array.from({ length: 3 }, () => enqueue());
    for (const { task } of items) durations.set(task.taskId, BAD_MS);
    await clock.advance(5000);
    for (const { task } of items) {
      expect(await get(task.taskId)).toMatchObject({ status: "SUCCEEDED", attemptNumber: 1 });
    }
  });
});

describe("a settle whose every form is refused", () => {
  it("is given up after three tries, and its claim stays with the process", async () => {
    const inner = strictMemory();
    const isBad = ({ settles }: Batch) => settles.some(({ taskId }) => taskId === bad);
    let bad = "";
    const { clock, counts, events, enqueue, get, engine } = await setup({
      ...inner,
      commit: (batch) =>
        isBad(batch) ? Promise.reject(new StoreRefusedError("never")) : inner.commit(batch),
    });
    const items = Array.from({ length: 5 }, () => enqueue());
    bad = items[2]?.task.taskId ?? "";
    await clock.advance(1000);
    expect(events.filter(({ type }) => type === "store.refused")).toHaveLength(3);
    expect(await get(bad)).toMatchObject({ status: "IN_FLIGHT" });
    const { failed } = counts;
    await clock.advance(60_000);
    expect(counts.failed).toBe(failed);
    const { task } = enqueue({ createdAt: clock.now(), scheduledAt: clock.now() });
    await clock.advance(1000);
    expect(await get(task.taskId)).toMatchObject({ status: "SUCCEEDED" });
    let isStopped = false;
    void engine.stop().then(() => {
      isStopped = true;
    });
    // A stop does not wait for it.
    await clock.advance(100);
    expect(isStopped).toBe(true);
  });
});

describe("a store that is full", () => {
  it("is not searched for a bad item", async () => {
    const { clock, counts, enqueue, setFault } = await setup(memoryStore());
    setFault(new StoreFullError("no space"));
    counts.commits = 0;
    const items = Array.from({ length: 50 }, () => enqueue());
    await clock.advance(40);
    expect(counts.commits).toBe(1);
    expect(await Promise.all(items.map(({ created }) => created))).toEqual(
      items.map(() => "STORE_FULL"),
    );
  });
});
