/**
 * Tests of tasks whose target is a stream of Redis, from the request that creates them to the entry in the
 * stream and the log of their attempts, with a real Redis.
 */
// needs: redis
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { redrive as redriveCommand } from "../../apps/cli/src/program.testing.ts";
import { type RestartableServer, startRestartable } from "../servers/restartable.ts";
import { ADMIN, type BodyServer, bytesOf, OPERATOR, openBodyServer } from "./body-server.ts";
import { endings } from "./test-server.ts";

let bodies: BodyServer;
let server: RestartableServer;
let redis: Redis;
let host = "";
beforeAll(async () => {
  [bodies, server] = await Promise.all([openBodyServer(5_000_000), startRestartable("redis")]);
  ({ host } = new URL(server.nextUrl()));
  redis = new Redis(`redis://${host}`);
  redis.on("error", () => {});
});
afterAll(async () => {
  redis.disconnect();
  await bodies.close();
  await server.stop();
});

let stream = "";
let count = 0;
beforeEach(() => {
  stream = `orders-${count++}`;
});

const targetUrl = (more = "") => `redis-stream://${host}/0?stream=${stream}${more}`;
const loginOf = (user: string, password: string) =>
  `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;

/** Creates a task, waits for its end, and returns it with its attempts. */
async function run(task: object) {
  const ended = endings(bodies.server.redrive, 1);
  const body = { targetUrl: targetUrl(), policyId: "quick", destination: stream, ...task };
  const response = await bodies.as(ADMIN, { body });
  expect(response.json).toMatchObject({ status: expect.any(String) });
  await ended;
  const { taskId } = response.json;
  const path = `/retry-tasks/${taskId}/attempts?include=body`;
  const { attempts } = (await bodies.as(ADMIN, { method: "GET", path })).json;
  return { taskId, task: await bodies.view(taskId), attempts };
}

/** The entries of the stream as objects. */
async function entries() {
  const found = await redis.xrangeBuffer(stream, "-", "+");
  return found.map(([id, fields]) => {
    const pairs = fields.map((field, index) => [field, fields[index + 1]] as const);
    const even = pairs.filter((_, index) => index % 2 === 0);
    const entry = Object.fromEntries(even.map(([name, value]) => [String(name), value]));
    return { id: String(id), ...entry } as Record<string, Buffer | string>;
  });
}

describe("a task whose target is a stream", () => {
  test("becomes an entry with its body, its key and its headers", async () => {
    const bytes = Buffer.from([0, 255, 13, 10, 36]);
    const { taskId, task, attempts } = await run({
      bodyBase64: bytes.toString("base64"),
      idempotencyKey: `key-${stream}`,
      headers: { "Content-Type": "application/x-order", "X-Shop": "berlin" },
    });
    expect(task).toMatchObject({ status: "SUCCEEDED", lastStatus: 0, targetUrl: targetUrl() });
    const [entry, ...others] = await entries();
    expect(others).toEqual([]);
    expect(entry?.["body"]).toEqual(bytes);
    const { id, body: _, traceparent, ...fields } = entry ?? {};
    expect(
      Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, String(value)])),
    ).toEqual({
      "idempotency-key": `key-${stream}`,
      "content-type": "application/x-order",
      "redrive-task-id": taskId,
      "redrive-attempt": "1",
      "redrive-hop": "1",
      "x-request-id": taskId,
      "x-shop": "berlin",
    });
    expect(String(traceparent)).toMatch(/^00-[\da-f]{32}-[\da-f]{16}-01$/);
    expect(attempts).toMatchObject([
      { outcome: "success", responseStatus: 0, responseBody: String(id) },
    ]);
  });

  test("may have a body as JSON, none, and a long one", async () => {
    await run({ json: { order: 1 } });
    await run({});
    const long = bytesOf(200_000);
    await run({ bodyBase64: long.toString("base64") });
    const [json, none, large] = await entries();
    expect(String(json?.["body"])).toBe('{"order":1}');
    expect(String(json?.["content-type"])).toBe("application/json");
    expect(String(none?.["body"])).toBe("");
    expect(long.equals(large?.["body"] as Buffer)).toBe(true);
  });

  test("keeps the stream about as long as the URL says", async () => {
    await redis.config("SET", "stream-node-max-entries", "2");
    for (let n = 0; n < 12; n++) await run({ targetUrl: targetUrl("&maxLen=4") });
    expect((await entries()).length).toBeLessThan(8);
  });

  test("with create=false is a dead letter if the stream does not exist", async () => {
    const without = { targetUrl: targetUrl("&create=false") };
    expect(await run(without)).toMatchObject({
      task: { status: "EXHAUSTED", reason: "not-retryable", lastStatus: 5 },
    });
    expect(await redis.exists(stream)).toBe(0);
    await run({});
    expect(await run(without)).toMatchObject({ task: { status: "SUCCEEDED" } });
  });

  test("is a dead letter after an error that a retry does not change, and explains it", async () => {
    await redis.set(stream, "text");
    const { taskId, attempts } = await run({});
    expect(attempts).toMatchObject([
      {
        outcome: "grpc",
        responseStatus: 9,
        errorMessage: "the broker refused the message (WRONGTYPE)",
      },
    ]);
    const { explain } = await bodies.view(taskId, "?include=explain");
    expect(JSON.stringify(explain)).toContain("repeating it would not help");
    const { text } = await bodies.as(OPERATOR, { method: "GET", path: "/metrics" });
    expect(text).toContain('outcome="FAILED_PRECONDITION"');
  });

  test("is retried while Redis has no memory, with the same key in one trace", async () => {
    await redis.config("SET", "maxmemory", "1");
    const ended = endings(bodies.server.redrive, 1);
    const policy = { maxAttempts: 1000, initialDelayMs: 5, maxDelayMs: 5, totalBudgetMs: 600_000 };
    const { taskId } = (
      await bodies.as(ADMIN, { body: { targetUrl: targetUrl(), destination: stream, policy } })
    ).json;
    await expect.poll(async () => (await bodies.view(taskId)).lastStatus).toBe(8);
    await redis.config("SET", "maxmemory", "0");
    await ended;
    const [entry] = await entries();
    expect(String(entry?.["idempotency-key"])).toBe(taskId);
    expect(Number(String(entry?.["redrive-attempt"]))).toBeGreaterThan(1);
    expect(await bodies.view(taskId)).toMatchObject({ status: "SUCCEEDED" });
  });

  test("uses the password in its header, which is nowhere to be seen", async () => {
    await redis.acl("SETUSER", "app", "on", ">hunter22", "~*", "+xadd");
    const authorization = loginOf("app", "hunter22");
    const { task, attempts } = await run({ headers: { authorization } });
    expect(task.status).toBe("SUCCEEDED");
    const [entry] = await entries();
    const seen = JSON.stringify([task, attempts, Object.entries(entry ?? {}).map(String)]);
    expect(seen).not.toContain("hunter22");
    expect(seen).not.toContain(authorization.slice(6));
    expect(await run({ headers: { authorization: loginOf("app", "wrong") } })).toMatchObject({
      task: { status: "EXHAUSTED", lastStatus: 16 },
    });
    await redis.acl("SETUSER", "app", "-xadd");
    expect(await run({ headers: { authorization } })).toMatchObject({ task: { lastStatus: 7 } });
  });

  test("waits for a Redis that crashes, and adds the entry after its restart", async () => {
    await run({});
    await server.crash();
    const ended = endings(bodies.server.redrive, 1);
    const policy = { maxAttempts: 1000, initialDelayMs: 5, maxDelayMs: 20, totalBudgetMs: 600_000 };
    const body = { targetUrl: targetUrl(), destination: stream, policy };
    const { taskId } = (await bodies.as(ADMIN, { body })).json;
    await expect.poll(async () => (await bodies.view(taskId)).attemptNumber).toBeGreaterThan(1);
    await server.start();
    await ended;
    expect(await bodies.view(taskId)).toMatchObject({ status: "SUCCEEDED" });
    await expect.poll(async () => (await entries()).length).toBe(2);
  });

  test("ends its attempt in time although Redis hangs", async () => {
    await run({});
    server.hang();
    const policy = { maxAttempts: 1, attemptTimeoutMs: 300 };
    const { attempts } = await run({ policyId: undefined, policy });
    server.resume();
    expect(attempts).toMatchObject([{ outcome: "error", errorClass: "timeout" }]);
    expect(attempts[0].durationMs).toBeGreaterThanOrEqual(300);
  });

  test("is created by the command line, which shows its status", async () => {
    const url = bodies.server.url;
    const sent = await redriveCommand(
      `send ${targetUrl()} --body hello --wait 20s --json --url ${url} --api-key ${ADMIN}`,
    );
    expect(JSON.parse(sent.out)).toMatchObject({ status: "SUCCEEDED" });
    const { taskId } = JSON.parse(sent.out);
    const shown = await redriveCommand(`tasks get ${taskId} --url ${url} --api-key ${ADMIN}`);
    expect(shown.out).toContain("OK");
    expect(String((await entries())[0]?.["body"])).toBe("hello");
  });

  test("is refused if its body is longer than a message may be", async () => {
    const long = Buffer.alloc((4 << 20) + 1);
    const refused = await bodies.forward(long, { "redrive-target": targetUrl() });
    expect([refused.status, refused.json.code]).toEqual([400, "INVALID_ARGUMENT"]);
    expect(refused.text).toContain("at most 4194304 bytes for a message, got 4194305");
    const ended = endings(bodies.server.redrive, 1);
    await bodies.forward(long.subarray(1), { "redrive-target": targetUrl() });
    await ended;
    expect((await entries())[0]?.["body"]).toHaveLength(4 << 20);
  });

  test.each([
    [{ method: "GET" }, 400, "method must be POST for a message"],
    [{ headers: { authorization: "Bearer x" } }, 400, 'must be \\"Basic\\"'],
    [{ targetUrl: "redis-stream://127.0.0.1:7000/0?strem=x" }, 400, "did you mean stream?"],
    [{ targetUrl: "redis-stream://u:p@127.0.0.1:7000/0?stream=x" }, 400, "no user or password"],
    [{ targetUrl: "redis-stream://127.0.0.1/0?stream=x" }, 422, "TARGET_DENIED"],
    [{ targetUrl: "redis-stream://10.0.0.1:7000/0?stream=x" }, 422, "TARGET_DENIED"],
    [{ callbackUrl: "redis-stream://127.0.0.1:7000/0?stream=x" }, 400, "callbackUrl must begin"],
  ])("is refused with %j", async (more, status, text) => {
    const response = await bodies.as(ADMIN, { body: { targetUrl: targetUrl(), ...more } });
    expect([response.status, response.text.includes(text)]).toEqual([status, true]);
    expect(await redis.exists(stream)).toBe(0);
  });
});
