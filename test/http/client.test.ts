/** The typed client against a real service: every call, and refusals as errors with their code. */

import { type Client, createClient } from "@redrive/service/client";
import { createKey, memoryKeyStore } from "@redrive/service/http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { endings, type Front, openFront } from "./test-server.ts";

type Created = ReturnType<typeof createKey>;

let front: Front;
let client: Client;
/** Of the tenant that the others are served beside. */
let own: Client;
beforeAll(async () => {
  const [acme, other] = ["acme", "default"].map((tenantId, n) =>
    createKey((bytes) => bytes.fill(7 + n), { tenantId, scopes: ["admin"], now: 0 }),
  ) as [Created, Created];
  front = await openFront({ keys: memoryKeyStore([acme.record, other.record]) });
  client = createClient({ url: front.url, apiKey: acme.key });
  own = createClient({ url: front.url, apiKey: other.key });
});
afterAll(() => front.close());

const once = { maxAttempts: 1 };

test("tasks: from creation to their attempts", async () => {
  const task = { targetUrl: front.target.url, policy: once, json: { a: 1 }, idempotencyKey: "k" };
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
    targetUrl: front.target.url,
    scheduledAt: Date.now() + 60_000,
  });
  expect((await client.cancelTask(later.taskId)).status).toBe("CANCELLED");
  const batch = await client.createTasks([task, { targetUrl: "nonsense" }]);
  expect([batch.accepted, batch.refused]).toEqual([1, 1]);
});

test("policies, destinations, dead letters and redrives", async () => {
  const name = front.target.origin;
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

  front.target.statuses = [400];
  await client.createTask({ targetUrl: front.target.url, policy: once }, { waitSeconds: 10 });
  expect((await client.groupDeadLetters()).groups).toMatchObject([{ count: 1 }]);
  const done = endings(front.redrive, 1);
  const { redriveId } = await client.startRedrive({ filter: {} });
  await done;
  expect((await client.getRedrive(redriveId)).redriven).toBe(1);
  expect((await client.cancelRedrive(redriveId)).redriveId).toBe(redriveId);
  expect((await client.listRedrives()).redrives).toHaveLength(1);
  expect((await client.listDeadLetters({ limit: 5 })).tasks).toHaveLength(1);
  expect(await client.discardDeadLetters({ createdFrom: 0 })).toEqual({ discarded: 1 });
});

test("a refusal is an error with its code and its fields", async () => {
  const missing = client.getTask("nothing");
  await expect(missing).rejects.toMatchObject({ name: "RedriveError", code: "TASK_NOT_FOUND" });
  const bad = client.createTask({ targetUrl: front.target.url, policy: { maxAttempts: 0 } });
  await expect(bad).rejects.toMatchObject({
    code: "INVALID_POLICY",
    problems: [{ field: "policy.maxAttempts" }],
  });
  const stranger = createClient({ url: `${front.url}/`, apiKey: "rdv_x_y" });
  await expect(stranger.listTasks()).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
  await expect(client.retryNow("nothing")).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
  expect(() => createClient({ url: "nonsense" })).toThrow(/got "nonsense"/);
  const other = createClient({
    url: front.url,
    fetch: async () => new Response("oops", { status: 502 }),
  });
  await expect(other.listTasks()).rejects.toMatchObject({ code: "INTERNAL" });
});

test("something that is no Redrive is told from one", async () => {
  const page = createClient({ url: front.url, fetch: async () => new Response("<h1>Hello") });
  const refusal = { code: "INVALID_ARGUMENT", message: expect.stringContaining('"<h1>Hello"') };
  await expect(page.listTasks()).rejects.toMatchObject(refusal);
  const task = { targetUrl: front.target.url };
  await expect(page.createTask(task)).rejects.toMatchObject(refusal);
});

test("whether it is ready, and its metrics, which are not every tenant's to see", async () => {
  expect(await client.isReady()).toBe(true);
  await expect(client.metrics()).rejects.toMatchObject({ code: "FORBIDDEN" });
  expect(await own.metrics()).toContain("retry_tasks");
});
