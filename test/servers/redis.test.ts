/** Redis for tests is a real, durable server. */
// needs: redis
import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RedisServer, startRedis } from "./redis.ts";

let server: RedisServer;
let client: Redis;

beforeAll(async () => {
  server = await startRedis();
  client = new Redis(server.url);
});

afterAll(async () => {
  client.disconnect();
  await server.stop();
});

test("responds to PING", async () => {
  expect(await client.ping()).toBe("PONG");
});

test("keeps acknowledged writes: append-only, synced at every write, nothing evicted", async () => {
  const flat = (await client.config("GET", "append*", "maxmemory-policy")) as string[];
  const setting = (name: string) => flat[flat.indexOf(name) + 1];
  expect(setting("appendonly")).toBe("yes");
  expect(setting("appendfsync")).toBe("always");
  expect(setting("maxmemory-policy")).toBe("noeviction");
});
