/** Fleet load: tasks that tests create through all nodes, and what must hold for all of them. */
import { expect } from "vitest";
import { ENDED, type NewTask } from "./client.ts";
import { type Fleet, type Node, until } from "./fleet.ts";
import type { WireLog } from "./wire-log.ts";

const END_TIMEOUT_MS = 90_000;

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
): Promise<readonly string[]> {
  const create = (n: number) =>
    nodes[n % nodes.length]!.client.create({
      targetUrl: `${target.origin}/orders`,
      // Tests that share a fleet have targets on different ports.
      idempotencyKey: `${target.origin}-${n}`,
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

/** Waits until the store says that all of these tasks have ended. A lost task never ends. */
export async function allEnded({ client }: Node, taskIds: readonly string[]): Promise<void> {
  await until("all tasks have ended", END_TIMEOUT_MS, async () => {
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
