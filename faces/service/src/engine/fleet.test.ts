/** Tests of several nodes on one store: they share work, limits and what they have seen. */
import { statusOutcome } from "@redrive/core";
import { describe, expect, it } from "vitest";
import type { NodeReport } from "../model/node-report.ts";
import type { Store } from "../model/store.ts";
import { wrapped } from "../model/wrapped.testing.ts";
import { batch, DESTINATION, TENANT } from "../stores/store.testing.ts";
import type { Engine } from "./engine.ts";
import { fleet } from "./fleet.testing.ts";

const FAILED = statusOutcome(503);

const unlimited = { retryBudget: false, breaker: false } as const;

describe("the work of a fleet", () => {
  it("is sent by the node that leases the partition, within a second, whichever node stores it", async () => {
    const { clock, engines, enqueue, sent } = await fleet(["node-1", "node-2", "node-3"]);
    const [first] = engines;
    for (let n = 0; n < 60; n++) {
      const scheduledAt = clock.now() + 100;
      await enqueue(first as Engine, { idempotencyKey: `key-${n}`, scheduledAt });
    }
    await clock.advance(1000);
    expect(new Set(sent.map(({ taskId }) => taskId)).size).toBe(60);
    expect(sent).toHaveLength(60);
    const nodes = new Set(sent.map(({ nodeId }) => nodeId));
    expect([...nodes].sort()).toEqual(["node-1", "node-2", "node-3"]);
  });

  it("of tasks without a key stays at the node that stores them", async () => {
    const { clock, engines, enqueue, sent } = await fleet(["node-1", "node-2"]);
    for (let n = 0; n < 20; n++) await enqueue(engines[1] as Engine);
    await clock.advance(100);
    expect(sent).toHaveLength(20);
    expect(new Set(sent.map(({ nodeId }) => nodeId))).toEqual(new Set(["node-2"]));
  });

  it("moves to the others at once when a node leaves", async () => {
    const { clock, engines, enqueue, sent } = await fleet(["node-1", "node-2", "node-3"]);
    const [, second] = engines as [Engine, Engine];
    const scheduledAt = clock.now() + 5000;
    for (let n = 0; n < 10; n++) await enqueue(second, { scheduledAt });
    await clock.run(second.stop(0));
    await clock.advance(scheduledAt + 100 - clock.now());
    expect(sent).toHaveLength(10);
    expect(sent.every(({ nodeId, at }) => nodeId !== "node-2" && at >= scheduledAt)).toBe(true);
  });

  it("moves to the others within 15 seconds when a node dies", async () => {
    const { clock, engines, enqueue, sent, kill } = await fleet(["node-1", "node-2"]);
    const [, second] = engines as [Engine, Engine];
    for (let n = 0; n < 10; n++) await enqueue(second, { scheduledAt: clock.now() + 1000 });
    kill("node-2");
    await clock.advance(15_000);
    expect(sent.map(({ nodeId }) => nodeId)).toEqual(Array.from({ length: 10 }, () => "node-1"));
  });

  it("moves to a node that joins, and nothing waits for longer than a second", async () => {
    const { clock, engines, boot, enqueue, sent } = await fleet(["node-1"]);
    const [first] = engines as [Engine];
    const dueAts = new Map<string, number>();
    const create = async (n: number) => {
      const scheduledAt = clock.now() + 50;
      dueAts.set(await enqueue(first, { idempotencyKey: `key-${n}`, scheduledAt }), scheduledAt);
    };
    for (let n = 0; n < 100; n++) await create(n);
    await boot("node-2");
    for (let n = 100; n < 400; n++) {
      await create(n);
      await clock.advance(10);
    }
    await clock.advance(2000);
    expect(sent).toHaveLength(400);
    const lateMs = sent.map(({ taskId, at }) => at - (dueAts.get(taskId) ?? 0));
    expect(Math.max(...lateMs)).toBeLessThan(1000);
    expect(sent.some(({ nodeId }) => nodeId === "node-2")).toBe(true);
  });
});

describe("the limits of a destination", () => {
  const names = ["node-1", "node-2", "node-3"];

  it("on attempts at once hold for all nodes together", async () => {
    const document = { ...unlimited, concurrency: { algorithm: "FIXED", max: 4 } };
    const { clock, engines, enqueue, sent, maxInFlight } = await fleet(names, { document });
    for (let n = 0; n < 20; n++) for (const engine of engines) await enqueue(engine);
    await clock.advance(30_000);
    expect(sent).toHaveLength(60);
    expect(maxInFlight()).toBe(4);
  });

  it("on the rate hold for all nodes together, and none is wasted", async () => {
    const document = { ...unlimited, rate: { perSecond: 10, burst: 2 } };
    const { clock, engines, enqueue, sent } = await fleet(names, { document });
    for (let n = 0; n < 50; n++) for (const engine of engines) await enqueue(engine);
    const startAt = clock.now();
    await clock.advance(8000);
    const during = sent.filter(({ at }) => at >= startAt && at < startAt + 5000).length;
    expect(during).toBeLessThanOrEqual(10 * 5 + 2 + 1);
    expect(during).toBeGreaterThanOrEqual(40);
  });

  it("of a document that a node has just learned are shared from the first attempt", async () => {
    const { clock, engines, enqueue, putDocument, maxInFlight, sent } = await fleet(names, {
      document: { ...unlimited, concurrency: { algorithm: "FIXED", max: 2 } },
      durationMs: 500,
    });
    await putDocument({ ...unlimited, concurrency: { algorithm: "FIXED", max: 1 } });
    for (let n = 0; n < 4; n++) for (const engine of engines) await enqueue(engine);
    await clock.advance(60_000);
    expect(sent).toHaveLength(12);
    expect(maxInFlight()).toBe(1);
  });

  it("are not exceeded by a node that gives its share back while the store is slow", async () => {
    const document = { ...unlimited, concurrency: { algorithm: "FIXED", max: 1 } };
    const bench = await fleet(["node-1"], { document, durationMs: 300 });
    const { clock, engines, boot, enqueue, maxInFlight, sent, storeOf } = bench;
    const inner = storeOf("node-2");
    // Its responses take longer than the interval of the exchanges.
    const renew = async (report: NodeReport) => {
      const renewal = await inner.renew(report);
      await clock.sleep(1700);
      return renewal;
    };
    const slow = await boot("node-2", wrapped<Store>(inner, { renew }));
    await clock.advance(5000);
    for (let n = 0; n < 20; n++) {
      await enqueue(engines[0] as Engine);
      await enqueue(slow);
    }
    await clock.advance(60_000);
    expect(sent).toHaveLength(40);
    expect(maxInFlight()).toBe(1);
  });

  it("of a new document are not exceeded by shares of the old one that arrive late", async () => {
    const limit = (max: number) => ({ ...unlimited, concurrency: { algorithm: "FIXED", max } });
    const bench = await fleet([], { document: limit(16), durationMs: 3000 });
    const { clock, boot, enqueue, putDocument, sent, storeOf } = bench;
    let isHeld = false;
    /** While `isHeld`, the store renews, and its responses are on the way. */
    const bootHeld = (nodeId: string) => {
      const inner = storeOf(nodeId);
      const renew = async (report: NodeReport) => {
        const renewal = await inner.renew(report);
        while (isHeld) await clock.sleep(10);
        return renewal;
      };
      return boot(nodeId, wrapped<Store>(inner, { renew }));
    };
    const engines = [await bootHeld("node-1"), await bootHeld("node-2")];
    await clock.advance(3000);
    for (let n = 0; n < 40; n++) for (const engine of engines) await enqueue(engine);
    await clock.advance(1500);
    isHeld = true;
    await clock.advance(1200);
    await putDocument(limit(4));
    // The attempts end, and the next claims tell both nodes about the new document.
    await clock.advance(3000);
    const before = sent.length;
    isHeld = false;
    await clock.advance(2500);
    expect(before).toBeGreaterThanOrEqual(16);
    expect(sent.length - before).toBeLessThanOrEqual(4);
  });

  it("are not exceeded when nodes join that do not know its document yet", async () => {
    const document = { ...unlimited, concurrency: { algorithm: "FIXED", max: 5 } };
    const bench = await fleet(["node-1"], { document, durationMs: 300 });
    const { clock, engines, boot, enqueue, maxInFlight, sent, storeOf } = bench;
    /** Its responses are on the way for a while, and it starts attempts meanwhile. */
    const bootSlow = (nodeId: string) => {
      const inner = storeOf(nodeId);
      const renew = async (report: NodeReport) => {
        const renewal = await inner.renew(report);
        await clock.sleep(400);
        return renewal;
      };
      return boot(nodeId, wrapped<Store>(inner, { renew }));
    };
    const nodes = [engines[0] as Engine, await bootSlow("node-2"), await bootSlow("node-3")];
    await clock.advance(3000);
    const fill = async () => {
      for (let n = 0; n < 30; n++) for (const engine of nodes) await enqueue(engine);
    };
    await fill();
    for (const nodeId of ["node-4", "node-5", "node-6"]) {
      nodes.push(await boot(nodeId));
      await fill();
    }
    await clock.advance(60_000);
    expect(sent.length).toBeGreaterThan(300);
    expect(maxInFlight()).toBe(5);
  });
});

describe("the breaker of a destination", () => {
  it("counts the calls of all nodes: five nodes with six calls each reach minCalls", async () => {
    const names = ["node-1", "node-2", "node-3", "node-4", "node-5"];
    const document = { retryBudget: false, breaker: { minCalls: 20, openMs: 60_000 } };
    const { clock, engines, enqueue, store, sent } = await fleet(names, {
      document,
      outcome: FAILED,
    });
    const options = { idempotent: false } as const;
    for (let n = 0; n < 6; n++) for (const engine of engines) await enqueue(engine, options);
    await clock.advance(3000);
    const row = await store.getDestination(TENANT, DESTINATION);
    expect(row?.breakerState).toBe("OPEN");
    const before = sent.length;
    for (const engine of engines) await enqueue(engine, options);
    await clock.advance(3000);
    expect(sent).toHaveLength(before);
  });
});

describe("a node that renews its lease but cannot commit", () => {
  /** Its commits hang like those of a node whose connections to one server of several are cut. */
  async function failingNode() {
    const bench = await fleet(["node-1"]);
    const { clock, storeOf, boot, engines } = bench;
    const inner = storeOf("node-2");
    const state = { isFailing: false };
    const commit: Store["commit"] = (batch) =>
      state.isFailing ? Promise.reject(new Error("no commit")) : inner.commit(batch);
    const second = await boot("node-2", wrapped<Store>(inner, { commit }));
    await clock.advance(2000);
    return { ...bench, state, first: engines[0] as Engine, second };
  }

  it("leaves its partitions to the others within seconds, is not ready, and returns", async () => {
    const { clock, first, second, enqueue, sent, state } = await failingNode();
    state.isFailing = true;
    // Later than at once: the node that stores a task would send it itself.
    const soon = () => ({ scheduledAt: clock.now() + 100 });
    for (let n = 0; n < 60; n++) await enqueue(first, { idempotencyKey: `key-${n}`, ...soon() });
    await clock.advance(10_000);
    expect(new Set(sent.map(({ taskId }) => taskId)).size).toBe(60);
    expect(sent.every(({ nodeId }) => nodeId === "node-1")).toBe(true);
    expect([first.canCommit(), second.canCommit()]).toEqual([true, false]);
    expect(first.nodes()).toEqual(["node-1"]);
    state.isFailing = false;
    await clock.advance(40_000);
    expect([...first.nodes()].sort()).toEqual(["node-1", "node-2"]);
    for (let n = 60; n < 120; n++) await enqueue(first, { idempotencyKey: `key-${n}`, ...soon() });
    await clock.advance(2000);
    expect(sent).toHaveLength(120);
    expect(new Set(sent.slice(60).map(({ nodeId }) => nodeId)).size).toBe(2);
    expect(second.canCommit()).toBe(true);
  });

  it("never holds a task for longer than some seconds while it tries again", async () => {
    const { clock, first, enqueue, sent, state } = await failingNode();
    state.isFailing = true;
    const started = clock.now();
    let created = 0;
    for (; clock.now() < started + 180_000; created++) {
      const scheduledAt = clock.now() + 100;
      await enqueue(first, { idempotencyKey: `key-${created}`, scheduledAt });
      await clock.advance(500);
    }
    await clock.advance(12_000);
    const ids = new Set(sent.map(({ taskId }) => taskId));
    expect(ids.size).toBe(created);
    const times = sent.map(({ at }) => at).toSorted((a, b) => a - b);
    const gaps = times.slice(1).map((at, index) => at - (times[index] ?? at));
    expect(Math.max(...gaps)).toBeLessThan(10_000);
  });

  it("keeps its partitions if all nodes fail, and sends what waits once they recover", async () => {
    const state = { isFailing: false };
    const bench = await fleet([]);
    const { clock, storeOf, boot, enqueue, store, sent } = bench;
    const open = (nodeId: string) => {
      const inner = storeOf(nodeId);
      const commit: Store["commit"] = (batch) =>
        state.isFailing ? Promise.reject(new Error("no commit")) : inner.commit(batch);
      return boot(nodeId, wrapped<Store>(inner, { commit }));
    };
    const first = await open("node-1");
    await open("node-2");
    await clock.advance(2000);
    const scheduledAt = clock.now() + 5000;
    for (let n = 0; n < 20; n++) await enqueue(first, { idempotencyKey: `key-${n}`, scheduledAt });
    state.isFailing = true;
    await clock.advance(120_000);
    expect(sent).toEqual([]);
    state.isFailing = false;
    await clock.advance(10_000);
    expect(sent).toHaveLength(20);
    expect(await store.query.count(TENANT)).toEqual({ SUCCEEDED: 20 });
  });
});

describe("a commit that ends long after it was given up", () => {
  it("holds its claims only until the node compares them with its own, and its task is sent once", async () => {
    const { clock, engines, enqueue, store, sent, get } = await fleet(["node-1"]);
    const [engine] = engines as [Engine];
    const taskId = await enqueue(engine, { scheduledAt: clock.now() + 600_000 });
    await clock.advance(70_000);
    // The server ends a commit of this node, without a connection to tell it.
    const { nodeId } = engine;
    const all = { tenantId: TENANT, destination: DESTINATION, lane: "first" } as const;
    const partitions = Array.from({ length: store.partitions }, (_, partition) => partition);
    const limits = { limit: 9, aheadMs: 600_000, aheadLimit: 9, version: 0 };
    const claim = { ...all, ...limits, partitions };
    await store.commit(batch({ now: clock.now(), nodeId, claims: [claim] }));
    expect((await get(taskId))?.status).toBe("IN_FLIGHT");
    await clock.advance(65_000);
    expect((await get(taskId))?.status).toBe("PENDING");
    await clock.advance(600_000);
    expect(sent).toHaveLength(1);
    expect((await get(taskId))?.status).toBe("SUCCEEDED");
  });
});

describe("a destination that a node pauses while it is alone", () => {
  it("is resumed at that node by one that has joined since", async () => {
    const { clock, engines, enqueue, boot, sent } = await fleet(["node-1"]);
    const [first] = engines as [Engine];
    await clock.run(first.changeDestination(TENANT, DESTINATION, { pausedAt: clock.now() }));
    for (let n = 0; n < 20; n++) await enqueue(first, { idempotencyKey: `key-${n}` });
    await clock.advance(3000);
    expect(sent).toEqual([]);
    const second = await boot("node-2");
    await clock.run(second.changeDestination(TENANT, DESTINATION, { pausedAt: null }));
    await clock.advance(5000);
    expect(sent).toHaveLength(20);
    expect(new Set(sent.map(({ nodeId }) => nodeId)).size).toBe(2);
  });
});

describe("a node that cannot start", () => {
  it("ends, and holds no timers that send anything later", async () => {
    const { clock, storeOf, boot, enqueue, engines, sent } = await fleet(["node-1"]);
    const inner = storeOf("node-2");
    const lapsed = () => Promise.reject(new Error("the store has failed"));
    await expect(boot("node-2", wrapped<Store>(inner, { lapsed }))).rejects.toThrow("has failed");
    await enqueue(engines[0] as Engine);
    await clock.advance(30_000);
    expect(sent.map(({ nodeId }) => nodeId)).toEqual(["node-1"]);
  });
});
