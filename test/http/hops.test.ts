/** Hops: services that hand tasks to each other in a circle notice, and everybody else is let be. */
import { afterEach, expect, test } from "vitest";
import { type Front, openFront } from "./test-server.ts";

let front: Front;
afterEach(() => front.close());

const hop = (hops: string) => ({ "redrive-hop": hops });

test("row 97: a task that has come through more than three services is refused with 508", async () => {
  front = await openFront();
  const body = { targetUrl: front.target.url };
  for (const path of ["/retry-tasks", "/retry-tasks/batch"]) {
    const sent = path.endsWith("batch") ? [body] : body;
    const answer = await front.call({ path, body: sent, headers: hop("4") });
    expect([answer.status, answer.json.code]).toEqual([508, "LOOP_DETECTED"]);
    expect(answer.json.detail).toContain("4 services");
  }
  expect(front.target.received).toEqual([]);
});

test.each([
  [{}, "1"],
  [hop("1"), "2"],
  [hop("3"), "4"],
  [hop("many"), "1"],
])("a task that came with %j is sent on as hop %s", async (headers, sent) => {
  front = await openFront();
  const body = { targetUrl: front.target.url, idempotencyKey: "key" };
  const wait = { ...headers, prefer: "wait=20" };
  const { status, json } = await front.call({ body, headers: wait });
  expect([status, json.headers]).toEqual([200, {}]);
  expect(front.target.received.map((one) => one.headers["redrive-hop"])).toEqual([sent]);
  // The same task by another way is the same task.
  expect((await front.call({ body })).headers["idempotent-replayed"]).toBe("true");
});
