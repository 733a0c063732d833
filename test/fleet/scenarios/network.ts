/**
 * Network: the connections between nodes and their store are cut, silenced, slow, or lose responses. A
 * proxy on loopback does this, because the kernel of a test machine may lack `netem`.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { Lag, LinkState } from "../../servers/tcp-proxy.ts";
import { type Fleet, type Node, until } from "../fleet.ts";
import {
  allEnded,
  busyDestination,
  CALLERS,
  createTasks,
  expectBounded,
  expectNothingLost,
  startLoad,
} from "../load.ts";
import { arrivals, expectRefusal } from "./outage.ts";
import { expectWorking } from "./zombie.ts";

const TASKS = 300;
const BUSY_REQUESTS = 120;
const BUSY_TIMEOUT_MS = 30_000;
/** A cut every so often, while commits run all the time. */
const CUT_GAP_MS = 15;
const CUT_TIMEOUT_MS = 300_000;

/** A fifth of the packets is lost, and a round trip takes 200 ms. */
const LOSSY: Lag = { delayMs: 100, lostShare: 0.2, repeatMs: 200 };

/**
 * The last node loses the store for `ms`. It refuses tasks in time, the others end its tasks, and it
 * works again by itself.
 */
export async function cutOff(
  fleet: Fleet,
  state: Exclude<LinkState, "open">,
  ms: number,
): Promise<void> {
  const { target } = fleet;
  const [first] = fleet.nodes as [Node];
  const victim = fleet.nodes.at(-1) as Node;
  await first.client.configure(target.origin, busyDestination);
  const taskIds = await createTasks(fleet, TASKS);
  await until("the fleet is busy", BUSY_TIMEOUT_MS, () => target.requests.length >= BUSY_REQUESTS);
  const cutUntilMs = performance.now() + ms;
  victim.network.state = state;
  await expectRefusal(fleet, [victim]);
  await allEnded(first, taskIds);
  const sent = target.requests.length;
  // The length of the fault.
  await sleep(Math.max(0, cutUntilMs - performance.now()));
  victim.network.state = "open";
  await expectWorking(fleet, victim);
  expectBounded(target, taskIds);
  const late = target.requests.slice(sent).filter(({ path }) => path === "/orders");
  expect(late).toEqual([]);
  const attempts = (await first.client.attempts(taskIds)).flat();
  const abandoned = attempts.filter(({ outcome }) => outcome === "abandoned").length;
  const repeated = target.requests.filter(({ path, attempt }) => path === "/orders" && attempt > 1);
  console.log(`repeated ${repeated.length}, abandoned ${abandoned}`);
  expect(repeated.length).toBeLessThanOrEqual(abandoned);
}

/** Under load, nodes lose the responses of this many calls of the store. */
export async function cutResponses(fleet: Fleet, cuts: number): Promise<void> {
  const { nodes, target } = fleet;
  const load = await startLoad(fleet);
  await until("tasks arrive", BUSY_TIMEOUT_MS, arrivals(fleet, 30));
  const lost = () => nodes.reduce((sum, { network }) => sum + network.cuts, 0);
  const before = lost();
  for (let round = 0; lost() < before + cuts; round++) {
    const { network } = nodes[round % nodes.length] as Node;
    const own = network.cuts;
    network.cutNextResponse();
    await until("a response is lost", CUT_TIMEOUT_MS, () => network.cuts > own);
    await sleep(CUT_GAP_MS);
  }
  const taskIds = await load.stop();
  await expectNothingLost(fleet, taskIds);
  // What was refused was sent again with its key until it was accepted, unless the load had ended.
  const known = new Set(taskIds);
  const unknown = target.requests.filter(({ taskId }) => !known.has(taskId));
  console.log(`${lost() - before} responses lost, ${taskIds.length} tasks`);
  expect(new Set(unknown.map(({ taskId }) => taskId)).size).toBeLessThanOrEqual(CALLERS);
}

/** The tasks per second with a lossy network, as a share of those with a good one. */
export async function slowNetwork(fleet: Fleet): Promise<number> {
  const { nodes, target } = fleet;
  await nodes[0]!.client.configure(target.origin, busyDestination);
  const logged = nodes.map(({ log }) => log.length);
  // Until the last arrival at the target: reading the list of tasks is not what is measured.
  const measure = async (name: string): Promise<number> => {
    const startedAt = Date.now();
    const taskIds = await createTasks(fleet, TASKS, {}, name);
    await allEnded(nodes[0] as Node, taskIds);
    expectBounded(target, taskIds);
    return Math.max(...target.requests.map(({ at }) => at)) - startedAt;
  };
  const goodMs = await measure("good");
  for (const { network } of nodes) network.lag = LOSSY;
  const lossyMs = await measure("lossy");
  for (const { network } of nodes) network.lag = { delayMs: 0, lostShare: 0, repeatMs: 0 };
  console.log(`good ${Math.round(goodMs)} ms, lossy ${Math.round(lossyMs)} ms`);
  const events = nodes.flatMap(({ log }, at) => log.slice(logged[at]));
  expect(events.filter(({ event }) => event === "node.lease-lost")).toEqual([]);
  return goodMs / lossyMs;
}
