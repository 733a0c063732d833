/** Tests that the brokers in memory behave as the real ones, as far as the adapters rely on them. */
// needs: redis
import { Redis } from "ioredis";
import type { AmqpConnection, RedisClient } from "redrive/consume";
import { afterAll, beforeAll, describe } from "vitest";
import { type RedisServer, startRedis } from "../servers/redis.ts";
import { MemoryRabbit } from "../servers/scenario/memory-rabbitmq.ts";
import { MemoryRedis } from "../servers/scenario/memory-redis.ts";
import { rabbitContract, redisContract } from "./broker-contracts.ts";

/** The brokers in memory wait for a clock. Here it is the machine's. */
const time = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  alarm: (ms: number, fn: () => void) => {
    const timer = setTimeout(fn, ms);
    return () => clearTimeout(timer);
  },
  endOfTurn: (fn: () => void) => void setImmediate(fn),
};

describe("a real Redis", () => {
  let server: RedisServer;
  let redis: Redis;

  beforeAll(async () => {
    server = await startRedis();
    redis = new Redis(server.url);
  });

  afterAll(async () => {
    redis.disconnect();
    await server.stop();
  });

  redisContract(() => ({
    client: redis,
    add: async (stream, body) => String(await redis.xadd(stream, "*", "body", body)),
  }));
});

describe("the Redis in memory", () => {
  const redis = new MemoryRedis(time);

  redisContract(() => ({
    client: redis.client() as unknown as RedisClient,
    add: async (stream, body) => redis.xadd(stream, ["body", body]),
  }));
});

// `test/fleet/rabbitmq.test.ts` runs the same with a real one, which starts slowly.
describe("the RabbitMQ in memory", () => {
  const rabbit = new MemoryRabbit(time);
  rabbitContract(() => rabbit.connect() as unknown as Promise<AmqpConnection>);
});
