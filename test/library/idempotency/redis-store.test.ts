/** The idempotency store on a real Redis, with the clients of ioredis and node-redis. */
// needs: redis
import { createClient } from "@redis/client";
import { Redis } from "ioredis";
import { redisStore } from "redrive/idempotency";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { idempotencyStoreConformance } from "../../../faces/library/src/idempotency/conformance.testing.ts";
import { type RedisServer, startRedis } from "../../servers/redis.ts";

let server: RedisServer;
let ioredis: Redis;
let nodeRedis: ReturnType<typeof createClient>;
beforeAll(async () => {
  server = await startRedis();
  ioredis = new Redis(server.url);
  nodeRedis = createClient({ url: server.url });
  await nodeRedis.connect();
});
afterAll(async () => {
  ioredis.disconnect();
  nodeRedis.destroy();
  await server.stop();
});

idempotencyStoreConformance("ioredis", async (clock) => ({
  store: redisStore(ioredis, { clock }),
}));
idempotencyStoreConformance(
  "node-redis",
  async (clock) => ({ store: redisStore(nodeRedis, { clock, prefix: "other:" }) }),
  30,
);

const claim = { fingerprint: "f", owner: "a", leaseMs: 10_000, retentionMs: 60_000 };

describe.each(["ioredis", "node-redis"])("%s", (name) => {
  const store = (prefix = `${name}:`) =>
    redisStore(name === "ioredis" ? ioredis : nodeRedis, { prefix });

  test("measures leases with the clock of the server", async () => {
    await store().claim("k", claim);
    const { leaseLeftMs } = (await store().claim("k", claim)) as { readonly leaseLeftMs: number };
    expect(leaseLeftMs).toBeLessThanOrEqual(10_000);
    expect(leaseLeftMs).toBeGreaterThan(1_000);
  });

  test("every key has a time to live, also after it was renewed and settled", async () => {
    const ttl = () => ioredis.pttl(`${name}:ttl`);
    await store().claim("ttl", claim);
    expect(await ttl()).toBeGreaterThan(120_000);
    await store().renew("ttl", "a", 20_000);
    expect(await ttl()).toBeGreaterThan(130_000);
    await store().settle("ttl", "a", { result: new Uint8Array(), retentionMs: 500_000 });
    const settledMs = await ttl();
    expect(settledMs).toBeGreaterThan(500_000);
    expect(settledMs).toBeLessThanOrEqual(560_000);
  });

  test("works on after the server has lost its scripts", async () => {
    await store().claim("flushed", claim);
    await ioredis.script("FLUSH");
    expect(await store().claim("flushed", claim)).toMatchObject({ kind: "running" });
    expect(await store().claim("flushed", claim)).toMatchObject({ kind: "running" });
  });

  test("an error of the server is passed on", async () => {
    await ioredis.set(`${name}:text`, "not a hash");
    await expect(store().claim("text", claim)).rejects.toThrow(/WRONGTYPE/);
  });
});

test.each([undefined, {}, "redis://x"])("rejects the client %j", (client) => {
  expect(() => redisStore(client as never)).toThrow(
    /redisStore needs a client of ioredis or redis/,
  );
});
