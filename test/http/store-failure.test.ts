/** A store that fails: what is answered meanwhile, and where the log has it, of a batch too. */

import { virtualClock } from "@redrive/core";
import { memoryStore, type Store } from "@redrive/service";
import { afterEach, expect, test } from "vitest";
import { type Front, openFront } from "./test-server.ts";

let front: Front | undefined;
afterEach(() => front?.close());

test("the log has each under the id that the answer brings", async () => {
  const memory = memoryStore();
  let isDown = false;
  const commit: Store["commit"] = (batch) =>
    isDown ? Promise.reject(new Error("the disk is on fire")) : memory.commit(batch);
  const store = { ...memory, commit };
  const lines: string[] = [];
  const logger = { level: "error", stream: { write: (line: string) => void lines.push(line) } };
  front = await openFront({ store, logger });
  const { call, target } = front;
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

test("a stored task is never answered 503 while its end is waited for", async () => {
  const memory = memoryStore();
  let get: Store["query"]["get"] = (tenantId, taskId) => memory.query.get(tenantId, taskId);
  const query = { ...memory.query, get: (...ref: Parameters<typeof get>) => get(...ref) };
  const clock = virtualClock();
  front = await openFront({ store: { ...memory, query }, frontClock: clock });
  const { call, target, redrive } = front;
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

  // It fails only when the wait is over: what was seen at its beginning is known.
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
