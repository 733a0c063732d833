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
  cluster = await startCluster();
});
afterAll(() => cluster.stop());

storeConformance("Redis Cluster", () => redisStore(`${cluster.url}?prefix=t${++stores}`));

interruptedConformance("Redis Cluster", 10, (round) =>
  interruptible(`${cluster.url}?prefix=i${++stores}`, cluster.servers, round),
);
