/** Two services on one Redis server: they share the work, and one takes over from the other. */
// needs: redis
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createRedrive } from "../../create-redrive.ts";
import type { Redrive } from "../../redrive.ts";
import { eventually, type RedisServer, startRedis } from "./redis-server.testing.ts";

let server: RedisServer;
let prefixes = 0;
let nodes: Redrive[] = [];

/** The key of each request. */
let keys: string[] = [];
const sink = createServer((request, response) => {
  keys.push(String(request.headers["idempotency-key"]));
  request.resume().on("end", () => response.end("thanks"));
});
const targetUrl = () => `http://127.0.0.1:${(sink.address() as AddressInfo).port}/hook`;

beforeAll(async () => {
  server = await startRedis();
  sink.listen(0, "127.0.0.1");
  await once(sink, "listening");
});
beforeEach(async () => {
  const store = `${server.url}?prefix=fleet${++prefixes}`;
  const options = { store, leaseMs: 1000 };
  nodes = await Promise.all([createRedrive(options), createRedrive(options)]);
});
afterEach(async () => {
  await Promise.all(nodes.map((node) => node.stop()));
  keys = [];
});
afterAll(async () => {
  sink.close();
  await server.stop();
});

async function enqueue(count: number, scheduledAt?: number): Promise<readonly string[]> {
  const time = scheduledAt === undefined ? {} : { scheduledAt };
  const accepted = await Promise.all(
    Array.from({ length: count }, (_, n) =>
      (nodes[n % 2] as Redrive).enqueue({ targetUrl: targetUrl(), json: { n }, ...time }),
    ),
  );
  return accepted.map(({ taskId }) => taskId);
}

describe("two services on one Redis server", () => {
  it("deliver each of 200 tasks once", async () => {
    const taskIds = await enqueue(200);
    await eventually("all are delivered", async () => keys.length >= 200);
    expect([...keys].sort()).toEqual([...taskIds].sort());
    await eventually("all are settled", async () => {
      const tasks = await Promise.all(taskIds.map((taskId) => nodes[0]?.get(taskId)));
      return tasks.every((task) => task?.status === "SUCCEEDED");
    });
    expect(keys.length).toBe(200);
  });

  it("take over the waiting tasks of one that stops", async () => {
    const taskIds = await enqueue(100, Date.now() + 1500);
    await nodes[0]?.stop();
    expect(keys).toEqual([]);
    await eventually("all are delivered", async () => keys.length >= 100);
    expect([...keys].sort()).toEqual([...taskIds].sort());
  });
});
