/** Tests that kill -9 of a consumer and a crash of Redis lose no message of a stream. */
// needs: redis, build
import { Redis } from "ioredis";
import { consume, type RedisFields, redisStreams } from "redrive/consume";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RestartableServer, startRestartable } from "../servers/restartable.ts";
import { killConsumers } from "./kill.ts";
import { Received } from "./received.ts";

let server: RestartableServer;
let redis: Redis;

beforeAll(async () => {
  server = await startRestartable("redis");
  redis = new Redis(urlOf(server), { retryStrategy: () => 20 });
  redis.on("error", () => undefined);
});

afterAll(async () => {
  redis.disconnect();
  await server.stop();
});

/** Without the prefix of a store. */
function urlOf(redisServer: RestartableServer): string {
  return redisServer.nextUrl().replace(/\?.*/, "");
}

test("a consumer that is killed repeatedly loses nothing", { timeout: 120_000 }, async () => {
  const stream = "kills";
  const publish = async (ids: readonly string[]) => {
    const all = redis.pipeline();
    for (const id of ids) all.xadd(stream, "*", "id", id);
    await all.exec();
  };
  await killConsumers(["redis", urlOf(server), stream], publish, async () => {
    const [pending] = (await redis.xpending(stream, "billing")) as [number];
    const delayed = await redis.zcard(`{${stream}}:billing:delayed`);
    const retried = await redis.xlen(`{${stream}}:billing:retry`);
    const [group] = (await redis.xinfo("GROUPS", stream)) as [unknown[]];
    const lag = group[group.indexOf("lag") + 1];
    return pending === 0 && delayed === 0 && retried === 0 && lag === 0;
  });
  expect(await redis.xlen(`{${stream}}:billing:dead`)).toBe(0);
});

test("a crash of Redis loses nothing", { timeout: 60_000 }, async () => {
  const received = new Received();
  const consumer = consume<RedisFields>(
    (_, { attempt }) => (attempt === 1 ? Promise.reject(new Error("fails once")) : "done"),
    { policy: { initialDelayMs: 1, maxDelayMs: 5 }, minDelayMs: 1, onEvent: received.onEvent },
  );
  // A message whose delivery was lost in the crash comes back after `idleMs`.
  const place = { stream: "crash", group: "billing", idField: "id", idleMs: 1000 };
  const worker = redisStreams(consumer, { client: redis, ...place });
  await worker.start();
  const ids = Array.from({ length: 100 }, (_, index) => `m${index}`);
  for (const id of ids.slice(0, 50)) await redis.xadd("crash", "*", "id", id);
  await received.count("retry", 10);
  await server.crash();
  await server.start();
  for (const id of ids.slice(50)) await redis.xadd("crash", "*", "id", id);
  await received.count("handled", 100);
  await worker.stop();
  expect([...new Set(received.ids("handled"))].toSorted()).toEqual(ids.toSorted());
});
