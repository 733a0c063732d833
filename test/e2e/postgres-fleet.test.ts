/** Two services on one PostgreSQL database deliver each task once, and take over from each other. */
// needs: postgres
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
