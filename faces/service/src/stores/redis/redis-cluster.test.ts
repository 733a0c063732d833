/** Runs the conformance suite on a Redis Cluster of three masters, and interrupts its commits. */
// needs: redis
import { afterAll, beforeAll, expect, it } from "vitest";
import { storeConformance } from "../conformance.testing.ts";
import { interruptedConformance } from "../conformance-interrupted.testing.ts";
import { interruptible } from "./interrupted.testing.ts";
import { type ServerGroup, startCluster } from "./redis-server.testing.ts";
import { redisStore } from "./redis-store.ts";
import { ALL_PARTITIONS, keysOf } from "./rows.ts";

let cluster: ServerGroup;
let stores = 0;
beforeAll(async () => {
  // Without a sync per write: the suite commits thousands of times, and no test here cuts the power.
  cluster = await startCluster({ appendfsync: "everysec" });
});
afterAll(() => cluster.stop());

const nextUrl = () => `${cluster.url}?prefix=t${++stores}&durability=relaxed`;

// Of 64 masters, 30 had no partition, and one had four.
it("divides the partitions evenly among masters", async () => {
  const [server] = cluster.servers;
  const slots = await Promise.all(
    ALL_PARTITIONS.map(async (partition) => {
      const key = `${keysOf("redrive").base(partition)}:s`;
      return Number(await server?.command("cluster", "keyslot", key));
    }),
  );
  for (const masters of [1, 3, 4, 6, 16, 64]) {
    const masterOf = (slot: number) => Math.floor((slot * masters) / 16_384);
    const counts = Array.from(
      { length: masters },
      (_, master) => slots.filter((slot) => masterOf(slot) === master).length,
    );
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
  }
});

storeConformance("Redis Cluster", () => redisStore(nextUrl()));

interruptedConformance("Redis Cluster", 10, (round) =>
  interruptible(nextUrl(), cluster.servers, round),
);
