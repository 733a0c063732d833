/**
 * A crash of RabbitMQ, with a real one. It starts slowly, and a quorum queue must have existed for a while
 * before the crash, so this is not part of `npm test`.
 */
// needs: rabbitmq
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RabbitWorld } from "../consume/rabbit-world.ts";
import { until } from "../consume/received.ts";

let world: RabbitWorld;

beforeAll(async () => {
  world = await RabbitWorld.start();
});

afterAll(async () => {
  await world.stopWorkers();
  await world.stop();
});

const PLACE = { queue: "crash", tiersMs: [20, 40, 100] };

const policy = {
  initialDelayMs: 20,
  maxDelayMs: 40,
  jitterType: "NONE",
  // The broker may need a minute to start.
  totalBudgetMs: 3_600_000,
} as const;

function failOnce(_: unknown, { attempt }: { readonly attempt: number }): void {
  if (attempt === 1) throw new Error("fails once");
}

/**
 * A quorum queue of RabbitMQ 3.10 that is created less than five seconds before a crash of its only node
 * has no leader afterward, until `ra:trigger_election`.
 */
const LEADER_MS = 6000;

async function createQueues(): Promise<void> {
  const seen = world.consumer(failOnce, { policy }, PLACE);
  await seen.worker.start();
  await seen.add("first");
  await seen.received.count("handled", 1);
  await seen.worker.stop();
  await sleep(LEADER_MS);
}

test("a crash of RabbitMQ loses nothing", async () => {
  await createQueues();
  const seen = world.consumer(failOnce, { policy }, PLACE);
  await seen.worker.start();
  const ids = Array.from({ length: 60 }, (_, index) => `m${index}`);
  await seen.add(...ids);
  await seen.received.count("retry", 20);
  await world.restart();
  await until(() => new Set(seen.received.ids("handled")).size === ids.length);
  await seen.worker.stop();
  expect(await world.sizeOf("crash")).toBe(0);
  expect(await world.sizeOf("crash.dead")).toBe(0);
});
