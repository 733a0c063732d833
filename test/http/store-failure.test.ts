/** Tests of a failing store: the responses, and the log entries, also for a batch. */

import { virtualClock } from "@redrive/core";
import { memoryStore, type Store } from "@redrive/service";
import { afterEach, expect, test } from "vitest";
import { openTestServer, type TestServer } from "./test-server.ts";

let server: TestServer | undefined;
afterEach(() => server?.close());

test("the log has each error under the id in the response", async () => {
  const memory = memoryStore();
  let isDown = false;
  const commit: Store["commit"] = (batch) =>
    isDown ? Promise.reject(new Error("the disk is on fire")) : memory.commit(batch);
  const store = { ...memory, commit };
  const lines: string[] = [];
  const logger = { level: "error", stream: { write: (line: string) => void lines.push(line) } };
  server = await openTestServer({ store, logger });
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
  expect(logged(many.headers["x-request-id"])).toContain("on fire");
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
