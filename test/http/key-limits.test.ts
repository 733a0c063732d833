/** What one API key may do at most: requests at once, a second, waiting tasks, and its targets. */
import { virtualClock } from "@redrive/core";
import {
  createApp,
  createKey,
  type KeyLimits,
  listenApp,
  memoryKeyStore,
} from "@redrive/service/http";
import { afterEach, expect, test } from "vitest";
import { type Front, openFront } from "./test-server.ts";

let front: Front;
afterEach(() => front.close());

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

test("requests at once: the next is told to come back, and is taken when one has ended", async () => {
  front = await openFront({ keys });
  const headers = keyWith({ requestsAtOnce: 2 });
  const release = front.target.hold();
  const body = { targetUrl: front.target.url };
  const wait = { ...headers, prefer: "wait=20" };
  const started = new Promise<void>((resolve) => {
    let left = 2;
    front.redrive.onEvent(({ type }) => type === "attempt.started" && --left === 0 && resolve());
  });
  const waiting = [1, 2].map(() => front.call({ body, headers: wait }));
  await started;
  const refused = await front.call({ body, headers });
  expect([refused.status, refused.json.code]).toEqual([429, "TOO_MANY_REQUESTS"]);
  expect(refused.headers["retry-after"]).toBe("1");
  expect((await front.call({ body, headers: keyWith({}) })).status).toBe(202);
  release();
  expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([200, 200]);
  expect((await front.call({ body, headers })).status).toBe(202);
});

test("a rate of its own", async () => {
  front = await openFront({ keys, frontClock: virtualClock() });
  const headers = keyWith({ requestsPerSecond: 5 });
  const ask = () => front.call({ method: "GET", headers });
  const answers = await Promise.all(Array.from({ length: 30 }, ask));
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(25);
});

test("a rate that is changed while the service runs holds at once", async () => {
  front = await openFront({ keys, frontClock: virtualClock() });
  const headers = keyWith({ requestsPerSecond: 1 });
  const ask = () => front.call({ method: "GET", headers });
  const statuses = async () => (await Promise.all([1, 2, 3].map(ask))).map(({ status }) => status);
  expect((await statuses()).sort()).toEqual([200, 429, 429]);
  const record = keys.list().at(-1);
  if (record === undefined) throw new Error("the key is in the book");
  keys.revoke(record.keyId);
  keys.add({ ...record, limits: { requestsPerSecond: 1000 } });
  expect(await statuses()).toEqual([200, 200, 200]);
});

test("waiting tasks of its tenant", async () => {
  front = await openFront({ keys });
  await front.redrive.pause(front.target.origin, "acme");
  const headers = keyWith({ maxWaiting: 2 });
  const create = () => front.call({ headers, body: { targetUrl: front.target.url } });
  let answer = await create();
  while (answer.status === 202) answer = await create();
  expect([answer.status, answer.json.code]).toEqual([429, "QUEUE_FULL"]);
  const other = await front.call({ headers: keyWith({}), body: { targetUrl: front.target.url } });
  expect(other.status).toBe(202);
});

test("its tasks and their callbacks go where its list says, and nowhere else", async () => {
  front = await openFront({ keys });
  const port = new URL(front.target.url).port;
  const headers = keyWith({ targets: `127.0.0.0/8:${port}, hooks.example.com` });
  const denied = async (body: object) => {
    const { status, json } = await front.call({ headers, body });
    return status === 422 && json.code === "TARGET_DENIED";
  };
  const later = { scheduledAt: Date.now() + 60_000 };
  expect(await denied({ targetUrl: front.target.url, ...later })).toBe(false);
  expect(await denied({ targetUrl: "https://Hooks.example.com./x", ...later })).toBe(false);
  expect(await denied({ targetUrl: "https://example.com/", ...later })).toBe(true);
  expect(await denied({ targetUrl: "http://127.0.0.1:1234/", ...later })).toBe(true);
  const callbackUrl = "https://example.com/";
  expect(await denied({ targetUrl: front.target.url, callbackUrl, ...later })).toBe(true);
  const path = "/retry-tasks/batch";
  const batch = [{ targetUrl: "https://example.com/" }, { targetUrl: front.target.url }];
  const { json } = await front.call({ path, headers, body: batch });
  expect(json.results.map(({ status }: { status: number }) => status)).toEqual([422, 202]);
  expect(() => keyWith({ targets: "https://example.com" })).toThrow(/no scheme/);
});

test("open to all on purpose: it says so, and only then listens beyond loopback", async () => {
  front = await openFront();
  const closed = createApp(front.redrive);
  await expect(listenApp(closed, { host: "0.0.0.0", port: 0 })).rejects.toThrow(/API key/);
  const open = createApp(front.redrive, { insecureNoAuth: true });
  const url = await listenApp(open, { host: "0.0.0.0", port: 0 });
  const health = await fetch(`http://127.0.0.1:${new URL(url).port}/healthz`);
  expect(await health.json()).toMatchObject({ warning: expect.stringContaining("anybody") });
  await open.close();
  await closed.close();
});
