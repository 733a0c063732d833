/** Runs the conformance suite on a Redis store with one server, and interrupts its commits. */
// needs: redis
import { afterAll, beforeAll } from "vitest";
import type { Store } from "../../model/store.ts";
import { storeConformance } from "../conformance.testing.ts";
import { interruptedConformance } from "../conformance-interrupted.testing.ts";
import { interruptible } from "./interrupted.testing.ts";
import { type RedisServer, startRedis } from "./redis-server.testing.ts";
import { redisStore } from "./redis-store.ts";

let server: RedisServer;
let stores = 0;
beforeAll(async () => {
  // Without a sync per write: the suite commits thousands of times, and no test here cuts the power.
  server = await startRedis({ appendfsync: "everysec" });
});
afterAll(() => server.stop());

const open = (): Promise<Store> =>
  redisStore(`${server.url}?prefix=t${++stores}&durability=relaxed`);

storeConformance("Redis", open);

interruptedConformance("Redis", 10, (round) =>
  interruptible(`${server.url}?prefix=i${++stores}&durability=relaxed`, [server], round),
);
