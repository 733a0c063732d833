/** Membership: nodes join and leave under load, by SIGTERM or by a kill, again and again. */
import { once } from "node:events";
import { expect } from "vitest";
import { type Fleet, killNode, type Node, until } from "../fleet.ts";
import { createTasks, expectNothingLost, startLoad } from "../load.ts";
import { arrivals } from "./outage.ts";

const BUSY_TIMEOUT_MS = 30_000;
/** The grace of the service, and two seconds. */
const EXIT_MS = 12_000;
const ARRIVALS = 40;

/** A node joins and is stopped, this often. No request is repeated. */
export async function joinAndStop(fleet: Fleet, cycles: number): Promise<void> {
  const startedAt = Date.now();
  const load = await startLoad(fleet);
  const involved: Node[] = [...fleet.nodes];
  for (let cycle = 0; cycle < cycles; cycle++) {
    const node = await fleet.join();
    involved.push(node);
    await until("tasks arrive", BUSY_TIMEOUT_MS, arrivals(fleet, ARRIVALS));
    fleet.remove(node);
    const startMs = performance.now();
    const exit = once(node.process, "exit");
    node.process.kill("SIGTERM");
    const [code] = await exit;
    expect(code).toBe(0);
    expect(performance.now() - startMs).toBeLessThan(EXIT_MS);
  }
  await expectNothingLost(fleet, await load.stop());
  // A node that gets no processor time for longer than its lease loses it, and its attempts are repeated.
  const lost = involved.map(
    ({ log }) =>
      log.filter(({ event, time }) => event === "node.lease-lost" && time >= startedAt).length,
  );
  const repeated = fleet.target.requests.filter(({ attempt }) => attempt > 1);
  console.log(`repeated ${repeated.length}; leases lost by each node: ${lost.join(", ")}`);
  if (lost.every((count) => count === 0)) expect(repeated).toEqual([]);
}

/** A node joins and is killed, this often. */
export async function joinAndKill(fleet: Fleet, cycles: number): Promise<void> {
  const load = await startLoad(fleet);
  for (let cycle = 0; cycle < cycles; cycle++) {
    const node = await fleet.join();
    await until("tasks arrive", BUSY_TIMEOUT_MS, arrivals(fleet, ARRIVALS));
    fleet.remove(node);
    await killNode(node);
  }
  await expectNothingLost(fleet, await load.stop());
}

/** How many of these tasks each node sends, all stored by the first one. */
export async function sentByNode(fleet: Fleet, count: number): Promise<readonly number[]> {
  const [first] = fleet.nodes as [Node];
  const attemptsOf = async ({ client }: Node) => {
    const text = await client.text("/metrics");
    const counts = [...text.matchAll(/^retry_attempts_total\{.*\} (\d+)$/gmu)];
    return counts.reduce((sum, [, value]) => sum + Number(value), 0);
  };
  const before = await Promise.all(fleet.nodes.map(attemptsOf));
  const through = { nodes: [first], target: fleet.target };
  const scheduledAt = Date.now() + 3000;
  const taskIds = await createTasks(through, count, { scheduledAt });
  await expectNothingLost(fleet, taskIds);
  const after = await Promise.all(fleet.nodes.map(attemptsOf));
  return after.map((value, at) => value - (before[at] ?? 0));
}
