/** Tests of alerts with a real service and a real receiver. */
import { createRedrive } from "@redrive/service";
import { afterEach, expect, test } from "vitest";
import {
  endings,
  openTarget,
  openTestServer,
  type Target,
  type TestServer,
} from "./test-server.ts";

let server: TestServer | undefined;
let receiver: Target | undefined;
afterEach(async () => {
  await server?.close();
  await receiver?.close();
});

test("an open breaker reaches the receiver, with its runbook, and so does its end", async () => {
  receiver = await openTarget();
  server = await openTestServer({ alerts: { url: receiver.url } });
  const { call, target, redrive } = server;
  const breaker = { minCalls: 2, openMs: 1 };
  await call({ method: "PUT", path: "/destinations/orders", body: { breaker } });
  const policy = { maxAttempts: 5, initialDelayMs: 1, maxDelayMs: 1 };
  target.statuses = [503, 503];
  // The task, and the two alerts.
  const done = endings(redrive, 3);
  await call({ body: { targetUrl: target.url, destination: "orders", policy } });
  await done;
  const bodies = receiver.received.map(({ body }) => JSON.parse(body.toString()));
  expect(bodies.sort((one, other) => one.type.localeCompare(other.type))).toMatchObject([
    {
      type: "alert.firing",
      alert: "breaker-open",
      destination: "orders",
      runbook: "docs/runbook.md#breaker-open",
    },
    { type: "alert.resolved", alert: "breaker-open", destination: "orders" },
  ]);
});

test("a breaker that flaps and opens again is told each time", async () => {
  receiver = await openTarget();
  server = await openTestServer({ alerts: { url: receiver.url } });
  const { call, target, redrive } = server;
  const breaker = { minCalls: 2, openMs: 1 };
  await call({ method: "PUT", path: "/destinations/orders", body: { breaker } });
  const policy = { maxAttempts: 5, initialDelayMs: 1, maxDelayMs: 1 };
  for (let flap = 0; flap < 3; flap++) {
    target.statuses = [503, 503];
    const done = endings(redrive, 3);
    await call({ body: { targetUrl: target.url, destination: "orders", policy } });
    await done;
  }
  const bodies = receiver.received.map(({ body }) => JSON.parse(body.toString()));
  expect(bodies.map(({ type }) => type).sort()).toEqual([
    ...Array(3).fill("alert.firing"),
    ...Array(3).fill("alert.resolved"),
  ]);
  expect(new Set(bodies.map(({ episode }) => episode)).size).toBe(3);
  const { json } = await call({ method: "GET", path: "/alerts" });
  expect(json.firing).toEqual([]);
});

test("a target on the receiver's own origin counts", async () => {
  receiver = await openTarget();
  server = await openTestServer({ alerts: { url: receiver.url } });
  const { call, redrive } = server;
  const breaker = { minCalls: 2, openMs: 60_000, maxOpenMs: 60_000 };
  const name = encodeURIComponent(receiver.origin);
  const stored = await call({ method: "PUT", path: `/destinations/${name}`, body: { breaker } });
  expect(stored.status).toBe(200);
  receiver.statuses = [503, 503];
  // The alert has a destination of its own, so the open breaker does not hold it.
  const done = endings(redrive, 1);
  const policy = { maxAttempts: 5, initialDelayMs: 1, maxDelayMs: 1, totalBudgetMs: 600_000 };
  await call({ body: { targetUrl: receiver.url, policy } });
  await done;
  const last = JSON.parse(receiver.received.at(-1)?.body.toString() ?? "");
  expect(last).toMatchObject({ type: "alert.firing", destination: receiver.origin });
  const { json } = await call({ method: "GET", path: "/alerts" });
  expect(json.firing).toMatchObject([{ alert: "breaker-open", destination: receiver.origin }]);
});

test.each([
  [{}, "alerts.url is required"],
  [{ url: "ftp://x" }, "alerts.url must be"],
  [{ url: "http://10.0.0.1/" }, "alerts.url is refused"],
  [{ url: "https://example.com", lateMs: 1 }, "alerts.lateMs must be"],
  [{ url: "https://example.com", repeatMs: 1 }, "alerts.repeatMs must be"],
  [{ url: "https://example.com", minDeadLetters: 0 }, "alerts.minDeadLetters must be"],
  [{ url: "https://example.com", lateMS: 1000 }, 'did you mean "lateMs"'],
])("refuses the options %o", async (alerts, message) => {
  const opening = createRedrive({ store: "memory:", alerts: alerts as { url: string } });
  await expect(opening).rejects.toThrow(message);
});
