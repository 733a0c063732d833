/** What a Redis store does when Sentinel changes the master, and when a master of a cluster restarts. */
// needs: redis
import { describe, expect, it } from "vitest";
import { anywhere, lostOf, startLoad } from "../load.testing.ts";
import { batch, claimOf, create, partitionsOf, TENANT } from "../store.testing.ts";
import {
  eventually,
  type RedisServer,
  type ServerGroup,
  startCluster,
  startSentinel,
} from "./redis-server.testing.ts";
import { redisStore } from "./redis-store.ts";
import { keysOf } from "./rows.ts";

describe("a Redis store with Sentinel", () => {
  it("loses no acknowledged task in a failover, if it waits for a replica", async () => {
    const group = await startSentinel();
    const [master, replica] = group.servers;
    const store = await redisStore(`${group.url}?replicas=1`);
    try {
      const tasks = startLoad(store);
      await eventually("tasks are stored", async () => tasks.acknowledged.length > 50);
      await master?.stop();
      await eventually("the replica is the master", async () =>
        String(await replica?.command("role")).startsWith("master"),
      );
      // Without a replica, nothing is acknowledged.
      const before = tasks.acknowledged.length;
      await expect(store.commit(batch({ creates: [anywhere()] }))).rejects.toThrow();
      expect(tasks.acknowledged.length).toBe(before);
      await master?.restart();
      // Sentinel would say the same, but only after 10 s, or 40 s on a machine that stands still for 2 s.
      await master?.command("replicaof", "127.0.0.1", String(replica?.port));
      await eventually(
        "tasks are stored again",
        async () => tasks.acknowledged.length > before + 50,
        async () => `${tasks.lastError()}; ${await rolesOf(group)}`,
      );
      await tasks.stop();
      expect(await lostOf(store, tasks.acknowledged)).toEqual([]);
    } finally {
      await store.close();
      await group.stop();
    }
  });
});

describe("a Redis store with a cluster", () => {
  it("loses no acknowledged task when masters are killed, and resumes by itself", async () => {
    const cluster = await startCluster();
    const store = await redisStore(cluster.url);
    try {
      const tasks = startLoad(store);
      for (const master of cluster.servers) {
        const before = tasks.acknowledged.length;
        await eventually("tasks are stored", async () => tasks.acknowledged.length > before + 20);
        await master.restart();
        const after = tasks.acknowledged.length;
        await eventually("tasks are stored again", async () => {
          return tasks.acknowledged.length > after + 100;
        });
      }
      await tasks.stop();
      // A master that was restarted needs a moment to join the cluster again.
      await eventually("all masters respond", () =>
        store.query.count(TENANT).then(
          () => true,
          () => false,
        ),
      );
      expect(await lostOf(store, tasks.acknowledged)).toEqual([]);
      const claims = [claimOf("first", { partitions: partitionsOf(store), limit: 100 })];
      const { claims: results } = await store.commit(batch({ claims }));
      expect(results[0]?.tasks.length).toBeGreaterThan(0);
      expect(results[0]?.tasks.length).toBeLessThanOrEqual(100);
    } finally {
      await store.close();
      await cluster.stop();
    }
  });

  it("runs no script on a partition that the cluster moves, because some of its keys are elsewhere", async () => {
    const cluster = await startCluster();
    const store = await redisStore(cluster.url);
    const isStored = () =>
      store.commit(batch({ creates: [create()] })).then(
        () => true,
        () => false,
      );
    try {
      expect(await isStored()).toBe(true);
      const base = keysOf("redrive").base(0);
      const [from, to, slot] = await startMove(cluster, base);
      // The tasks move, but the rest of the partition stays.
      const place = ["127.0.0.1", String(to.port), "", "0", "5000", "KEYS"];
      await from.command("migrate", ...place, `${base}:s`);
      expect(await isStored()).toBe(false);
      await from.command("migrate", ...place, `${base}:m`);
      expect(await isStored()).toBe(false);
      const rest = (await from.command("cluster", "getkeysinslot", slot, "1000")) as string[];
      await from.command("migrate", ...place, ...rest);
      const [id] = [await to.command("cluster", "myid")].map(String);
      for (const server of cluster.servers) {
        await server.command("cluster", "setslot", slot, "node", id ?? "");
      }
      await eventually("tasks are stored again", isStored);
      expect((await store.query.list(TENANT, {}, { limit: 9 })).tasks.length).toBe(2);
    } finally {
      await store.close();
      await cluster.stop();
    }
  });
});

/** What each server with data thinks that it is, for the message of a failure. */
async function rolesOf({ servers }: ServerGroup): Promise<string> {
  const roles = servers.slice(0, 2).map((server) => server.command("role").catch(String));
  return JSON.stringify(await Promise.all(roles));
}

/** Begins to move the slot of a key from its master to another one. */
async function startMove(
  { servers }: ServerGroup,
  key: string,
): Promise<readonly [RedisServer, RedisServer, string]> {
  const slot = String(await servers[0]?.command("cluster", "keyslot", key));
  const owns = await Promise.all(
    servers.map(async (server) => {
      const text = await server.command("exists", `${key}:m`).catch(() => 0);
      return Number(text) === 1;
    }),
  );
  const from = servers[owns.indexOf(true)];
  const to = servers[owns.indexOf(false)];
  if (from === undefined || to === undefined) throw new Error("no master has the slot");
  const idOf = async (server: RedisServer) => String(await server.command("cluster", "myid"));
  await to.command("cluster", "setslot", slot, "importing", await idOf(from));
  await from.command("cluster", "setslot", slot, "migrating", await idOf(to));
  return [from, to, slot];
}
