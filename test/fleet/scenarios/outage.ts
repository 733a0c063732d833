/** Outage: the store crashes or hangs under load. The fleet refuses tasks, loses none and continues. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { type Fleet, type Node, until } from "../fleet.ts";
import { expectNothingLost, startLoad } from "../load.ts";

/** What the service promises for a response, and for the first attempt after an outage. */
const PROMISED_MS = 5000;
/** What a request may take longer on a busy machine. */
const TOLERANCE_MS = 1500;
const BUSY_TIMEOUT_MS = 30_000;

/** Ends the server of the store without warning, and starts it again, `times` times. */
export async function crashStore(fleet: Fleet, times: number): Promise<void> {
  const load = await startLoad(fleet);
  for (let round = 0; round < times; round++) {
    await until("tasks arrive", BUSY_TIMEOUT_MS, arrivals(fleet, 30));
    await fleet.server.crash();
    await expectRefusal(fleet);
    await fleet.server.start();
    await expectResumed(fleet);
  }
  await expectNothingLost(fleet, await load.stop());
}

/** Suspends all processes of the store for this time. */
export async function hangStore(fleet: Fleet, ms: number): Promise<void> {
  const load = await startLoad(fleet);
  await until("tasks arrive", BUSY_TIMEOUT_MS, arrivals(fleet, 30));
  const hangsUntilMs = performance.now() + ms;
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
}

/** True once this many more requests have arrived at the target. */
export function arrivals({ target }: Fleet, count: number): () => boolean {
  const before = target.requests.length;
  return () => target.requests.length >= before + count;
}

/** Every one of these nodes answers a new task with 503, in time. */
export async function expectRefusal(
  { target, ...fleet }: Fleet,
  nodes: readonly Node[] = fleet.nodes,
): Promise<void> {
  const task = { targetUrl: `${target.origin}/refused` };
  const responses = await Promise.all(nodes.map(({ client }) => client.post(task)));
  expect(responses.map(({ status }) => status)).toEqual(nodes.map(() => 503));
  const slowest = Math.max(...responses.map(({ tookMs }) => tookMs));
  console.log(`refused within ${Math.round(slowest)} ms`);
  expect(slowest).toBeLessThan(PROMISED_MS + TOLERANCE_MS);
}

/** Attempts start again, and every node accepts tasks again, with the same processes. */
export async function expectResumed(fleet: Fleet): Promise<void> {
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
