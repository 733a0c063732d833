/** When a node of three is killed, the others end all of its tasks in time and send nothing twice. */
// needs: postgres, redis, build
import { expect, it } from "vitest";
import { describeFleets, type Fleet, killNode, type Node, ROUNDS, until } from "./fleet.ts";
import { allEnded, busyDestination, createTasks, expectBounded } from "./load.ts";
import type { WireRequest } from "./wire-log.ts";

const TASKS = 300;
/** By then each node has its share of the slots. */
const BUSY_REQUESTS = 120;
/** What the service promises with its default lease of 10 s. */
const TAKEOVER_MS = 15_000;

/** Fails three of ten, and is slow enough that each node has open requests at any time. */
const respond = (_: WireRequest, random: { next(): number }) => ({
  status: random.next() < 0.3 ? 503 : 200,
  afterMs: 300,
});

describeFleets("a killed node", (open) => {
  it.each(Array.from({ length: ROUNDS }, (_, round) => round + 1))(
    "loses no task, and the others take over in time (round %i)",
    async () => {
      const fleet = await open({ respond });
      const { target } = fleet;
      const [first, victim] = fleet.nodes as [Node, Node, Node];
      await first.client.configure(target.origin, busyDestination);
      const taskIds = await createTasks(fleet, TASKS);
      await until("the fleet is busy", 30_000, () => target.requests.length >= BUSY_REQUESTS);
      const killedAt = await killNode(victim);
      await allEnded(first, taskIds);
      expectBounded(target, taskIds);
      // The system closes the connections of a killed process, so its requests end when it dies.
      expect(target.overlaps()).toEqual([]);
      expect(await slowestTakeover(fleet, taskIds, killedAt)).toBeLessThan(TAKEOVER_MS);
      const firstAttempts = target.requests.filter(({ attempt }) => attempt === 1);
      const waitedMs = Math.max(...firstAttempts.map(({ at }) => at - killedAt));
      expect(waitedMs).toBeLessThan(TAKEOVER_MS);
    },
  );
});

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
