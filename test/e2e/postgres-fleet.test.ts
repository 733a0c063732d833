/** Two services on one PostgreSQL database deliver each task once, and take over from each other. */
// needs: postgres
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createRedrive, type Redrive } from "@redrive/service";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type PostgresServer, startPostgres } from "../servers/postgres.ts";

const TASKS = 200;

/** How often each body arrived. */
const arrived = new Map<string, number>();
const sink = createServer((request, response) => {
  let body = "";
  request.on("data", (chunk) => {
    body += chunk;
  });
  request.on("end", () => {
    arrived.set(body, (arrived.get(body) ?? 0) + 1);
    response.end();
  });
});
let postgres: PostgresServer;
let url = "";

beforeAll(async () => {
  sink.listen(0, "127.0.0.1");
  await once(sink, "listening");
  url = `http://127.0.0.1:${(sink.address() as AddressInfo).port}`;
  postgres = await startPostgres();
});
afterAll(async () => {
  sink.close();
  await postgres.stop();
});

/** A service on a schema. */
const open = (schema: string) => createRedrive({ store: `${postgres.url}?schema=${schema}` });

/** Two services that know of each other: each one leases a part of the partitions. */
async function openTwo(schema: string): Promise<readonly [Redrive, Redrive]> {
  const one = await open(schema);
  const two = await open(schema);
  return [one, two];
}

async function enqueue(redrive: Redrive, name: string, scheduledAt?: number): Promise<void> {
  await redrive.enqueue({
    targetUrl: `${url}/hook`,
    method: "POST",
    body: name,
    idempotencyKey: name,
    ...(scheduledAt !== undefined && { scheduledAt }),
  });
}

const countOf = (prefix: string) => [...arrived.keys()].filter((name) => name.startsWith(prefix));

it("deliver each task once, whichever service accepted it", async () => {
  const services = await openTwo("shared");
  const names = Array.from({ length: TASKS }, (_, n) => `shared-${n}`);
  await Promise.all(names.map((name, n) => enqueue(services[n % 2]!, name)));
  await expect.poll(() => countOf("shared-").length, { timeout: 60_000 }).toBe(TASKS);
  await Promise.all(services.map((service) => service.stop()));
  expect(names.map((name) => arrived.get(name))).toEqual(names.map(() => 1));
});

it("tell the receiver of alerts once about each opening of a breaker, whichever node saw it", async () => {
  const posts: { type: string; episode: string }[] = [];
  let status = 503;
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += chunk;
    });
    request.on("end", () => {
      if (request.url === "/alerts") posts.push(JSON.parse(body));
      response.writeHead(request.url === "/alerts" ? 200 : status).end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const store = `${postgres.url}?schema=alerts`;
  const openNode = () => createRedrive({ store, alerts: { url: `${origin}/alerts` } });
  const nodes = [await openNode(), await openNode()];
  const [one] = nodes as [Redrive, Redrive];
  await one.configure("orders", { breaker: { minCalls: 4, openMs: 300 } });
  const policy = { maxAttempts: 100, initialDelayMs: 20, maxDelayMs: 50, totalBudgetMs: 600_000 };
  for (let flap = 0; flap < 3; flap++) {
    status = 503;
    const tasks = Array.from({ length: 20 }, (_, n) =>
      nodes[n % 2]!.enqueue({ targetUrl: `${origin}/hook`, destination: "orders", policy }),
    );
    await Promise.all(tasks);
    await expect.poll(() => posts.length, { timeout: 60_000 }).toBe(2 * flap + 1);
    status = 200;
    await expect.poll(() => posts.length, { timeout: 60_000 }).toBe(2 * flap + 2);
  }
  await Promise.all(nodes.map((node) => node.stop()));
  server.close();
  const [firing, resolved] = ["alert.firing", "alert.resolved"];
  expect(posts.map(({ type }) => type)).toEqual([
    firing,
    resolved,
    firing,
    resolved,
    firing,
    resolved,
  ]);
  expect(new Set(posts.map(({ episode }) => episode)).size).toBe(3);
});

it("take over the waiting tasks of a service that stops", async () => {
  const [one, two] = await openTwo("taken");
  const names = Array.from({ length: 40 }, (_, n) => `taken-${n}`);
  const scheduledAt = Date.now() + 3000;
  await Promise.all(names.map((name) => enqueue(one, name, scheduledAt)));
  await one.stop();
  await expect.poll(() => countOf("taken-").length, { timeout: 60_000 }).toBe(names.length);
  await two.stop();
  expect(names.map((name) => arrived.get(name))).toEqual(names.map(() => 1));
});

it("a node that lacks a new encryption key gives tasks back, and they are sent once it has the key", async () => {
  const [old, fresh] = [0, 1].map(() => randomBytes(32).toString("base64"));
  const store = `${postgres.url}?schema=keys`;
  const start = (encryptionKey: string) => createRedrive({ store, encryptionKey });
  const before = await start(`${old}`);
  const behind = await start(`${old}`);
  await before.stop();
  const ahead = await start(`${fresh},${old}`);
  const lacking: string[] = [];
  behind.onEvent(({ type, taskId }) => {
    if (type === "secret.unavailable" && taskId !== undefined) lacking.push(taskId);
  });
  const names = Array.from({ length: 40 }, (_, n) => `keyed-${n}`);
  const scheduledAt = ahead.now() + 2000;
  const ids = await Promise.all(
    names.map(async (body) => {
      const headers = { authorization: `Bearer ${body}` };
      const task = { targetUrl: `${url}/hook`, body, headers, scheduledAt, idempotencyKey: body };
      return (await ahead.enqueue(task)).taskId;
    }),
  );
  const tasks = () => Promise.all(ids.map((id) => ahead.get(id)));
  const countBy = async (status: string) =>
    (await tasks()).filter((task) => task?.status === status).length;
  await expect
    .poll(async () => (await countBy("SUCCEEDED")) + new Set(lacking).size, { timeout: 30_000 })
    .toBe(names.length);
  expect(await countBy("EXHAUSTED")).toBe(0);
  expect(lacking.length).toBeGreaterThan(0);
  const waiting = (await tasks()).find((task) => task?.taskId === lacking[0]);
  expect(waiting).toMatchObject({ status: "PENDING", attemptNumber: 0 });
  expect(waiting?.lastError).toContain("REDRIVE_ENCRYPTION_KEY");
  expect(waiting && (await behind.explain(waiting))).toContain("cannot be decrypted");
  const { keys, nodes, nodesWith } = await ahead.encryption();
  expect([nodes, keys.map((id) => nodesWith[id])]).toEqual([2, [1, 2]]);
  await behind.stop();
  const joined = await start(`${fresh},${old}`);
  await Promise.all(lacking.map((id) => joined.retryNow(id).catch(() => undefined)));
  await expect.poll(() => countBy("SUCCEEDED"), { timeout: 30_000 }).toBe(names.length);
  expect(names.map((name) => arrived.get(name))).toEqual(names.map(() => 1));
  await Promise.all([ahead.stop(), joined.stop()]);
});
