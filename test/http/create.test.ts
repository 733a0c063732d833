/** Tests of the responses to `POST /retry-tasks`, which are the same for both spellings of its type. */
import { memoryStore } from "@redrive/service";
import { createKey, memoryKeyStore } from "@redrive/service/http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openTestServer, type Sent, type TestResponse, type TestServer } from "./test-server.ts";

const TYPES = ["application/json", "application/json; charset=UTF-8"] as const;

let server: TestServer;
beforeAll(async () => {
  server = await openTestServer();
});
afterAll(() => server.close());

async function both(
  sent: Sent,
  on: TestServer = server,
): Promise<readonly [TestResponse, TestResponse]> {
  const send = (type: string) =>
    on.call({ path: "/retry-tasks", ...sent, headers: { ...sent.headers, "content-type": type } });
  return [await send(TYPES[0]), await send(TYPES[1])];
}

/** The parts of a response that both must share: all but ids and the time. */
function comparable({ status, headers, text }: TestResponse) {
  const { date, "x-request-id": requestId, ...others } = headers;
  const masked = JSON.stringify([others, text])
    .replaceAll(/[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/g, "ID")
    .replaceAll(/\b\d{13}\b/g, "AT");
  return [status, masked, date !== undefined, requestId !== undefined];
}

describe("the response", () => {
  const task = () => ({ targetUrl: server.target.url, body: "x" });

  test.each<[string, number, () => Sent]>([
    ["a task", 202, () => ({ body: task() })],
    ["a task with JSON", 202, () => ({ body: { targetUrl: server.target.url, json: { a: [1] } } })],
    [
      "a trace",
      202,
      () => ({
        body: task(),
        headers: { traceparent: `00-${"1".repeat(32)}-${"2".repeat(16)}-01` },
      }),
    ],
    [
      "a label and a schedule",
      202,
      () => ({ body: { ...task(), labels: { a: "b" }, scheduledAt: Date.now() + 60_000 } }),
    ],
    ["an inline policy", 202, () => ({ body: { ...task(), policy: { maxAttempts: 2 } } })],
    ["a preferred wait", 200, () => ({ body: task(), headers: { prefer: "wait=5" } })],
    ["no JSON", 400, () => ({ body: "{" })],
    ["a list", 400, () => ({ body: "[]" })],
    ["invalid UTF-8", 400, () => ({ body: Buffer.from([0x22, 0xff, 0x22]) })],
    ["a wrong field", 400, () => ({ body: { ...task(), targetURL: "x" } })],
    ["a forbidden target", 422, () => ({ body: { targetUrl: "http://10.0.0.1/" } })],
    ["an unknown policy", 422, () => ({ body: { ...task(), policyId: "unknown" } })],
    [
      "two keys",
      400,
      () => ({ body: { ...task(), idempotencyKey: "a" }, headers: { "idempotency-key": "b" } }),
    ],
    ["another origin", 403, () => ({ body: task(), headers: { origin: "http://evil.example" } })],
    ["another host", 421, () => ({ body: task(), headers: { host: "evil.example" } })],
    ["a compressed body", 415, () => ({ body: task(), headers: { "content-encoding": "gzip" } })],
    ["a loop", 508, () => ({ body: task(), headers: { "redrive-hop": "9" } })],
    ["too long a body", 413, () => ({ body: { ...task(), body: "x".repeat(1024 * 1024) } })],
  ])("to %s", async (_what, status, sent) => {
    const [one, other] = await both(sent());
    expect(comparable(one)).toEqual(comparable(other));
    expect(one.status).toBe(status);
  });

  test("to a repeated key, and to the same key with another payload", async () => {
    const headers = { "idempotency-key": "create-1" };
    const first = await server.call({ path: "/retry-tasks", body: task(), headers });
    expect(first.status).toBe(202);
    const [replayed, replayedAgain] = await both({ body: task(), headers });
    expect([replayed.status, replayed.headers["idempotent-replayed"]]).toEqual([200, "true"]);
    expect(replayed.json.taskId).toBe(first.json.taskId);
    expect(comparable(replayed)[0]).toBe(comparable(replayedAgain)[0]);
    const [conflict, conflictAgain] = await both({ body: { ...task(), body: "other" }, headers });
    expect(comparable(conflict)).toEqual(comparable(conflictAgain));
    expect(conflict.status).toBe(422);
  });
});

test("a body in many pieces is read completely", async () => {
  const text = JSON.stringify({ targetUrl: server.target.url, body: "ü".repeat(30_000) });
  const { status } = await server.call({ path: "/retry-tasks", body: text });
  expect(status).toBe(202);
});

test("a request with a key is counted once", async () => {
  const { record, key } = createKey((bytes) => bytes.fill(7), {
    tenantId: "acme",
    scopes: ["tasks:read"],
    now: 0,
  });
  const limits = { requestsPerSecond: 1000, requestsAtOnce: 1 };
  const keys = memoryKeyStore([{ ...record, limits }]);
  const limited = await openTestServer({ keys });
  const body = { targetUrl: limited.target.url };
  try {
    for (const [status, headers] of [
      [401, {}],
      [401, { authorization: "Bearer rdv_unknown_key" }],
      // A request that was counted twice would be one too many.
      [403, { authorization: `Bearer ${key}` }],
    ] as const) {
      const [one, other] = await both({ body, headers }, limited);
      expect(comparable(one)).toEqual(comparable(other));
      expect(one.status).toBe(status);
    }
  } finally {
    await limited.close();
  }
});

test("a key with a list of targets is refused others, also at a known destination", async () => {
  const keyWith = (fill: number, limits: { readonly targets?: string }) =>
    createKey((bytes) => bytes.fill(fill), {
      tenantId: "acme",
      scopes: ["tasks:create"],
      now: 0,
      limits,
    });
  const [free, bound] = [keyWith(1, {}), keyWith(2, { targets: "hooks.example.com" })];
  const limited = await openTestServer({ keys: memoryKeyStore([free.record, bound.record]) });
  const sent = (key: string) => ({
    body: { targetUrl: limited.target.url },
    headers: { authorization: `Bearer ${key}` },
  });
  try {
    // From now on, the policy and the destination are known.
    await both(sent(free.key), limited);
    const [one, other] = await both(sent(bound.key), limited);
    expect(comparable(one)).toEqual(comparable(other));
    expect([one.status, one.json.code]).toEqual([422, "TARGET_DENIED"]);
  } finally {
    await limited.close();
  }
});

test("a store that fails, or does not respond, gets a 503", async () => {
  const inner = memoryStore();
  let fails = false;
  const store = {
    ...inner,
    commit: (batch: Parameters<typeof inner.commit>[0]) =>
      fails && batch.creates.length > 0 ? Promise.reject(new Error("disk")) : inner.commit(batch),
  };
  const failing = await openTestServer({ store });
  try {
    const sent = { body: { targetUrl: failing.target.url } };
    await both(sent, failing);
    fails = true;
    const [one, other] = await both(sent, failing);
    expect(comparable(one)).toEqual(comparable(other));
    expect([one.status, one.json.code]).toEqual([503, "STORE_UNAVAILABLE"]);
  } finally {
    fails = false;
    await failing.close();
  }
});
