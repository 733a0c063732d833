/** Takeover: a node is killed under load, and the others end all of its tasks in time. */
import { expect } from "vitest";
import { type Fleet, killNode, type Node, until } from "../fleet.ts";
import { allEnded, busyDestination, createTasks, expectBounded } from "../load.ts";
import type { WireRequest } from "../wire-log.ts";

const TASKS = 300;
/** By then each node has its share of the slots. */
const BUSY_REQUESTS = 120;

/** Fails three of ten, and is slow enough that each node has open requests at any time. */
export const unreliably = (_: WireRequest, random: { next(): number }) => ({
  status: random.next() < 0.3 ? 503 : 200,
  afterMs: 300,
});

/** Kills the last node. No task waits for longer than this time after its death. */
export async function killAndTakeOver(fleet: Fleet, limitMs: number): Promise<void> {
  const { target } = fleet;
  const [first] = fleet.nodes as [Node];
  const victim = fleet.nodes.at(-1) as Node;
  await first.client.configure(target.origin, busyDestination);
  const taskIds = await createTasks(fleet, TASKS);
  await until("the fleet is busy", 30_000, () => target.requests.length >= BUSY_REQUESTS);
  const killedAt = await killNode(victim);
  fleet.remove(victim);
  await allEnded(first, taskIds);
  expectBounded(target, taskIds);
  // The system closes the connections of a killed process, so its requests end when it dies.
  expect(target.overlaps()).toEqual([]);
  expect(await slowestTakeover(fleet, taskIds, killedAt)).toBeLessThan(limitMs);
  const firstAttempts = target.requests.filter(({ attempt }) => attempt === 1);
  const waitedMs = Math.max(...firstAttempts.map(({ at }) => at - killedAt));
  expect(waitedMs).toBeLessThan(limitMs);
}

/** From the death until the last task that was in flight in the victim was sent again or ended. */
async function slowestTakeover(
  { nodes, target }: Fleet,
  taskIds: readonly string[],
  killedAt: number,
): Promise<number> {
  const [{ client }] = nodes as [Node];
  const tasks = await client.tasks();
  let slowest = 0;
  let abandoned = 0;
  const logs = await client.attempts(taskIds);
  for (const [index, taskId] of taskIds.entries()) {
    const lost = logs[index]?.find(({ outcome }) => outcome === "abandoned");
    if (lost === undefined) continue;
    abandoned++;
    const next = target.requests.find(
      (request) => request.taskId === taskId && request.attempt > lost.attemptNumber,
    );
    const handledAt = next?.at ?? tasks.get(taskId)?.finishedAt ?? Number.POSITIVE_INFINITY;
    slowest = Math.max(slowest, handledAt - killedAt);
  }
  // Without a task in flight, the test would show nothing.
  expect(abandoned).toBeGreaterThan(0);
  console.log(`taken over: ${abandoned} tasks in flight, the slowest after ${slowest} ms`);
  return slowest;
}
