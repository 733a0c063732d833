/** Tests of which destinations a node keeps, and of changes to their rows. */
import { resolveDestination, seededRandom, statusOutcome, virtualClock } from "@redrive/core";
import { expect, it } from "vitest";
import { notStarted } from "../deliver/attempt.ts";
import { EMPTY_BATCH } from "../model/batch.ts";
import { blankDestination } from "../model/destination-row.ts";
import { GUARD_DOCUMENT } from "../model/document-table.ts";
import type { Store } from "../model/store.ts";
import type { NewTask } from "../model/task.ts";
import { type MemoryStore, memoryStore } from "../stores/memory/memory-store.ts";
import { documentsOf, pinnedTask, T0, TENANT } from "../stores/store.testing.ts";
import { EngineTime } from "../time/engine-time.ts";
import { Destinations, IDLE_MS } from "./destination-runtime.ts";
import { Engine } from "./engine.ts";
import { Scheduler } from "./scheduler.ts";

const MINUTE_MS = 60_000;

/** An engine whose attempts end with the status in the path of their target. */
async function setup(store: MemoryStore = memoryStore()) {
  const clock = virtualClock(T0);
  const policy = { tenantId: TENANT, policyId: "background", version: 1, createdAt: T0 };
  const document = { maxAttempts: 1000, totalBudgetMs: 86_400_000, initialDelayMs: 1000 };
  await store.addPolicy({ ...policy, document: JSON.stringify(document) });
  const engine = await Engine.open({
    clock,
    random: seededRandom("destinations"),
    store,
    nodeId: "node-1",
    deliver: ({ targetUrl }, _, done) => {
      const outcome = statusOutcome(Number(targetUrl.split("/").at(-1)));
      clock.alarm(10, () => done({ ...notStarted(outcome, null), durationMs: 10 }));
    },
  });
  await engine.start();
  const send = (destination: string, status: number, fields: Partial<NewTask> = {}) => {
    const times = { createdAt: clock.now(), scheduledAt: clock.now() };
    const task = { ...times, destination, targetUrl: `https://example.com/${status}`, ...fields };
    const nothing = () => {};
    engine.create(pinnedTask(task), null, nothing, nothing);
  };
  return { clock, store, engine, send };
}

it("drops idle destinations, and creates them again on use", async () => {
  const { clock, store, engine, send } = await setup();
  for (let n = 0; n < 1000; n++) send(`https://${n}.example.com`, 200);
  await clock.advance(9 * MINUTE_MS);
  expect(engine.destinations.size).toBe(1000);
  const before = engine.destination(TENANT, "https://7.example.com");
  await clock.advance(3 * MINUTE_MS);
  expect(engine.destinations.size).toBe(0);
  // A new one behaves the same, so the saved guard state is removed too.
  await clock.advance(MINUTE_MS);
  expect(await documentsOf(store, GUARD_DOCUMENT)).toEqual([]);
  send("https://7.example.com", 200);
  await clock.advance(1000);
  expect(engine.destination(TENANT, "https://7.example.com")).not.toBe(before);
  expect(await store.query.count(TENANT)).toEqual({ SUCCEEDED: 1001 });
});

it("keeps destinations that have state or waiting tasks", async () => {
  const { clock, engine, send } = await setup();
  await engine.changeDestination(TENANT, "paused", { pausedAt: T0 });
  await engine.changeDestination(TENANT, "configured", { document: "{}" });
  send("retried", 500);
  for (let n = 0; n < 40; n++) send("overloaded", n < 20 ? 200 : 503);
  await clock.advance(5000);
  const names = ["paused", "configured", "retried", "overloaded"];
  const before = names.map((name) => engine.destination(TENANT, name));
  await clock.advance(15 * MINUTE_MS);
  expect(names.map((name) => engine.destination(TENANT, name))).toEqual(before);
  expect(names.every((name, at) => engine.destination(TENANT, name) === before[at])).toBe(true);
});

it("drops a destination whose tasks are due after the horizon, and sends them on time", async () => {
  const { clock, store, engine, send } = await setup();
  const scheduledAts = [11, 16, 60, 60].map((minutes) => T0 + minutes * MINUTE_MS + 7);
  for (const [n, scheduledAt] of scheduledAts.entries()) send(`later-${n}`, 200, { scheduledAt });
  send("now", 200);
  await clock.advance(1000);
  expect(engine.destination(TENANT, "now").lanes.first.dueAt).toBe(Number.POSITIVE_INFINITY);
  await clock.advance(40 * MINUTE_MS);
  expect(engine.destinations.size).toBe(0);
  await clock.advance(21 * MINUTE_MS);
  expect(await store.query.count(TENANT)).toEqual({ SUCCEEDED: 5 });
  for (const { taskId, scheduledAt } of store.all()) {
    const { attempts } = await store.query.attempts(TENANT, taskId, { limit: 9 });
    expect(attempts.map(({ startedAt }) => startedAt)).toEqual([scheduledAt]);
  }
});

it("keeps a destination whose task is being stored", async () => {
  const { clock, store, engine, send } = await setup();
  const { commit } = store;
  const before = engine.destination(TENANT, "slow");
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  Object.assign(store, { commit: (batch: never) => held.then(() => commit(batch)) });
  send("slow", 200);
  await clock.advance(30 * MINUTE_MS);
  expect(engine.destination(TENANT, "slow")).toBe(before);
  release();
  await clock.advance(1000);
  expect(engine.destination(TENANT, "slow")).toBe(before);
});

/** Destinations that no engine uses. */
function withoutEngine() {
  const clock = virtualClock(T0);
  const time = new EngineTime(clock, 0);
  return { clock, destinations: new Destinations(time, seededRandom("destinations")) };
}

it("are another one for each tenant", () => {
  const { destinations } = withoutEngine();
  const [one, two] = ["one", "two"].map((tenant) => destinations.getOrCreate(tenant, "d", null));
  expect([one?.tenantId, two?.tenantId]).toEqual(["one", "two"]);
  expect(destinations.getOrCreate("one", "d", null)).toBe(one);
});

it.each(["first", "retry", "suspect"] as const)(
  "are kept while a task in their %s lane waits for a slot, however long",
  async (lane) => {
    const { clock, destinations } = withoutEngine();
    const [waiting] = ["waiting", "idle"].map((name) =>
      destinations.getOrCreate(TENANT, name, null),
    );
    new Scheduler({ perNode: 1, perOrigin: 1 }).expectDueAt(waiting!.lanes[lane], clock.now());
    await clock.advance(IDLE_MS + MINUTE_MS);
    const dropped = [destinations.dropIdle(), destinations.dropIdle()].flat();
    expect(dropped.map(({ name }) => name)).toEqual(["idle"]);
  },
);

it("examines at most a thousand destinations per check, and all of them in several", async () => {
  const { clock, destinations } = withoutEngine();
  for (let n = 0; n < 2500; n++) destinations.getOrCreate(TENANT, `d${n}`, null);
  await clock.advance(IDLE_MS + MINUTE_MS);
  // The first check only begins a round.
  const dropped = Array.from({ length: 4 }, () => destinations.dropIdle().length);
  expect(dropped).toEqual([0, 1000, 1000, 500]);
  expect(destinations.size).toBe(0);
});

it("waits longer than every window of the default guards", () => {
  const { breaker, retryBudget, retryAfterGate } = resolveDestination({}, "service");
  if (retryAfterGate === undefined) throw new Error("the service has no gate by default");
  const windows = [breaker, retryBudget].map((part) => (part as { windowMs: number }).windowMs);
  expect(Math.max(retryAfterGate.maxGateMs, ...windows)).toBeLessThan(IDLE_MS);
});

/** Another node writes the row of the destination just before each of the first `times` changes. */
function contended(times: number) {
  const store = memoryStore();
  const { commit } = store;
  let left = times;
  const interfering: Store["commit"] = async (batch) => {
    const [write] = batch.destinations;
    if (write !== undefined && left > 0) {
      left--;
      const { tenantId, name, version } = write.row;
      const stored = await store.getDestination(tenantId, name);
      const base = stored ?? blankDestination(tenantId, name);
      const row = { ...base, gateUntil: base.gateUntil + 1, version };
      await commit({ now: T0, nodeId: "node-2", ...EMPTY_BATCH, destinations: [{ row }] });
    }
    return commit(batch);
  };
  return { store: { ...store, commit: interfering }, interfered: () => times - left };
}

it("gives up a change, without an effect, when another node writes the row each time", async () => {
  const { store, interfered } = contended(1000);
  const { engine } = await setup(store);
  const change = engine.changeDestination(TENANT, "contended", { pausedAt: T0 });
  await expect(change).rejects.toMatchObject({ code: "DESTINATION_BUSY" });
  expect(interfered()).toBe(10);
  expect(await store.getDestination(TENANT, "contended")).toMatchObject({ pausedAt: null });
});

it("applies a change on top of the writes of another node", async () => {
  const { store } = contended(9);
  const { engine } = await setup(store);
  await engine.changeDestination(TENANT, "contended", { pausedAt: T0 });
  const row = { pausedAt: T0, gateUntil: 9, version: 10 };
  expect(await store.getDestination(TENANT, "contended")).toMatchObject(row);
});
