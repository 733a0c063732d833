/**
 * Tests of the typed client against a real service: every call, and error responses as coded
 * errors.
 */

import { RedriveError, virtualClock } from "@redrive/core";
import { memoryStore, type Store } from "@redrive/service";
import { type Client, createClient } from "@redrive/service/client";
import { createKey, memoryKeyStore } from "@redrive/service/http";
import { retry } from "redrive";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { endings, openTestServer, type TestServer } from "./test-server.ts";

type Created = ReturnType<typeof createKey>;

let server: TestServer;
let client: Client;
/** A key of the default tenant. */
let own: Client;
beforeAll(async () => {
  const [acme, other] = ["acme", "default"].map((tenantId, n) =>
    createKey((bytes) => bytes.fill(7 + n), { tenantId, scopes: ["admin"], now: 0 }),
  ) as [Created, Created];
  server = await openTestServer({ keys: memoryKeyStore([acme.record, other.record]) });
  client = createClient({ url: server.url, apiKey: acme.key });
  own = createClient({ url: server.url, apiKey: other.key });
});
afterAll(() => server.close());

const once = { maxAttempts: 1 };

test("tasks: from creation to their attempts", async () => {
  const task = { targetUrl: server.target.url, policy: once, json: { a: 1 }, idempotencyKey: "k" };
  const created = await client.createTask(task, { waitSeconds: 10 });
  expect(created).toMatchObject({ status: "SUCCEEDED", lastStatus: 200, replayed: false });
  const { taskId } = created;
  expect(await client.createTask(task)).toMatchObject({ taskId, replayed: true });
  expect(await client.getTask(taskId, { include: ["body", "explain"] })).toMatchObject({
    body: '{"a":1}',
    explain: "It succeeded at attempt 1.",
  });
  const page = await client.listTasks({ status: "SUCCEEDED", limit: 1 });
  expect(page.tasks.map((one) => one.taskId)).toEqual([taskId]);
  expect((await client.listAttempts(taskId, { include: "body" })).attempts[0]?.responseBody).toBe(
    "answered",
  );
  const later = await client.createTask({
    targetUrl: server.target.url,
    scheduledAt: Date.now() + 60_000,
  });
  expect((await client.cancelTask(later.taskId)).status).toBe("CANCELLED");
  const batch = await client.createTasks([task, { targetUrl: "nonsense" }]);
  expect([batch.accepted, batch.refused]).toEqual([1, 1]);
});

test("policies, destinations, dead letters and redrives", async () => {
  const name = server.target.origin;
  expect((await client.registerPolicy({ policyId: "p", maxAttempts: 1 })).version).toBe(1);
  expect((await client.replacePolicy("p", { maxAttempts: 2 })).version).toBe(2);
  expect((await client.getPolicy("p", { version: 1 })).document).toMatchObject({ maxAttempts: 1 });
  await client.removePolicy("p");
  expect((await client.listPolicies()).policies.map(({ policyId }) => policyId)).not.toContain("p");
  await client.configureDestination(name, { concurrency: { max: 5 } });
  expect((await client.pauseDestination(name)).pausedAt).not.toBeNull();
  expect((await client.resumeDestination(name)).pausedAt).toBeNull();
  expect((await client.getDestination(name)).name).toBe(name);
  expect((await client.listDestinations()).destinations).toHaveLength(1);
  await client.configureDestination("another", {});
  const first = await client.listDestinations({ limit: 1 });
  expect(first.destinations.map((one) => one.name)).toEqual(["another"]);
  const rest = await client.listDestinations({ cursor: first.cursor ?? "" });
  expect(rest.destinations.map((one) => one.name)).toEqual([name]);
  expect(rest.cursor).toBeNull();

  server.target.statuses = [400];
  await client.createTask({ targetUrl: server.target.url, policy: once }, { waitSeconds: 10 });
  expect((await client.groupDeadLetters()).groups).toMatchObject([{ count: 1 }]);
  const done = endings(server.redrive, 1);
  const { redriveId } = await client.startRedrive({ filter: {} });
  await done;
  expect((await client.getRedrive(redriveId)).redriven).toBe(1);
  expect((await client.cancelRedrive(redriveId)).redriveId).toBe(redriveId);
  expect((await client.listRedrives()).redrives).toHaveLength(1);
  expect((await client.listDeadLetters({ limit: 5 })).tasks).toHaveLength(1);
  expect(await client.discardDeadLetters({ createdFrom: 0 })).toEqual({ discarded: 1 });
});

test("an error response is an error with its code and fields", async () => {
  const missing = client.getTask("nothing");
  await expect(missing).rejects.toMatchObject({ name: "RedriveError", code: "TASK_NOT_FOUND" });
  const bad = client.createTask({ targetUrl: server.target.url, policy: { maxAttempts: 0 } });
  await expect(bad).rejects.toMatchObject({
    code: "INVALID_POLICY",
    problems: [{ field: "policy.maxAttempts" }],
  });
  const stranger = createClient({ url: `${server.url}/`, apiKey: "rdv_x_y" });
  await expect(stranger.listTasks()).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
  await expect(client.retryNow("nothing")).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
  expect(() => createClient({ url: "nonsense" })).toThrow(/got "nonsense"/);
  const other = createClient({
    url: server.url,
    fetch: async () => new Response("oops", { status: 502 }),
  });
  await expect(other.listTasks()).rejects.toMatchObject({ code: "INTERNAL" });
});

test("a server other than Redrive is detected", async () => {
  const page = createClient({ url: server.url, fetch: async () => new Response("<h1>Hello") });
  const refusal = { code: "INVALID_ARGUMENT", message: expect.stringContaining('"<h1>Hello"') };
  await expect(page.listTasks()).rejects.toMatchObject(refusal);
  const task = { targetUrl: server.target.url };
  await expect(page.createTask(task)).rejects.toMatchObject(refusal);
});

test("readiness and metrics, which only the default tenant may read", async () => {
  expect(await client.isReady()).toBe(true);
  await expect(client.metrics()).rejects.toMatchObject({ code: "FORBIDDEN" });
  expect(await own.metrics()).toContain("retry_tasks");
});

/** A clock of a client whose waits pass at once. */
function passingClock() {
  const clock = virtualClock(Date.now());
  return { ...clock, sleep: (ms: number) => clock.advance(ms) };
}

describe("while the database restarts", () => {
  /** A service whose store fails until `repair`, as PostgreSQL does while it starts. */
  async function brokenService() {
    const memory = memoryStore();
    let isDown = true;
    const commit: Store["commit"] = (batch) =>
      isDown
        ? Promise.reject(new Error("the database system is starting up"))
        : memory.commit(batch);
    const broken = await openTestServer({ store: { ...memory, commit } });
    const clock = passingClock();
    const requests: string[] = [];
    const fetch: typeof globalThis.fetch = async (...args) => {
      const response = await globalThis.fetch(...args);
      requests.push(`${response.status}`);
      if (requests.length === 2) isDown = false;
      return response;
    };
    const { url, target } = broken;
    return {
      broken,
      clock,
      requests,
      options: { url, clock, fetch },
      task: { targetUrl: target.url },
    };
  }

  test("creates with a key survive it with the defaults, once", async () => {
    const { broken, requests, options, task } = await brokenService();
    const keyed = createClient(options);
    const created = await keyed.createTask({ ...task, idempotencyKey: "order-1" });
    expect(created).toMatchObject({ replayed: false });
    expect(requests).toEqual(["503", "503", "202"]);
    const { accepted } = await keyed.createTasks([{ ...task, idempotencyKey: "order-2" }]);
    expect(accepted).toBe(1);
    expect((await keyed.listTasks()).tasks).toHaveLength(2);
    await broken.close();
  });

  test("a create without a key ends with an error that says why, and when to come back", async () => {
    const { broken, requests, options, task } = await brokenService();
    const error = await createClient(options)
      .createTask(task)
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RedriveError);
    expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", status: 503 });
    expect((error as RedriveError).retryAfterMs).toBeGreaterThan(0);
    expect(requests).toEqual(["503"]);
    await broken.close();
  });

  test("a retry around the client decides by the status and the hint", async () => {
    const { broken, clock, requests, options, task } = await brokenService();
    const plain = createClient({ ...options, retry: false });
    const waits: number[] = [];
    const created = retry(() => plain.createTask({ ...task, idempotencyKey: "order-3" }), {
      clock,
      onEvent(event) {
        if (event.type !== "retry") return;
        waits.push(event.delayMs);
        void clock.advance(event.delayMs);
      },
    });
    expect(await created).toMatchObject({ replayed: false });
    expect(requests).toEqual(["503", "503", "202"]);
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(1000); // Retry-After
    const mistake = retry(() => plain.createTask({ targetUrl: "nonsense" }), { clock });
    await expect(mistake).rejects.toMatchObject({ code: "INVALID_ARGUMENT", status: 400 });
    await broken.close();
  });

  test("a service that is being started is waited for", async () => {
    const clock = passingClock();
    let requests = 0;
    const fetch: typeof globalThis.fetch = (input, init) => {
      const address = ++requests < 4 ? "http://127.0.0.1:1/" : String(input);
      return globalThis.fetch(address, init);
    };
    const patient = createClient({ url: server.url, apiKey: "unknown", clock, fetch });
    const error = await patient.listTasks().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "UNAUTHENTICATED", status: 401 });
    expect(requests).toBe(4);
  });
});
