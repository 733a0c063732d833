/** Runs the conformance suite on a Redis Cluster of three masters, and interrupts its commits. */
// needs: redis
import { afterAll, beforeAll } from "vitest";
import { storeConformance } from "../conformance.testing.ts";
import { interruptedConformance } from "../conformance-interrupted.testing.ts";
import { interruptible } from "./interrupted.testing.ts";
import { type ServerGroup, startCluster } from "./redis-server.testing.ts";
import { redisStore } from "./redis-store.ts";

let cluster: ServerGroup;
let stores = 0;
beforeAll(async () => {
  // Without a sync per write: the suite commits thousands of times, and no test here cuts the power.
  cluster = await startCluster({ appendfsync: "everysec" });
});
afterAll(() => cluster.stop());

const nextUrl = () => `${cluster.url}?prefix=t${++stores}&durability=relaxed`;

storeConformance("Redis Cluster", () => redisStore(nextUrl()));

interruptedConformance("Redis Cluster", 10, (round) =>
  interruptible(nextUrl(), cluster.servers, round),
);
