/** A Redis store refuses servers that could lose what they acknowledge, and URLs that are wrong. */
// needs: redis
import { afterEach, describe, expect, it } from "vitest";
import { type RedisServer, startRedis } from "./redis-server.testing.ts";
import { redisStore } from "./redis-store.ts";

let server: RedisServer | undefined;
afterEach(async () => {
  await server?.stop();
  server = undefined;
});

async function refusal(settings: Readonly<Record<string, string>>, query = ""): Promise<string> {
  server = await startRedis(settings);
  const error: unknown = await redisStore(`${server.url}${query}`).catch((one: unknown) => one);
  expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
  return (error as Error).message;
}

async function opens(settings: Readonly<Record<string, string>>, query: string): Promise<void> {
  server = await startRedis(settings);
  const store = await redisStore(`${server.url}${query}`);
  await store.close();
}

describe("a Redis store refuses what another version wrote", () => {
  it.each([
    ["an older one", ["hset", "redrive:{control}:m", "boot", "1"], /older Redrive.*layout 1/u],
    ["a newer one", ["hset", "redrive:{control}:m", "layout", "9"], /newer Redrive.*layout 9/u],
  ] as const)("%s", async (_, [command, ...args], message) => {
    server = await startRedis();
    await server.command(command, ...args);
    await expect(redisStore(server.url)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringMatching(message),
    });
    const store = await redisStore(`${server.url}?prefix=another`);
    await store.close();
    await (await redisStore(`${server.url}?prefix=another`)).close();
  });
});

describe("a Redis store refuses a server", () => {
  it("without a log", async () => {
    const message = await refusal({ appendonly: "no" });
    expect(message).toMatch(/127\.0\.0\.1:\d+ has appendonly no.*CONFIG SET appendonly yes/u);
  });

  it("that may delete tasks", async () => {
    const message = await refusal({ "maxmemory-policy": "allkeys-lru" });
    expect(message).toMatch(
      /maxmemory-policy allkeys-lru.*CONFIG SET maxmemory-policy noeviction/u,
    );
  });

  it("that syncs once a second, unless that loss is accepted", async () => {
    const message = await refusal({ appendfsync: "everysec" });
    expect(message).toMatch(
      /appendfsync everysec.*CONFIG SET appendfsync always.*durability=relaxed/u,
    );
    await server?.stop();
    await opens({ appendfsync: "everysec" }, "?durability=relaxed");
  });

  it("that does not sync while it rewrites its log, unless that loss is accepted", async () => {
    const settings = { "no-appendfsync-on-rewrite": "yes" };
    const message = await refusal(settings);
    expect(message).toMatch(
      /no-appendfsync-on-rewrite yes.*CONFIG SET no-appendfsync-on-rewrite no.*durability=relaxed/u,
    );
    await server?.stop();
    await opens(settings, "?durability=relaxed");
  });

  it("that never syncs, in any case", async () => {
    expect(await refusal({ appendfsync: "no" }, "?durability=relaxed")).toMatch(/appendfsync no/u);
  });

  it("that does not tell its settings, unless they are trusted", async () => {
    server = await startRedis();
    await server.command("acl", "setuser", "default", "-config");
    await expect(redisStore(server.url)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringMatching(/does not tell its configuration.*settings=trusted/u),
    });
    await (await redisStore(`${server.url}?settings=trusted`)).close();
  });

  it("that is a replica", async () => {
    const message = await refusal({ replicaof: "127.0.0.1 1" });
    expect(message).toMatch(/is a replica: use the address of its master/u);
  });

  it("of a cluster, unless the URL says so", async () => {
    expect(await refusal({ "cluster-enabled": "yes" })).toMatch(/use redis\+cluster:/u);
  });
});

describe("a Redis store", () => {
  it("says within five seconds that there is no server, without the password", async () => {
    server = await startRedis();
    const { port } = server;
    await server.stop();
    const error: unknown = await redisStore(`redis://user:secret@127.0.0.1:${port}`).catch(
      (one: unknown) => one,
    );
    expect(error).toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(String(error)).toMatch(/no connection to Redis at 127\.0\.0\.1:\d+: .*ECONNREFUSED/u);
    expect(String(error)).not.toContain("secret");
  });
});
