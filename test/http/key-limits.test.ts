/**
 * Tests of the limits of an API key: concurrent requests, requests per second, waiting tasks, and
 * targets.
 */
import { virtualClock } from "@redrive/core";
import {
  createApp,
  createKey,
  type KeyLimits,
  listenApp,
  memoryKeyStore,
} from "@redrive/service/http";
import { afterEach, expect, test } from "vitest";
import { openTestServer, type TestServer } from "./test-server.ts";

let server: TestServer;
afterEach(() => server.close());

let drawn = 0;
const fill = (bytes: Uint8Array) => {
  bytes.set(bytes.map((_, at) => (drawn++ * 17 + at) % 256));
};

const keys = memoryKeyStore();
function keyWith(limits: KeyLimits) {
  const { key, record } = createKey(fill, { tenantId: "acme", scopes: ["admin"], now: 0, limits });
  keys.add(record);
  return { authorization: `Bearer ${key}` };
}

test("concurrent requests: the next one gets a Retry-After, and is accepted when one has ended", async () => {
  server = await openTestServer({ keys });
  const headers = keyWith({ requestsAtOnce: 2 });
  const release = server.target.hold();
  const body = { targetUrl: server.target.url };
  const wait = { ...headers, prefer: "wait=20" };
  const started = new Promise<void>((resolve) => {
    let left = 2;
    server.redrive.onEvent(({ type }) => type === "attempt.started" && --left === 0 && resolve());
  });
  const waiting = [1, 2].map(() => server.call({ body, headers: wait }));
  await started;
  const refused = await server.call({ body, headers });
  expect([refused.status, refused.json.code]).toEqual([429, "TOO_MANY_REQUESTS"]);
  expect(refused.headers["retry-after"]).toBe("1");
  expect((await server.call({ body, headers: keyWith({}) })).status).toBe(202);
  release();
  expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([200, 200]);
  expect((await server.call({ body, headers })).status).toBe(202);
});

test("its own rate limit", async () => {
  server = await openTestServer({ keys, serverClock: virtualClock() });
  const headers = keyWith({ requestsPerSecond: 5 });
  const ask = () => server.call({ method: "GET", headers });
  const answers = await Promise.all(Array.from({ length: 30 }, ask));
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(25);
});

test("a rate that is changed while the service runs applies at once", async () => {
  server = await openTestServer({ keys, serverClock: virtualClock() });
  const headers = keyWith({ requestsPerSecond: 1 });
  const ask = () => server.call({ method: "GET", headers });
  const statuses = async () => (await Promise.all([1, 2, 3].map(ask))).map(({ status }) => status);
  expect((await statuses()).sort()).toEqual([200, 429, 429]);
  const record = keys.list().at(-1);
  if (record === undefined) throw new Error("the key is in the book");
  keys.revoke(record.keyId);
  keys.add({ ...record, limits: { requestsPerSecond: 1000 } });
  expect(await statuses()).toEqual([200, 200, 200]);
});

test("waiting tasks of its tenant", async () => {
  server = await openTestServer({ keys });
  await server.redrive.pause(server.target.origin, "acme");
  const headers = keyWith({ maxWaiting: 2 });
  const create = () => server.call({ headers, body: { targetUrl: server.target.url } });
  let response = await create();
  while (response.status === 202) response = await create();
  expect([response.status, response.json.code]).toEqual([429, "QUEUE_FULL"]);
  const other = await server.call({ headers: keyWith({}), body: { targetUrl: server.target.url } });
  expect(other.status).toBe(202);
});

test("its tasks and their callbacks go only to the targets in its list", async () => {
  server = await openTestServer({ keys });
  const port = new URL(server.target.url).port;
  const headers = keyWith({ targets: `127.0.0.0/8:${port}, hooks.example.com` });
  const denied = async (body: object) => {
    const { status, json } = await server.call({ headers, body });
    return status === 422 && json.code === "TARGET_DENIED";
  };
  const later = { scheduledAt: Date.now() + 60_000 };
  expect(await denied({ targetUrl: server.target.url, ...later })).toBe(false);
  expect(await denied({ targetUrl: "https://Hooks.example.com./x", ...later })).toBe(false);
  expect(await denied({ targetUrl: "https://example.com/", ...later })).toBe(true);
  expect(await denied({ targetUrl: "http://127.0.0.1:1234/", ...later })).toBe(true);
  const callbackUrl = "https://example.com/";
  expect(await denied({ targetUrl: server.target.url, callbackUrl, ...later })).toBe(true);
  const path = "/retry-tasks/batch";
  const batch = [{ targetUrl: "https://example.com/" }, { targetUrl: server.target.url }];
  const { json } = await server.call({ path, headers, body: batch });
  expect(json.results.map(({ status }: { status: number }) => status)).toEqual([422, 202]);
  expect(() => keyWith({ targets: "https://example.com" })).toThrow(/no scheme/);
});

test("without keys on purpose: it warns, and only then listens beyond loopback", async () => {
  server = await openTestServer();
  const closed = createApp(server.redrive);
  await expect(listenApp(closed, { host: "0.0.0.0", port: 0 })).rejects.toThrow(/API key/);
  const open = createApp(server.redrive, { insecureNoAuth: true });
  const url = await listenApp(open, { host: "0.0.0.0", port: 0 });
  const health = await fetch(`http://127.0.0.1:${new URL(url).port}/healthz`);
  expect(await health.json()).toMatchObject({ warning: expect.stringContaining("anyone") });
  await open.close();
  await closed.close();
});
