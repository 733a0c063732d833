/** When the store crashes or hangs, the fleet refuses tasks, loses none and continues by itself. */
// needs: postgres, redis, build
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { describeFleets, type Fleet, type Node, ROUNDS, until } from "./fleet.ts";
import { allEnded, busyDestination, expectBounded, policy } from "./load.ts";

/** What the service promises for a response, and for the first attempt after an outage. */
const PROMISED_MS = 5000;
/** What a request may take longer on a busy machine. */
const TOLERANCE_MS = 1500;
const RESTARTS = ROUNDS === 1 ? 2 : ROUNDS;
const HANG_MS = ROUNDS === 1 ? 8000 : 30_000;
const CALLERS = 6;
/** Twenty crashes take longer than the usual limit of a test. */
const LONG_MS = 900_000;
const PAUSE_MS = 20;

describeFleets("an outage of the store", (open) => {
  it(`loses nothing in ${RESTARTS} crashes`, { timeout: LONG_MS }, async () => {
    const fleet = await open({ respond: () => ({ status: 200, afterMs: 20 }) });
    const load = await startLoad(fleet);
    for (let round = 0; round < RESTARTS; round++) {
      await until("tasks arrive", 30_000, arrivals(fleet, 30));
      await fleet.server.crash();
      await expectRefusal(fleet);
      await fleet.server.start();
      await expectResumed(fleet);
    }
    await expectNothingLost(fleet, await load.stop());
  });

  it(`loses nothing while the store hangs for ${HANG_MS} ms`, async () => {
    const fleet = await open({ respond: () => ({ status: 200, afterMs: 20 }) });
    const load = await startLoad(fleet);
    await until("tasks arrive", 30_000, arrivals(fleet, 30));
    const hangsUntilMs = performance.now() + HANG_MS;
    fleet.server.hang();
    try {
      await expectRefusal(fleet);
      // The length of the fault.
      await sleep(Math.max(0, hangsUntilMs - performance.now()));
    } finally {
      fleet.server.resume();
    }
    await expectResumed(fleet);
    await expectNothingLost(fleet, await load.stop());
  });
});

interface Load {
  /** Ends the load. Resolves to the ids of the acknowledged tasks. */
  stop(): Promise<readonly string[]>;
}

/** Callers that create tasks without a pause, each with a key, and repeat those that are refused. */
async function startLoad({ nodes, target }: Fleet): Promise<Load> {
  await nodes[0]!.client.configure(target.origin, busyDestination);
  const taskIds: string[] = [];
  let isStopped = false;
  let next = 0;
  const create = async (n: number) => {
    const task = { targetUrl: `${target.origin}/orders`, idempotencyKey: `order-${n}`, policy };
    const response = await nodes[n % nodes.length]!.client.post(task);
    if (response.status < 300) taskIds.push(response.json.taskId);
    return response.status < 300;
  };
  const caller = async () => {
    while (!isStopped) {
      const n = next++;
      while (!(await create(n)) && !isStopped) await sleep(PAUSE_MS);
      await sleep(PAUSE_MS);
    }
  };
  const callers = Array.from({ length: CALLERS }, caller);
  return {
    async stop() {
      isStopped = true;
      await Promise.all(callers);
      return taskIds;
    },
  };
}

/** True once this many more requests have arrived at the target. */
function arrivals({ target }: Fleet, count: number): () => boolean {
  const before = target.requests.length;
  return () => target.requests.length >= before + count;
}

/** Every node answers a new task with 503, in time. */
async function expectRefusal({ nodes, target }: Fleet): Promise<void> {
  const task = { targetUrl: `${target.origin}/refused` };
  const responses = await Promise.all(nodes.map(({ client }) => client.post(task)));
  expect(responses.map(({ status }) => status)).toEqual(nodes.map(() => 503));
  const slowest = Math.max(...responses.map(({ tookMs }) => tookMs));
  console.log(`refused within ${Math.round(slowest)} ms`);
  expect(slowest).toBeLessThan(PROMISED_MS + TOLERANCE_MS);
}

/** Attempts start again, and every node accepts tasks again, with the same processes. */
async function expectResumed(fleet: Fleet): Promise<void> {
  const limitMs = PROMISED_MS + TOLERANCE_MS;
  const sentMs = await until("attempts start again", limitMs, arrivals(fleet, 1));
  const accept = ({ client }: Node) =>
    until("the node accepts tasks again", limitMs, async () => {
      const { status } = await client.post({ targetUrl: `${fleet.target.origin}/accepted` });
      return status === 202;
    });
  const acceptMs = await Promise.all(fleet.nodes.map(accept));
  console.log(
    `sent after ${Math.round(sentMs)} ms, accepted ${Math.round(Math.max(...acceptMs))} ms later`,
  );
  expect(fleet.nodes.map((node) => node.process.exitCode)).toEqual(fleet.nodes.map(() => null));
}

async function expectNothingLost(fleet: Fleet, taskIds: readonly string[]): Promise<void> {
  expect(new Set(taskIds).size).toBe(taskIds.length);
  await allEnded(fleet.nodes[0]!, taskIds);
  expectBounded(fleet.target, taskIds);
  const tasks = await fleet.nodes[1]!.client.tasks();
  const statuses = new Set(taskIds.map((taskId) => tasks.get(taskId)?.status));
  expect([...statuses]).toEqual(["SUCCEEDED"]);
}
