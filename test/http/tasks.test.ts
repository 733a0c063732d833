/** Tests of tasks over HTTP: create, read, wait and retry now, and what reaches the target. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { endings, openTestServer, type TestServer } from "./test-server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await openTestServer();
});
afterEach(() => {
  server.target.statuses = [];
  server.target.received.length = 0;
});
afterAll(() => server.close());

const once = { maxAttempts: 1 };
const quick = { maxAttempts: 3, initialDelayMs: 1, maxDelayMs: 2 };
const get = (path: string) => server.call({ method: "GET", path });

/**
 * Creates a task, waits for its end and returns the bytes that its target received. Every test here
 * waits for what it started: the server is shared, and a late end would count for the next test.
 */
async function deliver(body: string): Promise<Buffer> {
  const headers = { prefer: "wait=10" };
  const { status, text } = await server.call({ body, headers });
  expect(status, text).toBe(200);
  return server.target.received.at(-1)?.body ?? Buffer.alloc(0);
}

describe("POST /retry-tasks", () => {
  test("returns 202 with the location of the task", async () => {
    const done = endings(server.redrive, 1);
    const { status, headers, json } = await server.call({ body: { targetUrl: server.target.url } });
    expect(status).toBe(202);
    expect(json).toEqual({ taskId: expect.any(String), status: "PENDING" });
    expect(headers.location).toBe(`/retry-tasks/${json.taskId}`);
    await done;
    const found = await get(`/retry-tasks/${json.taskId}`);
    expect(found.json).toMatchObject({
      status: "SUCCEEDED",
      attemptNumber: 1,
      policyId: "background",
    });
  });

  test("waits for the end if the caller prefers that, after the task is durable", async () => {
    server.target.statuses = [503, 200];
    const body = { targetUrl: server.target.url, policy: quick };
    const { status, headers, json } = await server.call({ body, headers: { prefer: "wait=10" } });
    expect(status).toBe(200);
    expect(headers["preference-applied"]).toBe("wait=10");
    expect(json).toMatchObject({ status: "SUCCEEDED", attemptNumber: 2, lastStatus: 200 });
  });

  test("returns 202 if the task does not end in time, and never waits over 25 s", async () => {
    const release = server.target.hold();
    const body = { targetUrl: server.target.url, policy: once };
    const response = await server.call({ body, headers: { prefer: "wait=1" } });
    expect(response.status).toBe(202);
    expect(response.json.status).toBe("IN_FLIGHT");
    const done = endings(server.redrive, 1);
    release();
    await done;
    const other = await server.call({ body, headers: { prefer: "wait=9999" } });
    expect(other.headers["preference-applied"]).toBe("wait=25");
  });

  test("unknown policy: 422; denied target: 422", async () => {
    const { url } = server.target;
    const unknown = await server.call({ body: { targetUrl: url, policyId: "nope" } });
    expect([unknown.status, unknown.json.code]).toEqual([422, "UNKNOWN_POLICY"]);
    await server.call({
      path: "/retry-policies",
      body: { policyId: "night-orders", maxAttempts: 2 },
    });
    const near = await server.call({ body: { targetUrl: url, policyId: "nigth-orders" } });
    expect(near.json.detail).toBe(
      'there is no policy "nigth-orders", did you mean "night-orders"?',
    );
    const preset = await get("/retry-policies/webhok");
    expect(preset.json.detail).toBe('there is no policy "webhok", did you mean "webhook"?');
    const denied = await server.call({ body: { targetUrl: "http://169.254.169.254/" } });
    expect([denied.status, denied.json.code]).toEqual([422, "TARGET_DENIED"]);
  });

  test("a policy that requires a key rejects a task without one", async () => {
    const { status, json } = await server.call({
      body: { targetUrl: server.target.url, policyId: "payment" },
    });
    expect([status, json.code]).toEqual([400, "IDEMPOTENCY_KEY_REQUIRED"]);
  });

  test("row 11: if a name occurs twice, the last value counts", async () => {
    const { url } = server.target;
    const { json } = await server.call({
      body: `{"targetUrl":"http://10.0.0.1/","targetUrl":"${url}","policy":{"maxAttempts":1}}`,
      headers: { prefer: "wait=10" },
    });
    expect((await get(`/retry-tasks/${json.taskId}`)).json.targetUrl).toBe(url);
  });

  test("row 20: a fragment is accepted and not sent", async () => {
    await deliver(JSON.stringify({ targetUrl: `${server.target.url}?a=1#part`, policy: once }));
    expect(server.target.received.at(-1)?.url).toBe("/hook?a=1");
  });

  test("row 42: an instant in the past means now", async () => {
    const body = { targetUrl: server.target.url, scheduledAt: 1000, policy: once };
    const { json } = await server.call({ body, headers: { prefer: "wait=10" } });
    expect(json.status).toBe("SUCCEEDED");
    expect(json.scheduledAt).toBe(json.createdAt);
  });
});

describe("what reaches the target", () => {
  const wrap = (fields: string) =>
    `{"targetUrl":"${server.target.url}","policy":{"maxAttempts":1},${fields}}`;

  test("row 33: text, JSON and Base64, byte for byte", async () => {
    expect((await deliver(wrap('"body":"a\\u00e4"'))).toString()).toBe("aä");
    expect((await deliver(wrap('"json":{"a": [1, 2]}'))).toString()).toBe('{"a": [1, 2]}');
    expect(server.target.received.at(-1)?.headers["content-type"]).toBe("application/json");
    expect([...(await deliver(wrap('"bodyBase64":"/wCA"')))]).toEqual([0xff, 0x00, 0x80]);
  });

  test("row 34: NUL and lone surrogates are kept unchanged", async () => {
    expect((await deliver(wrap('"body":"a\\u0000b"'))).toString()).toBe("a\0b");
    expect((await deliver(wrap('"json":"\\ud800"'))).toString()).toBe('"\\ud800"');
  });

  test("row 35: numbers that JavaScript cannot represent", async () => {
    const json = '{"n":9007199254740993,"x":1e400,"y":1.10}';
    expect((await deliver(wrap(`"json":${json}`))).toString()).toBe(json);
  });

  test("row 12: an escaped name cannot smuggle in another payload", async () => {
    const { status } = await server.call({ body: wrap('"json":1,"js\\u006fn":2') });
    expect(status).toBe(400);
  });

  test("I32: all 256 bytes, the same on every attempt", async () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    server.target.statuses = [503, 500];
    const body = {
      targetUrl: server.target.url,
      policy: quick,
      bodyBase64: bytes.toString("base64"),
    };
    const { json } = await server.call({ body, headers: { prefer: "wait=10" } });
    expect(json).toMatchObject({ status: "SUCCEEDED", attemptNumber: 3 });
    for (const received of server.target.received) expect(received.body.equals(bytes)).toBe(true);
    expect(server.target.received).toHaveLength(3);
  });

  test("I11: no attempt before nextAttemptAt", async () => {
    const startMs = performance.now();
    const scheduledAt = Date.now() + 150;
    await deliver(JSON.stringify({ targetUrl: server.target.url, policy: once, scheduledAt }));
    const { attempts } = (
      await get("/retry-tasks?limit=1").then(({ json }) =>
        get(`/retry-tasks/${json.tasks[0].taskId}/attempts`),
      )
    ).json;
    expect(attempts[0].startedAt).toBeGreaterThanOrEqual(scheduledAt);
    expect((server.target.received.at(-1)?.atMs ?? 0) - startMs).toBeGreaterThanOrEqual(149);
  });
});

describe("reading tasks", () => {
  test("explains why one is not running now", async () => {
    const origin = encodeURIComponent(server.target.origin);
    const { json: created } = await server.call({
      body: { targetUrl: server.target.url, scheduledAt: Date.now() + 3_600_000 },
    });
    const explained = async () =>
      (await get(`/retry-tasks/${created.taskId}?include=explain,body`)).json.explain;
    expect(await explained()).toMatch(/^Attempt 1 is due in (1 h|60 min|59\.\d+ min)\.$/);
    await server.call({ path: `/destinations/${origin}/pause` });
    expect(await explained()).toMatch(/is paused until it is resumed\.$/);
    const { json } = await server.call({ path: `/destinations/${origin}/resume` });
    expect(json.pausedAt).toBeNull();
    const done = endings(server.redrive, 1);
    const woken = await server.call({ path: `/retry-tasks/${created.taskId}/retry` });
    expect(woken.status).toBe(202);
    await done;
    expect(await explained()).toBe("It succeeded at attempt 1.");
    const again = await server.call({ path: `/retry-tasks/${created.taskId}/retry` });
    expect([again.status, again.json.code]).toEqual([409, "TASK_STATE_CONFLICT"]);
  });

  test("lists by every filter, in pages", async () => {
    const labels = { run: "list" };
    const done = endings(server.redrive, 5);
    for (let n = 0; n < 5; n++) {
      await server.call({
        body: { targetUrl: server.target.url, policy: once, labels, idempotencyKey: `list-${n}` },
      });
    }
    await done;
    const seen: string[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const more: string = cursor === "" ? "" : `&cursor=${cursor}`;
      const { json } = await get(`/retry-tasks?label=run%3Dlist&limit=2${more}`);
      seen.push(
        ...json.tasks.map(({ idempotencyKey }: { idempotencyKey: string }) => idempotencyKey),
      );
      cursor = json.cursor;
    }
    expect(seen).toEqual(["list-4", "list-3", "list-2", "list-1", "list-0"]);
    const count = async (query: string) => (await get(`/retry-tasks?${query}`)).json.tasks.length;
    expect(await count("label=run%3Dother")).toBe(0);
    expect(await count("idempotencyKey=list-3&status=SUCCEEDED&lastStatus=200")).toBe(1);
    expect(await count("label=run%3Dlist&status=PENDING")).toBe(0);
    expect(await count("createdTo=1")).toBe(0);
    expect(await count("label=run%3Dlist&finishedFrom=1&createdFrom=1")).toBe(5);
    expect(
      await count(`destination=${encodeURIComponent(server.target.origin)}&label=run%3Dlist`),
    ).toBe(5);
    expect(await count("label=run%3D%25")).toBe(0);
  });

  test("row 52: a cursor of another list is rejected", async () => {
    for (let n = 0; n < 2; n++) {
      await server.call({
        body: { targetUrl: server.target.url, policy: once },
        headers: { prefer: "wait=5" },
      });
    }
    const { json } = await get("/retry-tasks?limit=1");
    expect(json.cursor).toEqual(expect.any(String));
    const { taskId } = json.tasks[0];
    const { status } = await get(`/retry-tasks/${taskId}/attempts?cursor=${json.cursor}`);
    expect(status).toBe(400);
  });

  test("shows attempts, with bodies only on request", async () => {
    server.target.statuses = [500, 200];
    const { json: created } = await server.call({
      body: { targetUrl: server.target.url, policy: quick, body: "hello" },
      headers: { prefer: "wait=10" },
    });
    const path = `/retry-tasks/${created.taskId}`;
    const { json } = await get(`${path}/attempts`);
    expect(
      json.attempts.map(({ responseStatus }: { responseStatus: number }) => responseStatus),
    ).toEqual([500, 200]);
    expect(json.attempts[0].responseBody).toBeUndefined();
    const withBody = await get(`${path}/attempts?include=body&limit=1`);
    expect(withBody.json.attempts[0].responseBody).toBe("answered");
    expect((await get(path)).json.body).toBeUndefined();
    expect((await get(`${path}?include=body`)).json.body).toBe("hello");
  });
});

describe("POST /retry-tasks/batch", () => {
  test("row 63: one invalid task of a thousand is reported, and the others are stored", async () => {
    const good = { targetUrl: server.target.url, policy: once };
    const done = endings(server.redrive, 999);
    const tasks: object[] = Array.from({ length: 1000 }, () => good);
    tasks[500] = { ...good, metod: "PUT" };
    const { status, json } = await server.call({ path: "/retry-tasks/batch", body: tasks });
    expect([status, json.accepted, json.refused]).toEqual([200, 999, 1]);
    expect(json.results[500]).toMatchObject({ status: 400, errors: [{ field: "metod" }] });
    expect(json.results[501]).toMatchObject({ status: 202, replayed: false });
    await done;
  });

  test("accepts NDJSON too, with the payload unchanged", async () => {
    const line = `{"targetUrl":"${server.target.url}","policy":{"maxAttempts":1},"json":{"n":1.0}}`;
    const done = endings(server.redrive, 2);
    const { json } = await server.call({
      path: "/retry-tasks/batch",
      body: `${line}\n\n${line}\nnonsense\n`,
      headers: { "content-type": "application/x-ndjson" },
    });
    expect([json.accepted, json.refused]).toEqual([2, 1]);
    await done;
    expect(server.target.received.map(({ body }) => body.toString())).toEqual([
      '{"n":1.0}',
      '{"n":1.0}',
    ]);
  });
});

describe("row 65: callers' data is shown as text", () => {
  test("labels and errors are returned as JSON, and the page escapes them", async () => {
    const labels = { name: "<script>alert(1)</script>\u202e\u001b[31m" };
    const { json: created } = await server.call({
      body: { targetUrl: server.target.url, labels, policy: once },
      headers: { prefer: "wait=10" },
    });
    const { text, headers } = await get(`/retry-tasks/${created.taskId}`);
    expect(headers["content-type"]).toContain("application/json");
    expect(headers["x-content-type-options"]).toBe("nosniff");
    expect(text).not.toContain("\u001b");
    expect(JSON.parse(text).labels).toEqual(labels);
    const page = await get("/docs?q=<script>");
    expect(page.text).not.toContain("<script");
    expect(page.headers["content-security-policy"]).toContain("default-src 'none'");
  });
});
