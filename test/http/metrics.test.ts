/** Tests of metrics: every documented name and label is present after tasks have run. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { endings, openTestServer, type TestServer } from "./test-server.ts";

let server: TestServer;
let text = "";
const again = { maxAttempts: 2, initialDelayMs: 1, jitterType: "NONE" };

beforeAll(async () => {
  server = await openTestServer();
  const { call, target, redrive } = server;
  await call({ path: "/retry-policies", body: { policyId: "orders", ...again } });
  const run = async (statuses: number[], body: object) => {
    target.statuses = statuses;
    const done = endings(redrive, 1);
    await call({ body: { targetUrl: target.url, ...body } });
    await done;
  };
  await run([200], { policyId: "orders", idempotencyKey: "k" });
  await call({ body: { targetUrl: target.url, policyId: "orders", idempotencyKey: "k" } });
  await run([503, 200], { policyId: "orders" });
  await run([503, 503], { policyId: "orders" });
  await run([404], { policy: again });
  text = (await call({ method: "GET", path: "/metrics" })).text;
});
afterAll(() => server.close());

const value = (series: string) => {
  const line = text.split("\n").find((one) => one.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
};

test.each([
  ['retry_attempts_total{outcome="success",policy="orders"}', 2],
  ['retry_attempts_total{outcome="5xx",policy="orders"}', 3],
  ['retry_attempts_total{outcome="4xx",policy="inline"}', 1],
  ['retry_attempt_duration_seconds_count{outcome="5xx",policy="orders"}', 3],
  ['retry_exhausted_total{reason="attempts",policy="orders"}', 1],
  ['retry_exhausted_total{reason="not-retryable",policy="inline"}', 1],
  ["retry_backoff_delay_seconds_count", 2],
  ["retry_duplicates_total", 1],
  ["retry_budget_exhausted_total", 0],
  ['retry_tasks{status="SUCCEEDED"}', 2],
  ['retry_destinations{state="open"}', 0],
  ["retry_late_task_seconds", 0],
])("%s is %d", (series, wanted) => {
  expect(value(series)).toBe(wanted);
});

test.each([
  "retry_task_age_seconds_count",
  "retry_schedule_lag_seconds_count",
  "retry_settle_seconds_count",
  "retry_store_commit_seconds_count",
  "retry_store_commit_items_count",
  "retry_store_commit_items_sum",
])("%s has a value", (series) => {
  expect(value(series)).toBeGreaterThan(0);
});

test("the size of a commit is the number of its items", () => {
  const attempts = value("retry_schedule_lag_seconds_count") ?? 0;
  // Each attempt was claimed, or created claimed, and settled.
  expect(value("retry_store_commit_items_sum")).toBeGreaterThanOrEqual(2 * attempts);
});

test("no label has a URL, a tenant or a digest, and policy labels are bounded", async () => {
  expect(text).not.toMatch(/127\.0\.0\.1|tenant|inline\./);
  const { call, target, redrive } = server;
  const count = 120;
  const done = endings(redrive, count);
  for (let n = 0; n < count; n++) {
    await call({ path: "/retry-policies", body: { policyId: `p-${n}`, maxAttempts: 1 } });
    await call({ body: { targetUrl: target.url, policyId: `p-${n}` } });
  }
  await done;
  const { text: later } = await call({ method: "GET", path: "/metrics" });
  const policies = new Set([...later.matchAll(/policy="([^"]+)"/g)].map(([, name]) => name));
  expect(policies.size).toBeLessThanOrEqual(102);
  expect(policies).toContain("other");
});

test("a store without upkeep has no gauges of it", () => {
  expect(text).not.toMatch(/^retry_store_(rows|oldest_transaction_seconds)[ {]/mu);
});

test("a destination whose circuit is open is named, and no other one", async () => {
  const own = await openTestServer();
  const { call, redrive, target } = own;
  const breaker = { minCalls: 1, openMs: 3_600_000, maxOpenMs: 3_600_000 };
  for (const name of ["open", "closed"]) {
    await call({ method: "PUT", path: `/destinations/${name}`, body: { breaker } });
  }
  const opened = new Promise<void>((resolve) => {
    redrive.onEvent(({ type }) => type === "breaker.opened" && resolve());
  });
  target.statuses = [503];
  await call({ body: { targetUrl: target.url, destination: "open" } });
  await opened;
  // A task that an open circuit holds is not late.
  await call({ body: { targetUrl: target.url, destination: "open" } });
  const metrics = (await call({ method: "GET", path: "/metrics" })).text;
  const named = metrics.split("\n").filter((line) => line.startsWith("retry_open_destination"));
  expect(named).toEqual(['retry_open_destination_info{tenant="default",destination="open"} 1']);
  expect(metrics).toMatch(/^retry_late_task_seconds 0$/mu);
  await own.close();
});
