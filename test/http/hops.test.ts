/**
 * Tests of hops: services that send tasks to each other in a loop detect it, and other tasks are
 * unaffected.
 */
import { afterEach, expect, test } from "vitest";
import { openTestServer, type TestServer } from "./test-server.ts";

let server: TestServer;
afterEach(() => server.close());

const hop = (hops: string) => ({ "redrive-hop": hops });

test("row 97: a task that has passed through more than three services is rejected with 508", async () => {
  server = await openTestServer();
  const body = { targetUrl: server.target.url };
  for (const path of ["/retry-tasks", "/retry-tasks/batch"]) {
    const sent = path.endsWith("batch") ? [body] : body;
    const response = await server.call({ path, body: sent, headers: hop("4") });
    expect([response.status, response.json.code]).toEqual([508, "LOOP_DETECTED"]);
    expect(response.json.detail).toContain("4 Redrive services");
  }
  expect(server.target.received).toEqual([]);
});

test.each([
  [{}, "1"],
  [hop("1"), "2"],
  [hop("3"), "4"],
  [hop("many"), "1"],
])("a task received with %j is sent as hop %s", async (headers, sent) => {
  server = await openTestServer();
  const body = { targetUrl: server.target.url, idempotencyKey: "key" };
  const wait = { ...headers, prefer: "wait=20" };
  const { status, json } = await server.call({ body, headers: wait });
  expect([status, json.headers]).toEqual([200, {}]);
  expect(server.target.received.map((one) => one.headers["redrive-hop"])).toEqual([sent]);
  // The same task through another route is the same task.
  expect((await server.call({ body })).headers["idempotent-replayed"]).toBe("true");
});
