/** Tests of a failing store: the responses, and the log entries, also for a batch. */

import { type Clock, virtualClock } from "@redrive/core";
import { memoryStore, type Store, systemClock } from "@redrive/service";
import { afterEach, expect, test } from "vitest";
import { openTestServer, type TestServer } from "./test-server.ts";

let server: TestServer | undefined;
afterEach(() => server?.close());

test("an outage has one log line per minute, with its cause and without a stack", async () => {
  const memory = memoryStore();
  let isDown = false;
  const commit: Store["commit"] = (batch) =>
    isDown ? Promise.reject(new Error("the disk is on fire")) : memory.commit(batch);
  const store = { ...memory, commit };
  const lines: string[] = [];
  const logger = { level: "error", stream: { write: (line: string) => void lines.push(line) } };
  const clock = virtualClock();
  server = await openTestServer({ store, logger, serverClock: clock });
  const { call, target } = server;
  await call({ body: { targetUrl: target.url } });
  isDown = true;
  const logged = (id: unknown) => lines.filter((line) => JSON.parse(line).reqId === id).join("");

  const one = await call({ body: { targetUrl: target.url } });
  expect(one.status).toBe(503);
  expect(one.text).not.toContain("on fire");
  expect(logged(one.headers["x-request-id"])).toContain("on fire");

  const many = await call({ path: "/retry-tasks/batch", body: [{ targetUrl: target.url }, {}] });
  expect(many.json.results.map(({ status }: { status: number }) => status)).toEqual([503, 400]);
  expect(many.text).not.toContain("on fire");
  for (let n = 0; n < 50; n++) await call({ body: { targetUrl: target.url } });
  expect(lines).toHaveLength(1);
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({ code: "STORE_UNAVAILABLE", requests: 1 });
  expect(lines[0]).not.toContain("stack");
  await clock.advance(60_000);
  await call({ body: { targetUrl: target.url } });
  expect(lines.map((line) => JSON.parse(line).requests)).toEqual([1, 52]);
  isDown = false;
});

test("a stored task never gets a 503 while the request waits for its end", async () => {
  const memory = memoryStore();
  let get: Store["query"]["get"] = (tenantId, taskId) => memory.query.get(tenantId, taskId);
  const query = { ...memory.query, get: (...ref: Parameters<typeof get>) => get(...ref) };
  const clock = virtualClock();
  server = await openTestServer({ store: { ...memory, query }, serverClock: clock });
  const { call, target, redrive } = server;
  await redrive.pause(target.origin);
  const body = { targetUrl: target.url, idempotencyKey: "order-1" };
  const create = () => call({ body, headers: { prefer: "wait=20" } });

  get = () => Promise.reject(new Error("the disk is on fire"));
  const failed = await create();
  expect([failed.status, failed.json.status]).toEqual([202, "PENDING"]);
  expect(failed.headers["x-request-id"]).toBeDefined();
  const replayed = await create();
  expect([replayed.status, replayed.json]).toEqual([200, { taskId: failed.json.taskId }]);
  expect(replayed.headers["idempotent-replayed"]).toBe("true");

  const asked = new Promise<void>((resolve) => {
    get = () => {
      resolve();
      return new Promise(() => {});
    };
  });
  const hanging = call({ body: { targetUrl: target.url }, headers: { prefer: "wait=20" } });
  await asked;
  await clock.advance(4500);
  expect(await hanging).toMatchObject({ status: 202, json: { status: "PENDING" } });

  // The store fails only when the wait is over, so the first read is known.
  const seen = new Promise<void>((resolve) => {
    get = async (tenantId, taskId) => {
      resolve();
      get = () => Promise.reject(new Error("the disk is on fire"));
      return memory.query.get(tenantId, taskId);
    };
  });
  const late = call({ body: { targetUrl: target.url }, headers: { prefer: "wait=20" } });
  await seen;
  await clock.advance(20_000);
  expect(await late).toMatchObject({ status: 202, json: { status: "PENDING" } });
});

test("a service whose commits fail for some seconds is not ready, and is again after the first success", async () => {
  const memory = memoryStore();
  let isDown = false;
  const commit: Store["commit"] = (batch) =>
    isDown ? Promise.reject(new Error("the disk is on fire")) : memory.commit(batch);
  let aheadMs = 0;
  const clock = {
    now: () => systemClock.now(),
    monotonicMs: () => systemClock.monotonicMs() + aheadMs,
    sleep: (...args: Parameters<Clock["sleep"]>) => systemClock.sleep(...args),
    alarm: (...args: Parameters<Clock["alarm"]>) => systemClock.alarm(...args),
    endOfTurn: (fn: () => void) => systemClock.endOfTurn(fn),
  };
  server = await openTestServer({ store: { ...memory, commit }, clock });
  const { call, target } = server;
  const ready = async () => (await call({ method: "GET", path: "/readyz" })).status;
  const post = async () => (await call({ body: { targetUrl: target.url } })).status;
  expect(await post()).toBe(202);
  isDown = true;
  expect([await post(), await post(), await post()]).toEqual([503, 503, 503]);
  // A short failure does not take the traffic away.
  expect(await ready()).toBe(200);
  aheadMs = 6000;
  expect(await ready()).toBe(503);
  isDown = false;
  expect(await post()).toBe(202);
  expect(await ready()).toBe(200);
});
