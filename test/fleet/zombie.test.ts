/** A node that is stopped for longer than its lease and then continues overwrites nothing. */
// needs: postgres, redis, build
import { expect, it } from "vitest";
import { type AttemptView, ENDED, type TaskView } from "./client.ts";
import { describeFleets, type Fleet, type Node, ROUNDS, until } from "./fleet.ts";
import { allEnded, busyDestination, createTasks, expectBounded } from "./load.ts";

const TASKS = 300;
/** By then each node has its share of the slots. */
const BUSY_REQUESTS = 120;
const LEASE_MS = 1500;
const WORKS_TIMEOUT_MS = 30_000;

describeFleets("a node that is stopped for longer than its lease", (open) => {
  it.each(Array.from({ length: ROUNDS }, (_, round) => round + 1))(
    "stores nothing late, and then works again (round %i)",
    async () => {
      const respond = () => ({ status: 200, afterMs: 300 });
      const fleet = await open({ respond, leaseMs: LEASE_MS });
      const { target } = fleet;
      const [first, zombie] = fleet.nodes as [Node, Node, Node];
      await first.client.configure(target.origin, busyDestination);
      const taskIds = await createTasks(fleet, TASKS);
      await until("the fleet is busy", 30_000, () => target.requests.length >= BUSY_REQUESTS);
      zombie.process.kill("SIGSTOP");
      await allEnded(first, taskIds);
      const before = await ledger(first, taskIds);
      const sent = target.requests.length;

      zombie.process.kill("SIGCONT");
      await expectWorking(fleet, zombie);
      expect(await ledger(first, taskIds)).toEqual(before);
      expectBounded(target, taskIds);
      const late = target.requests.slice(sent).filter(({ path }) => path === "/orders");
      expect(late).toEqual([]);
      expectFenced(zombie, before);
    },
  );
});

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
async function expectWorking({ target }: Fleet, { client }: Node): Promise<void> {
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
function expectFenced(zombie: Node, entries: Ledger): void {
  const outcomes = [...entries.values()].flatMap(({ attempts }) =>
    attempts.map(({ outcome }) => outcome),
  );
  const abandoned = outcomes.filter((outcome) => outcome === "abandoned").length;
  const fenced = zombie.log.filter(({ event }) => event === "attempt.fenced").length;
  console.log(`abandoned ${abandoned}, fenced ${fenced}`);
  expect(abandoned).toBeGreaterThan(0);
  expect(fenced).toBeGreaterThan(0);
  expect(fenced).toBeLessThanOrEqual(abandoned);
}
