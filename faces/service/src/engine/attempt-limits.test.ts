/** Tests of the limits on running attempts, per node and per origin. */
import { describe, expect, it, vi } from "vitest";
import { notStarted } from "../deliver/attempt.ts";
import { batch, create, pinnedTask, T0, TENANT } from "../stores/store.testing.ts";
import { OK, type Sent, setup } from "./engine.testing.ts";
import type { EngineOptions } from "./engine.ts";
import type { EngineEvent } from "./events.ts";

const PATIENT = { totalBudgetMs: 86_400_000, jitterType: "NONE" } as const;
const LIMITS = { attemptsAtOnce: 30, attemptsPerOrigin: 10 };

async function limited(options: Partial<EngineOptions> = LIMITS, policy: object = PATIENT) {
  const world = await setup(policy, T0, options);
  const addTenant = (tenantId: string) =>
    world.store.addPolicy({
      tenantId,
      policyId: "background",
      version: 1,
      createdAt: T0,
      document: JSON.stringify(policy),
    });
  let ended = 0;
  const running = () => world.sent.slice(ended);
  /** Ends up to `count` of the running attempts, the oldest first. */
  const end = async (count: number) => {
    for (const one of running().slice(0, count)) {
      ended++;
      one.finish(OK);
    }
    await world.clock.advance(1);
  };
  /** Ends all attempts after the first `skipped`, in groups. Returns the most that ran at once. */
  const endAll = async (skipped = ended) => {
    ended = skipped;
    let most = 0;
    for (let rounds = 0; running().length > 0 && rounds < 20_000; rounds++) {
      most = Math.max(most, running().length);
      await end(7);
    }
    return most;
  };
  return { ...world, addTenant, running, end, endAll };
}

const names = (sent: readonly Sent[]) => sent.map(({ task }) => task.destination);

describe("attempts to one origin", () => {
  it("are limited, whatever the names of their destinations and the paths of their URLs", async () => {
    const { clock, store, enqueue, endAll } = await limited();
    for (let n = 0; n < 400; n++) {
      enqueue({ destination: `d${n % 100}`, targetUrl: `https://EXAMPLE.com:443/path/${n}?a` });
    }
    await clock.advance(1);
    expect(await endAll()).toBe(10);
    const tasks = store.all();
    expect(tasks).toHaveLength(400);
    expect(tasks.every((task) => task.status === "SUCCEEDED" && task.attemptNumber === 1)).toBe(
      true,
    );
  });

  it("do not limit attempts to another origin", async () => {
    const { clock, enqueue, running } = await limited();
    for (let n = 0; n < 15; n++)
      enqueue({ targetUrl: "https://full.example.com/", destination: `a${n}` });
    for (let n = 0; n < 15; n++)
      enqueue({ targetUrl: "https://example.com:8443/", destination: `b${n}` });
    await clock.advance(1);
    const count = (letter: string) => names(running()).filter((name) => name[0] === letter).length;
    expect([count("a"), count("b")]).toEqual([10, 10]);
  });

  it("are sent as slots become free, and tenants, then destinations take turns", async () => {
    const { clock, addTenant, enqueue, running, end, sent } = await limited();
    await addTenant("other");
    for (let n = 0; n < 10; n++) enqueue({ destination: "busy" });
    await clock.advance(1);
    expect(running()).toHaveLength(10);
    for (let n = 0; n < 20; n++) enqueue({ destination: `a${n % 2}`, scheduledAt: T0 });
    for (let n = 0; n < 3; n++) enqueue({ tenantId: "other", destination: "b", scheduledAt: T0 });
    await clock.advance(1);
    expect(running()).toHaveLength(10);
    for (let n = 0; n < 12; n++) await end(1);
    const order = names(sent.slice(10));
    // The other tenant gets its part first. The destinations of the first one take turns.
    expect(order.slice(0, 4).filter((name) => name === "b").length).toBeGreaterThanOrEqual(2);
    const own = order.filter((name) => name !== "b");
    expect(own.length).toBeGreaterThanOrEqual(4);
    expect(own.every((name, index) => name !== own[index - 1])).toBe(true);
  });

  it("cost a bounded amount of work while ten thousand lanes wait for a slot", async () => {
    const { clock, engine, enqueue, end, running } = await limited();
    for (let n = 0; n < 10_000; n++) enqueue({ destination: `d${n}` });
    await clock.advance(1);
    await end(10);
    const visits = vi.spyOn(engine.attemptSlots, "roomFor");
    for (let n = 0; n < 50; n++) await end(2);
    expect(running()).toHaveLength(10);
    expect(visits.mock.calls.length).toBeLessThanOrEqual(300);
  });

  it("are not claimed and returned again and again while no slot is free", async () => {
    const { clock, engine, store, boot, end, running, sent } = await limited();
    await Promise.all([engine.stop(0), clock.advance(1)]);
    // A node that starts on a store does not know the origins of the lanes.
    const creates = Array.from({ length: 200 }, (_, n) =>
      create(pinnedTask({ destination: `d${n % 50}`, scheduledAt: T0, createdAt: T0 })),
    );
    await store.commit(batch({ now: T0, creates }));
    const commits = vi.spyOn(store, "commit");
    await boot("node-2");
    await clock.advance(60_000);
    expect(running()).toHaveLength(10);
    const claimed = () => commits.mock.calls.flatMap(([{ claims }]) => claims).length;
    const returned = () =>
      commits.mock.calls.flatMap(([{ settles }]) => settles).filter((one) => one.attempt === null);
    expect(claimed()).toBeLessThanOrEqual(60);
    expect(returned().length).toBeLessThanOrEqual(50);
    while (running().length > 0) await end(3);
    expect(sent).toHaveLength(200);
    expect(returned().length).toBeLessThanOrEqual(100);
    expect(store.all().every(({ attemptNumber }) => attemptNumber === 1)).toBe(true);
  });

  it("of a destination with several origins wait only while the origin of the next task is full", async () => {
    const { clock, enqueue, endAll, store } = await limited();
    for (let n = 0; n < 300; n++) {
      enqueue({ destination: `d${n % 5}`, targetUrl: `https://host${(n * 7) % 11}.example.com/` });
    }
    await clock.advance(1);
    expect(await endAll()).toBeLessThanOrEqual(30);
    expect(store.all().every(({ status }) => status === "SUCCEEDED")).toBe(true);
  });
});

describe("attempts of a node", () => {
  it("are limited, whatever their origins", async () => {
    const { clock, store, enqueue, endAll } = await limited();
    for (let n = 0; n < 300; n++) {
      enqueue({ destination: `d${n}`, targetUrl: `https://host${n}.example.com/` });
    }
    await clock.advance(1);
    expect(await endAll()).toBe(30);
    expect(store.all().every(({ status }) => status === "SUCCEEDED")).toBe(true);
  });

  it("leave slots for other tenants once the node has several", async () => {
    const { clock, addTenant, enqueue, running, end } = await limited();
    await addTenant("other");
    enqueue({ tenantId: "other", destination: "b", targetUrl: "https://b.example.com/" });
    await clock.advance(1);
    await end(1);
    for (let n = 0; n < 300; n++) {
      enqueue({ destination: `d${n}`, targetUrl: `https://host${n}.example.com/` });
    }
    await clock.advance(1);
    const busy = running().length;
    expect(busy).toBeGreaterThanOrEqual(24);
    expect(busy).toBeLessThan(30);
    enqueue({ tenantId: "other", destination: "b", targetUrl: "https://b.example.com/" });
    await clock.advance(1);
    expect(names(running()).at(-1)).toBe("b");
  });

  it("do not let the node run in circles while it is full", async () => {
    const { clock, store, enqueue } = await limited();
    for (let n = 0; n < 300; n++) {
      enqueue({ destination: `d${n}`, targetUrl: `https://host${n}.example.com/` });
    }
    await clock.advance(10);
    const commits = vi.spyOn(store, "commit");
    await clock.advance(60_000);
    const withTasks = commits.mock.calls.filter(
      ([{ claims, settles }]) => claims.length + settles.length,
    );
    expect(withTasks).toHaveLength(0);
  });
});

describe("a task that waits for a slot", () => {
  it.each([
    ["of its origin", "https://full.example.com/"],
    ["of the node", undefined],
  ])("%s uses no attempt, and ends as held when its time is over", async (_, url) => {
    const limits = url === undefined ? { attemptsAtOnce: 10 } : { attemptsPerOrigin: 10 };
    const world = await limited(limits, { totalBudgetMs: 5000, jitterType: "NONE" });
    const { clock, enqueue, running, end, store } = world;
    const targetUrl = (n: number) => url ?? `https://host${n}.example.com/`;
    for (let n = 0; n < 10; n++) enqueue({ destination: `d${n}`, targetUrl: targetUrl(n) });
    await clock.advance(10);
    const { task } = enqueue({ destination: "waiting", targetUrl: targetUrl(10) });
    await clock.advance(6000);
    expect(running()).toHaveLength(10);
    await end(1);
    await clock.advance(10);
    const ended = await store.query.get(TENANT, task.taskId);
    expect(ended).toMatchObject({ status: "EXHAUSTED", reason: "held", attemptNumber: 0 });
    expect(ended?.lastError).toMatch(/concurrency/);
  });
});

describe("a shortage of the node itself", () => {
  const lacking = (shortage: "node" | "origin") => ({
    ...notStarted(
      { kind: "error", errorClass: "connect", sent: false },
      {
        errorClass: "connect",
        errorMessage: "no connection to the target (EMFILE)",
        shortage,
      },
    ),
  });

  it.each(["node", "origin"] as const)(
    "uses no attempt, holds new attempts for a moment, and feeds no guard (%s)",
    async (scope) => {
      const { clock, engine, store, enqueue, running, sent, endAll } = await limited();
      const events: EngineEvent[] = [];
      engine.events.listen((event) => events.push(event));
      for (let n = 0; n < 20; n++) enqueue({ destination: `d${n}` });
      await clock.advance(1);
      const first = running();
      for (const one of first) one.end(lacking(scope));
      await clock.advance(50);
      expect(sent).toHaveLength(10);
      const shortages = events.filter(({ type }) => type === "node.shortage");
      expect(shortages).toMatchObject([{ reason: "no connection to the target (EMFILE)" }]);
      const tasks = store.all();
      expect(tasks.every((task) => task.status === "PENDING" && task.attemptNumber === 0)).toBe(
        true,
      );
      // The guards of destinations with and without a shortage are equal.
      const guards = new Set([...engine.destinations.values()].map((one) => one.savedGuards()));
      expect(guards.size).toBe(1);
      await clock.advance(60);
      expect(sent.length).toBeGreaterThan(10);
      await endAll(10);
      expect(store.all().every((task) => task.status === "SUCCEEDED")).toBe(true);
      expect(store.all().every((task) => task.attemptNumber === 1)).toBe(true);
    },
  );

  it("holds longer each time, and makes the node run fewer attempts at once", async () => {
    const { clock, enqueue, sent } = await limited({ attemptsAtOnce: 30, attemptsPerOrigin: 30 });
    for (let n = 0; n < 30; n++) enqueue({ destination: `d${n}` });
    await clock.advance(1);
    const starts: number[] = [];
    for (let round = 0; round < 8; round++) {
      const last = sent.splice(0);
      starts.push(last.length);
      for (const one of last) one.end(lacking("node"));
      await clock.advance(Math.min(5000, 100 * 2 ** round) - 1);
      expect(sent).toHaveLength(0);
      await clock.advance(2);
      expect(sent.length).toBeGreaterThan(0);
    }
    expect(starts).toEqual([30, 22, 16, 12, 9, 6, 4, 3]);
  });

  it("counts as a failure of the target if ports lack for one origin again and again", async () => {
    const { clock, store, enqueue, sent } = await limited();
    const { task } = enqueue();
    for (let tries = 0; tries <= 10; tries++) {
      await clock.advance(5001);
      expect(sent).toHaveLength(tries + 1);
      sent.at(-1)?.end(lacking("origin"));
    }
    await clock.advance(1);
    expect(await store.query.get(TENANT, task.taskId)).toMatchObject({
      attemptNumber: 1,
      lastError: expect.stringContaining("no connection"),
    });
  });
});
