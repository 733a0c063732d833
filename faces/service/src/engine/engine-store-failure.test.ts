/** Tests of the engine when the store fails while it runs or stops, and when listeners throw. */
import { seededRandom, virtualClock } from "@redrive/core";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { notStarted } from "../deliver/attempt.ts";
import type { CreateResult } from "../model/batch.ts";
import type { Store } from "../model/store.ts";
import { StoreBrokenError, StoreFullError } from "../model/store-errors.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { pinnedTask, T0, TENANT } from "../stores/store.testing.ts";
import { Engine } from "./engine.ts";

/** An engine whose attempts hang, on a store that a test can break. */
async function setup() {
  const clock = virtualClock(T0);
  const inner = memoryStore();
  const policy = { tenantId: TENANT, policyId: "background", version: 1, createdAt: T0 };
  await inner.addPolicy({ ...policy, document: "{}" });
  const store: Store & {
    -readonly [name in "commit" | "renew" | "retire" | "sweep"]: Store[name];
  } = {
    ...inner,
  };
  const fatal: unknown[] = [];
  const boot = async (nodeId: string) => {
    const booted = await Engine.open({
      clock,
      random: seededRandom("trouble"),
      store,
      nodeId,
      onFatal: (error) => fatal.push(error),
      // No attempt ends on its own.
      deliver: (_, { signal }, done) =>
        signal.addEventListener("abort", () => done(notStarted({ kind: "aborted" }, null))),
    });
    await booted.start();
    return booted;
  };
  const engine = await boot("node-1");
  const create = () =>
    new Promise<CreateResult>((done, failed) => {
      engine.create(pinnedTask({ createdAt: T0, scheduledAt: T0 }), null, done, failed);
    });
  return { clock, inner, store, engine, create, fatal, boot };
}

describe("an engine on a shared store", () => {
  it.each(["clock", "latestAt"])("does not open if %s never responds", async (method) => {
    const clock = virtualClock(T0);
    const store = {
      ...memoryStore({ exclusive: false, clock }),
      [method]: () => new Promise(() => {}),
    };
    const random = seededRandom("hangs");
    const opened = Engine.open({ clock, random, store, nodeId: "node-1", deliver: () => {} });
    const failure = opened.catch((error: Error) => error.message);
    await clock.advance(5000);
    expect(await failure).toBe(`the store did not respond to ${method} within 5000 ms`);
  });
});

/** The state of a promise after a few turns of the event loop; "waiting" if it is not settled. */
async function stateOf(promise: Promise<unknown>): Promise<unknown> {
  let state: unknown = "waiting";
  promise.then(
    (value) => {
      state = value;
    },
    ({ code }: { code?: string }) => {
      state = code;
    },
  );
  for (let turn = 0; turn < 10; turn++) await undefined;
  return state;
}

const silent = () => new Promise<never>(() => {});
const full = () => Promise.reject(new StoreFullError("no space"));

describe("an engine with a failing store", () => {
  it("stops within its grace period and two seconds although the store rejects every write", async () => {
    const { clock, store, engine, create } = await setup();
    await clock.run(create());
    store.commit = full;
    store.renew = full;
    store.retire = full;
    let hasStopped = false;
    const stopping = engine.stop(10_000).then(() => {
      hasStopped = true;
    });
    await clock.advance(9999);
    expect(hasStopped).toBe(false);
    await clock.advance(2001);
    expect(hasStopped).toBe(true);
    await stopping;
    expect(clock.pending()).toBe(0);
  });

  it.each([
    ["while an attempt runs", true],
    ["with nothing left to do", false],
  ])("stops and reports a failure although the store never responds %s", async (_, isBusy) => {
    const { clock, inner, store, engine, create, boot } = await setup();
    const reasons: (string | undefined)[] = [];
    engine.events.listen(({ type, reason }) => type === "store.failed" && reasons.push(reason));
    const created = isBusy ? await clock.run(create()) : undefined;
    store.commit = silent;
    store.retire = silent;
    let hasStopped = false;
    const stopping = engine.stop(10_000).then(() => {
      hasStopped = true;
    });
    await clock.advance(12_000);
    expect(hasStopped).toBe(true);
    await stopping;
    expect(reasons).toEqual([expect.stringMatching(/^STORE_UNAVAILABLE: it did not answer/u)]);
    expect(clock.pending()).toBe(0);
    if (created?.kind !== "created") return;
    // An attempt that was not settled is not lost: the next process rescues it.
    Object.assign(store, inner);
    await boot("node-2");
    await clock.advance(60_000);
    const [task] = inner.all();
    expect(task).toMatchObject({ abandonedCount: 1, status: "IN_FLIGHT", attemptNumber: 2 });
  });

  it("reports to everyone who waits for the commit that was running when the store broke", async () => {
    const { clock, store, create, fatal } = await setup();
    const { commit } = store;
    const held: (() => void)[] = [];
    store.commit = (batch) =>
      new Promise((resolve, reject) => {
        held.push(() => void commit(batch).then(resolve, reject));
      });
    const created = create();
    await clock.advance(0);
    expect(held).toHaveLength(1);
    store.renew = () => Promise.reject(new StoreBrokenError("fsync failed"));
    await clock.advance(2000);
    expect(fatal).toHaveLength(1);
    held[0]?.();
    await clock.advance(0);
    expect(await stateOf(created)).toBe("STORE_UNAVAILABLE");
  });

  it("continues when a listener throws, and reports the error on the console", async () => {
    const { clock, engine, create } = await setup();
    const report = vi.spyOn(console, "error").mockImplementation(() => {});
    onTestFinished(() => report.mockRestore());
    const heard: string[] = [];
    engine.events.listen(({ type }) => {
      if (type === "task.created") throw new Error("mine");
    });
    engine.events.listen(({ type }) => heard.push(type));
    const created = create();
    await clock.advance(0);
    expect(await stateOf(created)).toMatchObject({ kind: "created" });
    expect(heard).toContain("attempt.started");
    expect(report).toHaveBeenCalledWith("redrive:", new Error("mine"));
  });

  it("removes expired tasks at a constant pace, however many there are", async () => {
    const { clock, store } = await setup();
    let sweeps = 0;
    store.sweep = async ({ limit }) => {
      sweeps++;
      return limit;
    };
    const sweepsIn = async (ms: number) => {
      const before = sweeps;
      await clock.advance(ms);
      return sweeps - before;
    };
    await clock.advance(2000);
    const first = await sweepsIn(1000);
    expect(first).toBeGreaterThan(20);
    await clock.advance(60_000);
    expect(await sweepsIn(1000)).toBeLessThan(1.1 * first);
  });
});
