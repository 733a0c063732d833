/** Tests of `redrive bridge` with a real Redis and a service that goes down. */
// needs: redis
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { redrive } from "../../apps/cli/src/program.testing.ts";
import { freePort } from "../servers/free-port.ts";
import { type RedisServer, startRedis } from "../servers/redis.ts";
import { BridgeWorld } from "./bridge-world.ts";
import { until } from "./received.ts";

const world = new BridgeWorld();
let server: RedisServer;
let redis: Redis;

beforeAll(async () => {
  [server] = await Promise.all([startRedis(), world.start()]);
  redis = new Redis(server.url);
});

afterAll(async () => {
  redis.disconnect();
  await world.stop();
  await server.stop();
});

test("the fields of an entry are sent as JSON, or one of them as it is", async () => {
  await redis.xadd("all", "*", "order", "7", "shop", "berlin");
  await redis.xadd("one", "*", "id", "order-8", "order", '{"id":8}');
  await redis.xadd("one", "*", "id", "order-8", "order", '{"id":8}');
  const all = await world.bridge({ from: server.url, queue: "all" });
  await until(() => world.arrived.length === 1);
  const one = await world.bridge({
    from: server.url,
    queue: "one",
    idField: "id",
    bodyField: "order",
    headers: { "Content-Type": "application/json" },
  });
  await until(() => world.arrived.length === 2);
  await until(async () => (await redis.xpending("one", "bridge"))[0] === 0);
  await Promise.all([all.stop(), one.stop()]);
  expect(world.arrived.map(({ body }) => body.toString())).toEqual([
    '{"order":"7","shop":"berlin"}',
    '{"id":8}',
  ]);
  expect(world.arrived[1]?.headers).toMatchObject({
    "content-type": "application/json",
    "idempotency-key": "one:order-8",
  });
});

test("while the service is down, messages wait at the broker, and none is lost", async () => {
  const before = world.arrived.length;
  await world.stopService();
  const ids = ["a", "b", "c"];
  for (const id of ids) await redis.xadd("down", "*", "id", id);
  const bridge = await world.bridge({ from: server.url, queue: "down" });
  await until(() => bridge.written.err !== "");
  expect(bridge.written.err).toMatch(/^no task was created: fetch failed \(.*ECONNREFUSED.*\)/);
  await world.startService();
  await until(() => world.arrived.length === before + ids.length);
  await until(() => bridge.written.err.includes("the service accepts tasks again"));
  await bridge.stop();
  const bodies = world.arrived.slice(before).map(({ body }) => JSON.parse(body.toString()).id);
  expect(bodies.toSorted()).toEqual(ids);
  expect(await redis.xlen("{down}:bridge:dead")).toBe(0);
});

const streamTarget = (stream: string) =>
  `redis-stream://${new URL(server.url).host}/0?stream=${stream}`;

test("messages go from a stream through the service to another stream, with their type and trace", async () => {
  const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const fields = ["id", "order-1", "body", '{"id":1}', "content-type", "application/json"];
  await redis.xadd("from", "*", ...fields, "traceparent", traceparent);
  await redis.xadd("from", "*", ...fields, "traceparent", traceparent);
  const bridge = await world.bridge({
    ...{ from: server.url, queue: "from", idField: "id", bodyField: "body" },
    targetUrl: streamTarget("to"),
  });
  await until(async () => (await redis.xlen("to")) === 1);
  await until(async () => (await redis.xpending("from", "bridge"))[0] === 0);
  await bridge.stop();
  const [[, added] = ["", []]] = await redis.xrange("to", "-", "+");
  const entry = Object.fromEntries(
    added.flatMap((name, index) => (index % 2 === 0 ? [[name, added[index + 1]]] : [])),
  );
  expect(entry).toMatchObject({
    "idempotency-key": "from:order-1",
    "content-type": "application/json",
    "redrive-attempt": "1",
    "redrive-hop": "1",
    traceparent: expect.stringContaining("4bf92f3577b34da6a3ce929d0e0e4736"),
    body: '{"id":1}',
  });
});

test("a message that comes back to its own stream becomes a dead letter, and does not circle forever", async () => {
  await redis.xadd("loop", "*", "body", "again");
  const bridge = await world.bridge({
    ...{ from: server.url, queue: "loop", bodyField: "body" },
    targetUrl: streamTarget("loop"),
  });
  await until(async () => (await redis.xlen("{loop}:bridge:dead")) === 1);
  await bridge.stop();
  expect(bridge.written.err).toContain("4 Redrive services");
  expect(await redis.xlen("loop")).toBe(5);
});

test.each(["127.0.0.1", "localhost"])("a broker that is not there is refused: %s", async (host) => {
  const port = await freePort();
  const shown = await redrive(
    `bridge http://127.0.0.1:1/ --from redis://${host}:${port} --queue orders`,
  );
  expect(shown).toMatchObject({
    code: 1,
    err: expect.stringMatching(`^error: cannot read orders at ${host}:${port}: .*ECONNREFUSED`),
  });
});

test("a lost connection is opened again, and a bridge without its broker can be stopped", async () => {
  const [proxy, sockets] = [createServer(), new Set<Socket>()];
  const broker = new URL(server.url);
  proxy.on("connection", (socket) => {
    const upstream = connect(Number(broker.port), broker.hostname);
    for (const one of [socket, upstream]) sockets.add(one.on("error", () => undefined));
    socket.pipe(upstream).pipe(socket);
  });
  const listen = async (port: number) =>
    void (await once(proxy.listen(port, "127.0.0.1"), "listening"));
  const cut = () => {
    proxy.close();
    for (const socket of sockets) socket.destroy();
  };
  await listen(0);
  const { port } = proxy.address() as AddressInfo;
  const bridge = await world.bridge({ from: `redis://127.0.0.1:${port}`, queue: "lost" });
  cut();
  await until(() => bridge.written.err.includes("the broker failed"));
  await listen(port);
  const before = world.arrived.length;
  await redis.xadd("lost", "*", "id", "lost-1");
  await until(() => world.arrived.length === before + 1);
  cut();
  await bridge.stop();
});

test("a broker that does not respond is an error that names it", async () => {
  const { port } = new URL(server.url);
  const key = "not-a-stream";
  await redis.set(key, "text");
  const shown = await redrive(
    `bridge http://127.0.0.1:1/ --from redis://127.0.0.1:${port} --queue ${key}`,
  );
  expect(shown).toMatchObject({
    code: 1,
    err: expect.stringMatching(`^error: cannot read ${key} at 127.0.0.1:${port}: .*WRONGTYPE`),
  });
});
