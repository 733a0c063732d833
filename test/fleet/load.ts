/** Fleet load: tasks that tests create through all nodes, and what must hold for all of them. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { ENDED, type NewTask, repeated } from "./client.ts";
import { type Fleet, type Node, until } from "./fleet.ts";
import type { WireLog } from "./wire-log.ts";

const END_TIMEOUT_MS = 90_000;
/** The callers of a load. Each has at most one task without a known result. */
export const CALLERS = 6;
const PAUSE_MS = 50;

/** The service limits its connections. */
const CREATED_AT_ONCE = 400;

export const MAX_ATTEMPTS = 8;

/** Short waits, and enough time for every fault. */
export const policy = {
  maxAttempts: MAX_ATTEMPTS,
  initialDelayMs: 20,
  maxDelayMs: 200,
  attemptTimeoutMs: 10_000,
  totalBudgetMs: 3_600_000,
} as const;

/** No guard but a fixed number of slots, so that the fleet is busy for a known time. */
export const busyDestination = {
  retryBudget: false,
  breaker: false,
  concurrency: { algorithm: "FIXED", max: 45 },
} as const;

/** The other guards are off, so that a test sees only the one that it turns on. */
export const noGuards = { retryBudget: false, breaker: false, concurrency: false } as const;

/** Creates tasks through all nodes, each with a key. Returns their ids. */
export async function createTasks(
  { nodes, target }: Pick<Fleet, "nodes" | "target">,
  count: number,
  options: Partial<NewTask> = {},
  name = "order",
): Promise<readonly string[]> {
  const create = (n: number) =>
    createOnce(nodes[n % nodes.length]!, {
      targetUrl: `${target.origin}/orders`,
      // Tests that share a fleet have targets on different ports.
      idempotencyKey: `${target.origin}-${name}-${n}`,
      policy,
      ...options,
    });
  const taskIds: string[] = [];
  for (let from = 0; from < count; from += CREATED_AT_ONCE) {
    const size = Math.min(CREATED_AT_ONCE, count - from);
    taskIds.push(...(await Promise.all(Array.from({ length: size }, (_, n) => create(from + n)))));
  }
  expect(new Set(taskIds).size).toBe(count);
  return taskIds;
}

/** On a busy machine a store may take too long. A client then repeats the request with its key. */
async function createOnce({ client }: Node, task: NewTask): Promise<string> {
  const { status, json } = await repeated(() => client.post(task));
  if (status < 300) return json.taskId;
  throw new Error(`a task was answered with ${status}: ${JSON.stringify(json)}`);
}

/** Waits until the store says that all of these tasks have ended. A lost task never ends. */
export async function allEnded({ client }: Node, taskIds: readonly string[]): Promise<void> {
  const isOpen = async (status: string) =>
    (await client.get<{ tasks: unknown[] }>(`/retry-tasks?status=${status}&limit=1`)).tasks.length >
    0;
  await until("all tasks have ended", END_TIMEOUT_MS, async () => {
    // Reading the whole list takes long, so it is read when nothing waits any more.
    if ((await isOpen("PENDING")) || (await isOpen("IN_FLIGHT"))) return false;
    const tasks = await client.tasks();
    return taskIds.every((taskId) => ENDED.has(tasks.get(taskId)?.status ?? ""));
  });
}

/** Every task was sent, each attempt at most once, and no task more often than its policy allows. */
export function expectBounded(target: WireLog, taskIds: readonly string[]): void {
  const counts = target.countsByTask();
  expect(taskIds.filter((taskId) => !counts.has(taskId))).toEqual([]);
  expect(Math.max(...counts.values())).toBeLessThanOrEqual(MAX_ATTEMPTS);
  const attempts = target.requests.map(({ taskId, attempt }) => `${taskId} ${attempt}`);
  expect(new Set(attempts).size).toBe(attempts.length);
}

export interface Load {
  /** Ends the load. Resolves to the ids of the acknowledged tasks. */
  stop(): Promise<readonly string[]>;
}

/** Callers that create tasks without a pause, each with a key, and repeat those that are refused. */
export async function startLoad({ nodes, target }: Fleet): Promise<Load> {
  await nodes[0]!.client.configure(target.origin, busyDestination);
  const taskIds: string[] = [];
  let isStopped = false;
  let next = 0;
  const create = async (n: number) => {
    const idempotencyKey = `${target.origin}-load-${n}`;
    const task = { targetUrl: `${target.origin}/orders`, idempotencyKey, policy };
    const response = await nodes[n % nodes.length]!.client.post(task).catch(() => null);
    if (response === null || response.status >= 300) return false;
    taskIds.push(response.json.taskId);
    return true;
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

/** All of these tasks have succeeded, each key has one task, and no attempt was sent twice. */
export async function expectNothingLost(fleet: Fleet, taskIds: readonly string[]): Promise<void> {
  expect(new Set(taskIds).size).toBe(taskIds.length);
  await allEnded(fleet.nodes[0]!, taskIds);
  expectBounded(fleet.target, taskIds);
  const tasks = await fleet.nodes.at(-1)!.client.tasks();
  const statuses = new Set(taskIds.map((taskId) => tasks.get(taskId)?.status));
  expect([...statuses]).toEqual(["SUCCEEDED"]);
}
