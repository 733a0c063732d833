/** Broker kills: a process whose tasks are messages of a broker is killed under load, and then drains. */
import { join } from "node:path";
import { seededRandom } from "@redrive/core";
import { expect } from "vitest";
import { Child } from "./child.ts";
import { readTasks } from "./read-tasks.ts";

/** See `suspect` in the glossary. */
const MAX_LOST = 3;

/** Checks that every acknowledged task is a message. `messageIds`: of all messages at the broker. */
export async function loseNothingInKills(
  folder: string,
  targetUrl: string,
  kills: number,
  messageIds: () => Promise<readonly string[]>,
): Promise<void> {
  const file = join(folder, "redrive.db");
  const random = seededRandom("broker kills");
  const acknowledged = new Map<number, string>();
  const place = { file, targetUrl, callers: 16 };
  let inFlight = 0;
  for (let kill = 0; kill < kills; kill++) {
    const from = Math.max(0, ...acknowledged.keys());
    const child = new Child({ ...place, mode: "load", from, count: 1_000_000 });
    await child.said("ack");
    await new Promise((resolve) => setTimeout(resolve, Math.floor(random.next() * 150)));
    await child.kill();
    for (const [number, taskId] of child.acknowledged()) acknowledged.set(number, taskId);
    inFlight += readTasks(file).filter(({ status }) => status === "IN_FLIGHT").length;
  }
  const child = new Child({ ...place, mode: "drain", from: 0, count: 0 });
  await child.said("stopped");
  const tasks = readTasks(file, { check: true });
  const ids = await messageIds();
  const found = new Set(ids);
  const repeats = ids.length - found.size;
  console.log(`kills ${kills}, tasks ${tasks.length}, in flight ${inFlight}, repeats ${repeats}`);
  const known = new Set(tasks.map(({ taskId }) => taskId));
  expect([...acknowledged.values()].filter((taskId) => !known.has(taskId))).toEqual([]);
  // A task that was in flight at three kills is a dead letter.
  const isOver = ({ status, attemptNumber }: (typeof tasks)[number]) =>
    status === "SUCCEEDED" || (status === "EXHAUSTED" && attemptNumber >= MAX_LOST);
  expect(tasks.filter((task) => !isOver(task))).toEqual([]);
  const sent = tasks.filter(({ status }) => status === "SUCCEEDED");
  const missing = sent.filter(({ idempotencyKey }) => !found.has(idempotencyKey ?? ""));
  expect(missing).toEqual([]);
  // A message may be repeated only if the process died between the message and its result.
  expect(repeats).toBeLessThanOrEqual(inFlight);
}
