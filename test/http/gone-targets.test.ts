/** Tests of `disableOnGone` and `deadLetterUrl`, over HTTP with a real target. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, expect, test } from "vitest";
import { endings, openTestServer, type TestServer } from "./test-server.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-gone-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let server: TestServer | undefined;
afterEach(async () => {
  await server?.close();
  server = undefined;
});

const path = "/destinations/hooks";
const POLICY = { maxAttempts: 2, initialDelayMs: 1, maxDelayMs: 1 };

async function openHooks(document: object, store = "memory:"): Promise<TestServer> {
  server = await openTestServer({ store });
  await server.call({ method: "PUT", path, body: document });
  return server;
}

/** Creates a task, and waits until `ends` tasks have ended. */
async function deliver({ call, redrive }: TestServer, targetUrl: string, ends = 1) {
  const done = endings(redrive, ends);
  const body = { targetUrl, destination: "hooks", policy: POLICY, body: "order 42" };
  const { json } = await call({ body });
  await done;
  return (await call({ method: "GET", path: `/retry-tasks/${json.taskId}` })).json;
}

/** Resolves once the destination has disabled a target. */
async function disabling({ redrive }: TestServer): Promise<void> {
  await new Promise<void>((resolve) => {
    const stop = redrive.onEvent(({ type }) => {
      if (type !== "destination.changed") return;
      stop();
      resolve();
    });
  });
}

test("a 410 disables the URL: waiting tasks end, new ones are refused, others are sent", async () => {
  const hooks = await openHooks({ disableOnGone: true });
  const { call, target, redrive } = hooks;
  const later = { targetUrl: target.url, destination: "hooks", scheduledAt: Date.now() + 60_000 };
  const waiting = (await call({ body: later })).json.taskId;
  target.statuses = [410];
  const disabled = disabling(hooks);
  expect(await deliver(hooks, target.url)).toMatchObject({ lastStatus: 410 });
  await disabled;

  const ended = endings(redrive, 1);
  await call({ path: `/retry-tasks/${waiting}/retry` });
  await ended;
  const { json } = await call({ method: "GET", path: `/retry-tasks/${waiting}` });
  expect(json).toMatchObject({ status: "EXHAUSTED", reason: "target-gone", attemptNumber: 0 });
  const refused = await call({ body: { targetUrl: target.url, destination: "hooks" } });
  expect(refused.status).toBe(422);
  expect(refused.json).toMatchObject({ code: "TARGET_DISABLED" });
  expect(await deliver(hooks, `${target.origin}/other`)).toMatchObject({ status: "SUCCEEDED" });
  expect(target.received.map(({ url }) => url)).toEqual(["/hook", "/other"]);
});

test("a disabled URL survives a restart and a new document, until it is enabled", async () => {
  const store = `sqlite:${join(folder, "restart.db")}`;
  const before = await openHooks({ disableOnGone: true }, store);
  const targetUrl = before.target.url;
  before.target.statuses = [410];
  const disabled = disabling(before);
  await deliver(before, targetUrl);
  await disabled;
  await before.call({ method: "PUT", path, body: { disableOnGone: true, description: "new" } });
  await before.close();

  server = await openTestServer({ store });
  const body = { targetUrl, destination: "hooks" };
  expect((await server.call({ body })).json).toMatchObject({ code: "TARGET_DISABLED" });
  const { json } = await server.call({ method: "GET", path });
  expect(json).toMatchObject({ disabledTargets: [{ targetUrl }] });
  expect(json.document).toEqual({ disableOnGone: true, description: "new" });

  const enabled = await server.call({ path: `${path}/enable`, body: { targetUrl } });
  expect(enabled.json).toMatchObject({ disabledTargets: [] });
  expect((await server.call({ body })).status).toBe(202);
  const again = await server.call({ path: `${path}/enable`, body: { targetUrl } });
  expect(again.json).toMatchObject({ code: "NOT_FOUND" });
});

test("without disableOnGone, a 410 ends only its own task", async () => {
  const hooks = await openHooks({ description: "plain" });
  hooks.target.statuses = [410];
  expect(await deliver(hooks, hooks.target.url)).toMatchObject({ reason: "not-retryable" });
  expect(await deliver(hooks, hooks.target.url)).toMatchObject({ status: "SUCCEEDED" });
});

test("a dead letter is posted to deadLetterUrl, once", async () => {
  const hooks = await openHooks({ description: "no forward yet" });
  const { call, target, redrive } = hooks;
  const deadLetterUrl = `${target.origin}/dead`;
  await call({ method: "PUT", path, body: { deadLetterUrl } });
  target.statuses = [400];
  const task = await deliver(hooks, target.url, 2);
  expect(target.received.map(({ url }) => url)).toEqual(["/hook", "/dead"]);
  expect(JSON.parse(target.received[1]?.body.toString() ?? "")).toMatchObject({
    type: "task.dead-letter",
    taskId: task.taskId,
    reason: "not-retryable",
    lastStatus: 400,
    request: { targetUrl: target.url, bodyBase64: Buffer.from("order 42").toString("base64") },
  });
  expect(await redrive.count()).toEqual({ EXHAUSTED: 1, SUCCEEDED: 1 });
});

test.each([
  ["deadLetterUrl", { deadLetterUrl: "http://10.0.0.1/x" }, "TARGET_DENIED"],
  ["deadLetterUrl", { deadLetterUrl: "ftp://example.com" }, "INVALID_DESTINATION"],
  ["disableOnGone", { disableOnGone: "yes" }, "INVALID_DESTINATION"],
  ["disabledTargets", { disabledTargets: [] }, "INVALID_DESTINATION"],
])("refuses a bad %s: %o", async (field, document, code) => {
  server = await openTestServer();
  const { status, json } = await server.call({ method: "PUT", path, body: document });
  expect(status).toBe(code === "TARGET_DENIED" ? 422 : 400);
  expect(json).toMatchObject({ code });
  if (code !== "TARGET_DENIED") expect(json.detail).toContain(field);
});
