/**
 * Tests of administration over HTTP: policies with their versions, destinations, and the API
 * documentation.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { endings, openTestServer, type TestServer } from "./test-server.ts";

let server: TestServer;
beforeEach(async () => {
  server = await openTestServer();
});
afterEach(() => server.close());

const ask = (method: string, path: string, body?: object) =>
  server.call({ method, path, ...(body && { body }) });

test("a policy is registered once, replaced by new versions, and removed when no task uses it", async () => {
  const document = { policyId: "orders", maxAttempts: 2 };
  const first = await ask("POST", "/retry-policies", document);
  expect([first.status, first.json.version, first.headers.location]).toEqual([
    201,
    1,
    "/retry-policies/orders",
  ]);
  expect((await ask("POST", "/retry-policies", document)).status).toBe(200);
  const other = await ask("POST", "/retry-policies", { ...document, maxAttempts: 3 });
  expect([other.status, other.json.code]).toEqual([409, "POLICY_CONFLICT"]);
  const second = await ask("PUT", "/retry-policies/orders", { maxAttempts: 3 });
  expect([second.status, second.json.version]).toEqual([200, 2]);
  expect((await ask("GET", "/retry-policies/orders?version=1")).json.document.maxAttempts).toBe(2);
  expect((await ask("PUT", "/retry-policies/orders", { policyId: "others" })).status).toBe(400);

  const { json } = await ask("POST", "/retry-tasks", {
    targetUrl: server.target.url,
    policyId: "orders",
    scheduledAt: Date.now() + 60_000,
  });
  const used = await ask("DELETE", "/retry-policies/orders");
  expect([used.status, used.json.code]).toEqual([409, "POLICY_IN_USE"]);
  await ask("DELETE", `/retry-tasks/${json.taskId}`);
  expect((await ask("DELETE", "/retry-policies/orders")).status).toBe(204);
  expect((await ask("DELETE", "/retry-policies/orders")).status).toBe(404);
});

test("presets are listed and found without being registered", async () => {
  const { json } = await ask("GET", "/retry-policies");
  const ids = json.policies.map(({ policyId }: { policyId: string }) => policyId);
  expect(ids).toContain("background");
  expect((await ask("GET", "/retry-policies/payment")).json).toMatchObject({
    source: "preset",
    version: 0,
  });
  expect((await ask("GET", "/retry-policies/nothing")).status).toBe(404);
  const unnamed = await ask("POST", "/retry-policies", { maxAttempts: 2 });
  expect([unnamed.status, unnamed.json.errors[0].field]).toEqual([400, "policyId"]);
});

test("a registration never changes a preset, which is live without being registered", async () => {
  const { document } = (await ask("GET", "/retry-policies/payment")).json;
  expect(document.requireIdempotencyKey).toBe(true);
  const other = await ask("POST", "/retry-policies", { policyId: "payment", maxAttempts: 9 });
  expect([other.status, other.json.code]).toEqual([409, "POLICY_CONFLICT"]);
  expect(other.json.detail).toContain('"payment" is a preset');
  const task = { targetUrl: server.target.url, policyId: "payment" };
  const keyless = await ask("POST", "/retry-tasks", task);
  expect([keyless.status, keyless.json.code]).toEqual([400, "IDEMPOTENCY_KEY_REQUIRED"]);
  expect((await ask("POST", "/retry-policies", document)).status).toBe(200);
  // Whoever replaces it names it in the path and does not do so by accident.
  const replaced = await ask("PUT", "/retry-policies/payment", { ...document, maxAttempts: 4 });
  expect([replaced.status, replaced.json.document.maxAttempts]).toEqual([200, 4]);
});

test("an error never suggests the id that it rejects", async () => {
  await ask("POST", "/retry-policies", { policyId: "night-orders" });
  const detailOf = async (method: string, path: string) => {
    const { status, json } = await ask(method, `/retry-policies/${path}`);
    return [status, json.detail];
  };
  expect(await detailOf("GET", "night-orders?version=99")).toEqual([
    404,
    'policy "night-orders" has no version 99',
  ]);
  expect(await detailOf("GET", "webhook?version=3")).toEqual([
    404,
    'policy "webhook" has no version 3',
  ]);
  expect(await detailOf("DELETE", "webhook")).toEqual([
    404,
    'policy "webhook" is a preset, which cannot be removed',
  ]);
  expect(await detailOf("GET", "nigth-orders?version=99")).toEqual([
    404,
    'there is no policy "nigth-orders", did you mean "night-orders"?',
  ]);
  expect(await detailOf("DELETE", "webhok")).toEqual([
    404,
    'there is no policy "webhok", did you mean "webhook"?',
  ]);
});

test("the ids of inline policies cannot be registered", async () => {
  const policyId = `inline.${"0".repeat(40)}`;
  for (const [method, path] of [
    ["POST", "/retry-policies"],
    ["PUT", `/retry-policies/${policyId}`],
  ] as const) {
    const { status, json } = await ask(method, path, { policyId, maxAttempts: 2 });
    expect([status, json.code, json.errors[0].field]).toEqual([400, "INVALID_POLICY", "policyId"]);
    expect(json.detail).toContain('policyId must not begin with "inline."');
  }
});

test("a destination whose name no URL can hold is refused", async () => {
  for (const name of [".", ".."]) {
    // A URL parser would resolve the dots, so the request is written by hand.
    const body = "{}";
    const lines = [
      `PUT /destinations/${name.replaceAll(".", "%2E")} HTTP/1.1`,
      `Host: 127.0.0.1:${server.port}`,
      "Content-Type: application/json",
      `Content-Length: ${body.length}`,
    ];
    const { status, json } = await server.rawCall(`${lines.join("\r\n")}\r\n\r\n${body}`);
    expect([status, json.code]).toEqual([400, "INVALID_DESTINATION"]);
    expect(json.detail).toContain('not "." or ".."');
    const asked = [server.redrive.pause(name), server.redrive.configure(name, {})];
    for (const result of await Promise.allSettled(asked)) {
      expect(result).toMatchObject({ reason: { code: "INVALID_DESTINATION" } });
    }
  }
});

test("an unknown field gets a suggestion that this request accepts", async () => {
  const detail = async (path: string, method = "GET", body?: object) =>
    (await ask(method, path, body)).json.detail;
  expect(await detail("/retry-tasks?limits=1")).toContain('did you mean "limit"?');
  expect(await detail("/dead-letters?limit=1", "DELETE")).toBe('unknown field "limit"');
  expect(await detail("/dead-letters?limits=1", "DELETE")).toBe('unknown field "limits"');
  expect(await detail("/dead-letters?reasons=x", "DELETE")).toContain('did you mean "reason"?');
  const redrive = { filter: { reasons: "x" }, dryRuns: true };
  const found = await detail("/redrives", "POST", redrive);
  expect(found).toMatch(/"filter.reasons", did you mean "reason"|"dryRuns", did you mean "dryRun"/);
});

test("a destination shows its health, accepts limits, pauses and resumes", async () => {
  const path = `/destinations/${encodeURIComponent(server.target.origin)}`;
  expect((await ask("GET", path)).status).toBe(404);
  const set = await ask("PUT", path, { concurrency: { max: 3 }, description: "ours" });
  expect(set.json).toMatchObject({
    name: server.target.origin,
    document: { concurrency: { max: 3 } },
  });
  expect((await ask("POST", `${path}/pause`)).json.pausedAt).toEqual(expect.any(Number));
  await ask("POST", "/retry-tasks", { targetUrl: server.target.url });
  expect((await ask("GET", path)).json).toMatchObject({ backlog: 1, tasks: { PENDING: 1 } });
  const done = endings(server.redrive, 1);
  expect((await ask("POST", `${path}/resume`)).json.pausedAt).toBeNull();
  await done;
  const { json } = await ask("GET", "/destinations");
  expect(json.destinations).toMatchObject([
    {
      breakerState: "CLOSED",
      backlog: 0,
      retryBudget: "open",
      latency: { p50Ms: expect.any(Number) },
    },
  ]);
});

test("the document is OpenAPI 3.1 and has every route, and the page shows them all", async () => {
  const { json } = await ask("GET", "/openapi.json");
  expect(json.openapi).toBe("3.1.0");
  expect(Object.keys(json.paths).slice(0, 3)).toEqual([
    "/retry-tasks",
    "/retry-tasks/{taskId}",
    "/retry-tasks/{taskId}/attempts",
  ]);
  expect(Object.keys(json.paths["/retry-tasks"])).toEqual(["post", "get"]);
  expect(Object.keys(json.paths).sort()).toEqual([
    "/activity",
    "/alerts",
    "/alerts/test",
    "/bodies",
    "/dead-letters",
    "/dead-letters/discard",
    "/destinations",
    "/destinations/{name}",
    "/destinations/{name}/close-breaker",
    "/destinations/{name}/enable",
    "/destinations/{name}/history",
    "/destinations/{name}/pause",
    "/destinations/{name}/probe",
    "/destinations/{name}/resume",
    "/events",
    "/forward",
    "/healthz",
    "/keys",
    "/keys/{keyId}",
    "/metrics",
    "/readyz",
    "/redrives",
    "/redrives/{redriveId}",
    "/redrives/{redriveId}/cancel",
    "/redrives/{redriveId}/pause",
    "/redrives/{redriveId}/resume",
    "/retry-policies",
    "/retry-policies/{policyId}",
    "/retry-tasks",
    "/retry-tasks/batch",
    "/retry-tasks/cancel",
    "/retry-tasks/count",
    "/retry-tasks/ids",
    "/retry-tasks/retry",
    "/retry-tasks/suggestions",
    "/retry-tasks/{taskId}",
    "/retry-tasks/{taskId}/attempts",
    "/retry-tasks/{taskId}/body",
    "/retry-tasks/{taskId}/retry",
    "/simulations",
    "/ui/session",
  ]);
  const { text } = await ask("GET", "/docs");
  for (const path of Object.keys(json.paths)) expect(text).toContain(path);
  expect(text).toContain('id="IDEMPOTENCY_CONFLICT"');
});

describe("documents are built once", () => {
  const get = (path: string, headers: Record<string, string> = {}, method = "GET") =>
    server.call({ method, path, headers });

  test.each([
    ["/openapi.json", "application/json; charset=utf-8"],
    ["/docs", "text/html; charset=utf-8"],
    ["/docs/style.css", "text/css; charset=utf-8"],
  ])(
    "%s has a type, a tag and a policy, and a caller that has it gets a 304",
    async (path, type) => {
      const { headers, text } = await get(path);
      expect(headers["content-type"]).toBe(type);
      expect(headers["content-security-policy"]).toContain("default-src 'none'");
      expect(headers["cache-control"]).toBe("no-cache");
      const etag = String(headers.etag);
      for (const known of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
        const again = await get(path, { "if-none-match": known });
        expect([again.status, again.text]).toEqual([304, ""]);
      }
      const other = await get(path, { "if-none-match": '"other"' });
      expect([other.status, other.text]).toEqual([200, text]);
      const head = await get(path, {}, "HEAD");
      expect([head.status, head.text]).toEqual([200, ""]);
      expect(head.headers["content-length"]).toBe(String(Buffer.byteLength(text)));
    },
  );

  test("a caller that accepts gzip gets it, and one that excludes it does not", async () => {
    const zipped = await get("/openapi.json", { "accept-encoding": "br, gzip" });
    expect(zipped.headers["content-encoding"]).toBe("gzip");
    const plain = await get("/openapi.json", { "accept-encoding": "gzip;q=0, identity" });
    expect(plain.headers["content-encoding"]).toBeUndefined();
    expect(Number(zipped.headers["content-length"])).toBeLessThan(plain.text.length / 2);
  });
});
