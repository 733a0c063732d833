/**
 * Two services on two PostgreSQL servers as the shards of one store: each task is delivered once, guards
 * hold over both servers, and a server that crashes stops only its own tasks.
 */
// needs: postgres
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { createRedrive, type Redrive } from "@redrive/service";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { type RestartableServer, startRestartable } from "../servers/restartable.ts";

/** How often each body arrived, and the most requests at once. */
const arrived = new Map<string, number>();
let open = 0;
let maxOpen = 0;
const HOLD_MS = 20;
const sink = createServer((request, response) => {
  maxOpen = Math.max(maxOpen, ++open);
  let body = "";
  request.on("data", (chunk) => {
    body += chunk;
  });
  request.on("end", () => {
    arrived.set(body, (arrived.get(body) ?? 0) + 1);
    // A target that takes a moment, so that requests overlap.
    void sleep(HOLD_MS).then(() => {
      open--;
      response.end();
    });
  });
});
let servers: readonly RestartableServer[] = [];
let url = "";

beforeAll(async () => {
  sink.listen(0, "127.0.0.1");
  await once(sink, "listening");
  url = `http://127.0.0.1:${(sink.address() as AddressInfo).port}`;
  servers = await Promise.all([startRestartable("postgres"), startRestartable("postgres")]);
});
afterAll(async () => {
  sink.close();
  await Promise.all(servers.map((server) => server.stop()));
});

const nextStore = () => servers.map((server) => server.nextUrl());

async function openTwo(store: readonly string[]): Promise<readonly [Redrive, Redrive]> {
  const services = [await createRedrive({ store }), await createRedrive({ store })] as const;
  onTestFinished(async () => {
    await Promise.all(services.map((service) => service.stop()));
  });
  return services;
}

const enqueue = (redrive: Redrive, body: string, fields: object = {}) =>
  redrive.enqueue({ targetUrl: `${url}/hook`, method: "POST", body, ...fields });

/** The shard that the byte in the id selects: of 128 partitions, each of two servers has half. */
const shardOf = (taskId: string) =>
  Math.floor((Number.parseInt(taskId.slice(21, 23), 16) % 128) / 64);
const codeOf = (error: unknown) => (error as { code?: string }).code;
const namesOf = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, n) => `${prefix}-${n}`);
const countOf = (prefix: string) =>
  [...arrived.keys()].filter((name) => name.startsWith(`${prefix}-`)).length;

it("deliver each task once, hold a limit and a pause on both servers, and refuse another list of servers", async () => {
  const store = nextStore();
  const services = await openTwo(store);
  const names = namesOf("once", 120);
  const accepted = await Promise.all(
    names.map((name, n) =>
      enqueue(services[n % 2]!, name, n % 3 === 0 ? {} : { idempotencyKey: name }),
    ),
  );
  await expect.poll(() => countOf("once"), { timeout: 60_000 }).toBe(names.length);
  expect(names.map((name) => arrived.get(name))).toEqual(names.map(() => 1));
  // A key has one place, whichever service is asked.
  const again = await enqueue(services[1], "once-1", { idempotencyKey: "once-1" });
  expect(again).toEqual({ taskId: accepted[1]?.taskId, replayed: true });
  expect(new Set(accepted.map(({ taskId }) => shardOf(taskId)))).toEqual(new Set([0, 1]));
  const [one, two] = store as [string, string];
  await expect(createRedrive({ store: [two, one] })).rejects.toThrow(
    /is shard 2, but is listed as/u,
  );
  await expect(createRedrive({ store: two })).rejects.toThrow(/is shard 2 of 2; list all 2/u);
  await expect(createRedrive({ store: [one, one] })).rejects.toThrow(/each shard once/u);
  await holdOnBoth(services);
});

async function holdOnBoth(services: readonly [Redrive, Redrive]): Promise<void> {
  const [one, two] = services;
  const destination = "limited";
  const concurrency = { max: 4, algorithm: "FIXED" } as const;
  await one.configure(destination, { concurrency, breaker: false, retryBudget: false });
  maxOpen = 0;
  const names = namesOf("limited", 60);
  await Promise.all(
    names.map((name, n) => enqueue(services[n % 2]!, name, { destination, idempotencyKey: name })),
  );
  await expect.poll(() => countOf("limited"), { timeout: 60_000 }).toBe(names.length);
  expect(maxOpen).toBeLessThanOrEqual(4);
  await two.pause(destination);
  const held = namesOf("held", 10);
  await Promise.all(
    held.map((name, n) => enqueue(services[n % 2]!, name, { destination, idempotencyKey: name })),
  );
  // Both services and both servers had time to deliver: other destinations are not held.
  const after = namesOf("after", 10);
  await Promise.all(
    after.map((name, n) => enqueue(services[n % 2]!, name, { idempotencyKey: name })),
  );
  await expect.poll(() => countOf("after"), { timeout: 60_000 }).toBe(after.length);
  expect(countOf("held")).toBe(0);
  await one.resume(destination);
  await expect.poll(() => countOf("held"), { timeout: 60_000 }).toBe(held.length);
}

it("go on when a server crashes, and resume its tasks after it is back", async () => {
  const services = await openTwo(nextStore());
  const [one] = services;
  const later = namesOf("later", 20);
  const scheduledAt = Date.now() + 3000;
  for (const name of later) await enqueue(one, name, { idempotencyKey: name, scheduledAt });
  const crashed = servers[1] as RestartableServer;
  await crashed.crash();
  const startedMs = performance.now();
  const names = namesOf("crash", 40);
  const results = await Promise.all(
    names.map((name, n) =>
      enqueue(services[n % 2]!, name, { idempotencyKey: name }).then(
        () => "accepted",
        (error: unknown) => codeOf(error),
      ),
    ),
  );
  expect(performance.now() - startedMs).toBeLessThan(5500);
  const accepted = names.filter((_, n) => results[n] === "accepted");
  // About half of the keys are on each server.
  expect(new Set(results)).toEqual(new Set(["accepted", "STORE_UNAVAILABLE"]));
  expect(accepted.length).toBeGreaterThan(8);
  await expect.poll(() => countOf("crash"), { timeout: 60_000 }).toBe(accepted.length);
  // Tasks without a key go to the server that responds.
  for (const name of namesOf("keyless", 5)) await enqueue(one, name);
  await expect.poll(() => countOf("keyless"), { timeout: 60_000 }).toBe(5);
  await crashed.start();
  const shards: (number | undefined)[] = [];
  for (const [n, name] of names.entries()) {
    const put = async () => {
      const again = enqueue(services[n % 2]!, name, { idempotencyKey: name });
      const task = await again.catch(() => undefined);
      shards[n] = task && shardOf(task.taskId);
      return task !== undefined;
    };
    await expect.poll(put, { timeout: 30_000 }).toBe(true);
  }
  // Only tasks of the crashed server were refused.
  expect(shards).toEqual(results.map((result) => (result === "accepted" ? 0 : 1)));
  await expect.poll(() => countOf("crash"), { timeout: 60_000 }).toBe(names.length);
  await expect.poll(() => countOf("later"), { timeout: 60_000 }).toBe(later.length);
  // No attempt of these runs while the server is down: those of the other server go on, and its own are
  // stored after it is back. A claim whose commit was reported as failed is released before it is sent
  // (`rescuer.ts`), and the end of an old lease does not abort attempts of the new one. So none is repeated.
  // An attempt that runs during the crash may be: if its result cannot be stored before the lease of the
  // node ends, another node repeats it. On a slow machine, tasks named `later` may be such, so only their
  // arrival is checked.
  expect(names.map((name) => arrived.get(name))).toEqual(names.map(() => 1));
});
