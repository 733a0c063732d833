/** Zombie: a node is stopped under load, others take over, and it continues later. It overwrites nothing. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { type AttemptView, ENDED, type TaskView } from "../client.ts";
import { type Fleet, type LogLine, type Node, until } from "../fleet.ts";
import { allEnded, busyDestination, createTasks, expectBounded } from "../load.ts";

const TASKS = 300;
/** By then each node has its share of the slots. */
const BUSY_REQUESTS = 120;
const WORKS_TIMEOUT_MS = 30_000;

/** How the target must respond: slowly, so that the node has open requests when it is stopped. */
export const slowly = () => ({ status: 200, afterMs: 300 });

/** The last node is stopped until all tasks have ended without it, and then continues. */
export async function suspendPastLease(fleet: Fleet): Promise<void> {
  const { target } = fleet;
  const [first] = fleet.nodes as [Node];
  const zombie = fleet.nodes.at(-1) as Node;
  const taskIds = await busy(fleet);
  zombie.process.kill("SIGSTOP");
  await allEnded(first, taskIds);
  const before = await ledger(first, taskIds);
  const sent = target.requests.length;

  const logged = zombie.log.length;
  zombie.process.kill("SIGCONT");
  await expectWorking(fleet, zombie);
  expect(await ledger(first, taskIds)).toEqual(before);
  expectBounded(target, taskIds);
  const late = target.requests.slice(sent).filter(({ path }) => path === "/orders");
  expect(late).toEqual([]);
  expectFenced(zombie.log.slice(logged), before);
}

/** A pause of a node that is shorter than its lease, such as a blocked event loop: nothing is repeated. */
export async function suspendWithinLease(fleet: Fleet, ms: number): Promise<void> {
  const { target } = fleet;
  const [first] = fleet.nodes as [Node];
  const paused = fleet.nodes.at(-1) as Node;
  const taskIds = await busy(fleet);
  const logged = paused.log.length;
  paused.process.kill("SIGSTOP");
  try {
    // The length of the fault.
    await sleep(ms);
  } finally {
    paused.process.kill("SIGCONT");
  }
  await allEnded(first, taskIds);
  expectBounded(target, taskIds);
  expect(target.requests.filter(({ attempt }) => attempt > 1)).toEqual([]);
  const lost = paused.log.slice(logged).filter(({ event }) => event === "node.lease-lost");
  expect(lost).toEqual([]);
}

/** Creates tasks through all nodes, and waits until all nodes are sending. */
async function busy(fleet: Fleet): Promise<readonly string[]> {
  const { nodes, target } = fleet;
  await nodes[0]!.client.configure(target.origin, busyDestination);
  const taskIds = await createTasks(fleet, TASKS);
  await until("the fleet is busy", WORKS_TIMEOUT_MS, () => target.requests.length >= BUSY_REQUESTS);
  return taskIds;
}

interface Entry {
  readonly task: TaskView | undefined;
  readonly attempts: readonly AttemptView[];
}

type Ledger = ReadonlyMap<string, Entry>;

/** What the store says of each task. */
async function ledger({ client }: Node, taskIds: readonly string[]): Promise<Ledger> {
  const tasks = await client.tasks();
  const logs = await client.attempts(taskIds);
  return new Map(
    taskIds.map((taskId, n) => [taskId, { task: tasks.get(taskId), attempts: logs[n] ?? [] }]),
  );
}

/** The node delivers again. A task without a key belongs to the node that accepts it. */
export async function expectWorking({ target }: Fleet, { client }: Node): Promise<void> {
  let created = "";
  await until("the node accepts a task", WORKS_TIMEOUT_MS, async () => {
    const { status, json } = await client.post({ targetUrl: `${target.origin}/after` });
    created = status === 202 ? json.taskId : "";
    return created !== "";
  });
  await until("its task has ended", WORKS_TIMEOUT_MS, async () => {
    const { status } = await client.get<TaskView>(`/retry-tasks/${created}`);
    return ENDED.has(status);
  });
}

/** The zombie tried to store its results, and each of them was refused. */
function expectFenced(log: readonly LogLine[], entries: Ledger): void {
  const outcomes = [...entries.values()].flatMap(({ attempts }) =>
    attempts.map(({ outcome }) => outcome),
  );
  const abandoned = outcomes.filter((outcome) => outcome === "abandoned").length;
  const fenced = log.filter(({ event }) => event === "attempt.fenced").length;
  console.log(`abandoned ${abandoned}, fenced ${fenced}`);
  expect(abandoned).toBeGreaterThan(0);
  expect(fenced).toBeGreaterThan(0);
  expect(fenced).toBeLessThanOrEqual(abandoned);
}
