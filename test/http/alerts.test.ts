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

test.each([
  [{}, "alerts.url is required"],
  [{ url: "ftp://x" }, "alerts.url must be"],
  [{ url: "http://10.0.0.1/" }, "alerts.url is refused"],
  [{ url: "https://example.com", lateMs: 1 }, "alerts.lateMs must be"],
  [{ url: "https://example.com", lateMS: 1000 }, 'did you mean "lateMs"'],
])("refuses the options %o", async (alerts, message) => {
  const opening = createRedrive({ store: "memory:", alerts: alerts as { url: string } });
  await expect(opening).rejects.toThrow(message);
});
