/** A pause, a Retry-After and an open circuit hold all nodes, measured at the target. */
// needs: postgres, redis, build
import { expect, it } from "vitest";
import { describeSharedFleet, type Fleet, type Node, until } from "./fleet.ts";
import { allEnded, createTasks, expectBounded, noGuards } from "./load.ts";
import type { WireLog } from "./wire-log.ts";

const SLOTS = 5;
const TASKS = 200;
/** How long a request that was claimed before the hold may be on its way, on a busy machine. */
const ON_THE_WAY_MS = 500;
const BUSY_TIMEOUT_MS = 30_000;
const RETRY_AFTER_S = 3;
const OPEN_MS = 3000;

const fewSlots = { ...noGuards, concurrency: { algorithm: "FIXED", max: SLOTS } } as const;

describeSharedFleet("a hold of a destination", (open) => {
  it("a pause through one node stops all nodes", async () => {
    const fleet = await open(() => ({ status: 200, afterMs: 50 }));
    const { target } = fleet;
    const [first, second, third] = fleet.nodes as [Node, Node, Node];
    await first.client.configure(target.origin, fewSlots);
    const taskIds = await createTasks(fleet, TASKS);
    await until("the fleet is busy", BUSY_TIMEOUT_MS, () => target.requests.length >= 40);
    await second.client.pause(target.origin);
    const pausedAt = Date.now();
    await fleetIsAlive(fleet, 2000);
    // These were claimed before the pause was stored, and were on the way.
    expect(ordersAfter(target, pausedAt).length).toBeLessThanOrEqual(SLOTS);
    expect(ordersAfter(target, pausedAt + ON_THE_WAY_MS)).toEqual([]);
    await third.client.resume(target.origin);
    await allEnded(first, taskIds);
    expectBounded(target, taskIds);
  });

  it("a Retry-After holds all nodes", async () => {
    let askedAt = 0;
    let received = 0;
    const fleet = await open(() => {
      if (++received !== 40) return { status: 200, afterMs: 20 };
      askedAt = Date.now();
      return { status: 429, headers: { "retry-after": String(RETRY_AFTER_S) } };
    });
    const { target } = fleet;
    const [first] = fleet.nodes as [Node];
    await first.client.configure(target.origin, fewSlots);
    const taskIds = await createTasks(fleet, TASKS);
    await allEnded(first, taskIds);
    expectBounded(target, taskIds);
    const untilAt = askedAt + RETRY_AFTER_S * 1000;
    const early = ordersAfter(target, askedAt + ON_THE_WAY_MS).filter(({ at }) => at < untilAt);
    expect(early).toEqual([]);
    expect(ordersAfter(target, untilAt).length).toBeGreaterThan(TASKS / 4);
  });

  it("an open circuit stops all nodes", async () => {
    let isDown = false;
    const fleet = await open(({ path }) => ({
      status: isDown && path === "/orders" ? 500 : 200,
      afterMs: 20,
    }));
    const { target } = fleet;
    const [first] = fleet.nodes as [Node];
    const breaker = { failureRate: 0.5, minCalls: 20, windowMs: 10_000, openMs: OPEN_MS };
    await first.client.configure(target.origin, { ...fewSlots, breaker });
    const taskIds = await createTasks(fleet, 2 * TASKS);
    await until("the fleet is busy", BUSY_TIMEOUT_MS, () => target.requests.length >= 10);
    isDown = true;
    const path = `/destinations/${encodeURIComponent(target.origin)}`;
    await until("the circuit is open", BUSY_TIMEOUT_MS, async () =>
      JSON.stringify(await first.client.get(path)).includes('"OPEN"'),
    );
    const openedAt = Date.now();
    isDown = false;
    await fleetIsAlive(fleet, OPEN_MS / 3);
    expect(ordersAfter(target, openedAt).length).toBeLessThanOrEqual(SLOTS);
    await allEnded(first, taskIds);
    expectBounded(target, taskIds);
  });
});

/** Tasks of other destinations, one through each node, arrive `ms` from now: the fleet is alive. */
async function fleetIsAlive({ nodes, target }: Fleet, ms: number): Promise<void> {
  const scheduledAt = Date.now() + ms;
  const path = `/alive-${scheduledAt}`;
  const tasks = nodes.map(({ client }, n) =>
    client.create({ targetUrl: `${target.origin}${path}`, destination: `alive-${n}`, scheduledAt }),
  );
  await Promise.all(tasks);
  const arrived = () => target.requests.filter((request) => request.path === path).length;
  await until("other destinations are served", BUSY_TIMEOUT_MS, () => arrived() === nodes.length);
}

function ordersAfter(target: WireLog, at: number) {
  return target.arrivedAfter(at).filter(({ path }) => path === "/orders");
}
