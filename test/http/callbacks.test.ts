/** Callbacks: each end of a task is told once, by a task that raises none; and judged as a target. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { endings, type Front, openFront, openTarget, type Target } from "./test-server.ts";

let front: Front;
let hook: Target;
beforeEach(async () => {
  front = await openFront();
  hook = await openTarget();
});
afterEach(async () => {
  await front.close();
  await hook.close();
});

const told = () => hook.received.map(({ body }) => JSON.parse(body.toString()));

const task = (more: object = {}) => ({
  targetUrl: front.target.url,
  policy: { maxAttempts: 1 },
  callbackUrl: `${hook.url}?token=x#part`,
  labels: { order: "7" },
  ...more,
});

test("a success and a dead letter are told, with no payload, by internal tasks", async () => {
  const done = endings(front.redrive, 2);
  const { taskId } = (await front.call({ body: task({ body: "secret" }) })).json;
  await done;
  expect(told()).toMatchObject([
    { type: "task.succeeded", taskId, status: "SUCCEEDED", attemptNumber: 1, lastStatus: 200 },
  ]);
  expect(hook.received[0]?.url).toBe("/hook?token=x");
  expect(hook.received[0]?.headers["idempotency-key"]).toBe(`callback-${taskId}`);
  expect(hook.received[0]?.body.toString()).not.toContain("secret");
  front.target.statuses = [400];
  const dead = endings(front.redrive, 2);
  await front.call({ body: task() });
  await dead;
  expect(told()[1]).toMatchObject({
    status: "EXHAUSTED",
    reason: "not-retryable",
    lastStatus: 400,
  });
  const path = `/retry-tasks?label=redrive.callback=${taskId}`;
  const { tasks } = (await front.call({ method: "GET", path })).json;
  expect(tasks).toMatchObject([{ policyId: "webhook", callbackUrl: null, status: "SUCCEEDED" }]);
  expect((await front.call({ method: "GET", path: "/retry-tasks" })).json.tasks).toHaveLength(4);
});

test("a cancel is told, of a waiting task and of one under way", async () => {
  const later = { scheduledAt: front.redrive.now() + 60_000 };
  const waiting = (await front.call({ body: task(later) })).json.taskId;
  // The second cancel is told too, the callback of the first is the third end.
  const done = endings(front.redrive, 3);
  const cancel = (taskId: string) =>
    front.call({ method: "DELETE", path: `/retry-tasks/${taskId}` });
  expect((await cancel(waiting)).status).toBe(200);
  expect((await cancel(waiting)).status).toBe(200);
  await done;
  expect(told()).toMatchObject([{ taskId: waiting, status: "CANCELLED", attemptNumber: 0 }]);

  const release = front.target.hold();
  front.target.statuses = [500];
  const started = new Promise<void>((resolve) => {
    front.redrive.onEvent(({ type }) => type === "attempt.started" && resolve());
  });
  const running = (await front.call({ body: task() })).json.taskId;
  await started;
  const both = endings(front.redrive, 2);
  expect((await cancel(running)).status).toBe(202);
  release();
  await both;
  expect(told()[1]).toMatchObject({ taskId: running, status: "CANCELLED", attemptNumber: 1 });
});

test("a callback that fails is retried and has none itself", async () => {
  hook.statuses = [410];
  const done = endings(front.redrive, 2);
  await front.call({ body: task() });
  await done;
  expect(hook.received).toHaveLength(1);
  const { tasks } = (await front.call({ method: "GET", path: "/dead-letters" })).json;
  expect(tasks).toMatchObject([{ policyId: "webhook", lastStatus: 410 }]);
});

test("callbackUrl is judged as targetUrl is, with the same codes", async () => {
  const rows: readonly (readonly [string | number, number, string])[] = [
    ["http://169.254.169.254/latest", 422, "TARGET_DENIED"],
    ["http://10.0.0.1/", 422, "TARGET_DENIED"],
    ["http://metadata.google.internal/", 422, "TARGET_DENIED"],
    ["ftp://example.com/", 400, "INVALID_ARGUMENT"],
    ["http://u:p@example.com/", 400, "INVALID_ARGUMENT"],
    ["//example.com/", 400, "INVALID_ARGUMENT"],
    ["http://example.com:0/", 400, "INVALID_ARGUMENT"],
    ["http://loc\talhost/", 400, "INVALID_ARGUMENT"],
    [7, 400, "INVALID_ARGUMENT"],
  ];
  for (const [url, status, code] of rows) {
    const asCallback = await front.call({ body: task({ callbackUrl: url }) });
    const asTarget = await front.call({ body: task({ targetUrl: url, callbackUrl: undefined }) });
    expect([asCallback.status, asCallback.json.code], String(url)).toEqual([status, code]);
    expect([asTarget.status, asTarget.json.code], String(url)).toEqual([status, code]);
    expect(asCallback.text, String(url)).toContain("callback");
    expect(asCallback.text, String(url)).not.toContain("targetUrl");
  }
  expect((await front.call({ method: "GET", path: "/retry-tasks" })).json.tasks).toEqual([]);
});

test("the service's own port is no callback, at creation nor by a name found at the attempt", async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const own = await openFront({ own: [{ port }] });
  const refused = await own.call({
    body: { targetUrl: own.target.url, callbackUrl: `http://127.0.0.1:${port}/retry-tasks` },
  });
  expect([refused.status, refused.json.code]).toEqual([422, "TARGET_DENIED"]);
  const done = endings(own.redrive, 2);
  const named = { targetUrl: own.target.url, callbackUrl: `http://localhost:${port}/retry-tasks` };
  const { status } = await own.call({ body: named });
  expect(status).toBe(202);
  await done;
  const { tasks } = (await own.call({ method: "GET", path: "/dead-letters" })).json;
  expect(tasks).toMatchObject([{ policyId: "webhook", reason: "target-denied" }]);
  await own.close();
  server.close();
});
