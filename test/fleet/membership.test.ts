/** While nodes join and leave under load, nothing is lost, nothing waits for long, and the work is shared. */
// needs: postgres, redis, build
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { describeFleets, type Fleet, type Node, ROUNDS } from "./fleet.ts";
import { allEnded, expectBounded, policy } from "./load.ts";
import { joinAndKill, joinAndStop, sentByNode } from "./scenarios/membership.ts";

/** What the service promises for a task that is due. */
const PROMISED_MS = 1000;
/** A process that starts takes a core for seconds, and the machine may have only two. */
const TOLERANCE_MS = 1500;
const PAUSE_MS = 20;
/** Tasks are due this long after they are created, so that the time of a create does not count. */
const AHEAD_MS = 1000;
const SHARED_TASKS = 300;
/** Twenty starts of a node take longer than the usual limit of a test. */
const LONG_MS = 900_000;

describeFleets("nodes that join and leave", (open) => {
  it("delay no task that is due", async () => {
    const fleet = await open({ nodes: 2 });
    const [first, second] = fleet.nodes as [Node, Node];
    const load = startLoad(fleet, first);
    await fleet.join();
    await sleep(AHEAD_MS);
    second.process.kill("SIGTERM");
    const [code] = await once(second.process, "exit");
    expect(code).toBe(0);
    await sleep(2 * AHEAD_MS);
    const dueAts = await load.stop();
    await allEnded(first, [...dueAts.keys()]);
    expectBounded(fleet.target, [...dueAts.keys()]);
    const lateMs = fleet.target.requests.map(({ taskId, at }) => at - (dueAts.get(taskId) ?? 0));
    lateMs.sort((a, b) => a - b);
    const median = lateMs[Math.floor(lateMs.length / 2)] ?? Number.NaN;
    console.log(
      `${lateMs.length} tasks, late by ${median} ms (median) and ${lateMs.at(-1)} ms (max)`,
    );
    expect(lateMs[0]).toBeGreaterThanOrEqual(0);
    expect(median).toBeLessThan(PROMISED_MS / 4);
    expect(lateMs.at(-1)).toBeLessThan(PROMISED_MS + TOLERANCE_MS);
  });
});

describeFleets("nodes of a fleet under load", (open) => {
  const respond = () => ({ status: 200, afterMs: 20 });

  it(`are stopped ${ROUNDS} times, and repeat nothing`, { timeout: LONG_MS }, async () => {
    await joinAndStop(await open({ nodes: 2, respond }), ROUNDS);
  });

  it(`are killed ${ROUNDS} times, and lose nothing`, { timeout: LONG_MS }, async () => {
    await joinAndKill(await open({ nodes: 2, respond }), ROUNDS);
  });

  it("share the tasks that one of them has stored", async () => {
    const sent = await sentByNode(await open({ respond }), SHARED_TASKS);
    console.log(`sent by each node: ${sent.join(", ")}`);
    // An equal part is a third.
    expect(Math.min(...sent)).toBeGreaterThan(SHARED_TASKS / 6);
    expect(Math.max(...sent)).toBeLessThan(SHARED_TASKS / 2);
  });
});

/** Creates scheduled tasks through one node. `stop` resolves to their ids and due times. */
function startLoad({ target }: Fleet, { client }: Node) {
  const dueAts = new Map<string, number>();
  let isStopped = false;
  const run = async () => {
    for (let n = 0; !isStopped; n++) {
      const scheduledAt = Date.now() + AHEAD_MS;
      const idempotencyKey = `order-${n}`;
      const task = { targetUrl: `${target.origin}/orders`, idempotencyKey, scheduledAt, policy };
      dueAts.set(await client.create(task), scheduledAt);
      await sleep(PAUSE_MS);
    }
  };
  const running = run();
  return {
    async stop(): Promise<ReadonlyMap<string, number>> {
      isStopped = true;
      await running;
      return dueAts;
    },
  };
}
