/**
 * Tests of tasks with a gRPC target, from the request that creates them to the log of their attempts, with
 * a real server of grpc-js.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  failing,
  type GrpcTestServer,
  grpcTestServer,
  type Handler,
} from "../../faces/service/src/deliver/grpc-server.testing.ts";
import { ADMIN, type BodyServer, bytesOf, OPERATOR, openBodyServer } from "./body-server.ts";
import { endings } from "./test-server.ts";

let bodies: BodyServer;
let target: GrpcTestServer;
/** The results of the next calls; an echo when it is empty. */
let script: Handler[] = [];

beforeAll(async () => {
  bodies = await openBodyServer(300_000);
  target = await grpcTestServer({
    Create: (call, respond) => {
      const next = script.shift();
      if (next === undefined) respond(null, call.request);
      else next(call, respond);
    },
  });
});
afterAll(async () => {
  target.close();
  await bodies.close();
});
let destination = "";
let count = 0;
beforeEach(() => {
  script = [];
  destination = `orders-${count++}`;
});

/** Creates a task, waits for its end, and returns it with its attempts. */
async function run(task: object) {
  const ended = endings(bodies.server.redrive, 1);
  const body = { targetUrl: target.url("Create"), policyId: "quick", destination, ...task };
  const response = await bodies.as(ADMIN, { body });
  expect(response.json).toMatchObject({ status: expect.any(String) });
  await ended;
  return resultOf(response.json.taskId);
}

async function resultOf(taskId: string) {
  const path = `/retry-tasks/${taskId}/attempts?include=body`;
  const { attempts } = (await bodies.as(ADMIN, { method: "GET", path })).json;
  return { taskId, task: await bodies.view(taskId), attempts };
}

const base64 = (bytes: readonly number[]) => Buffer.from(bytes).toString("base64");

describe("a task with a gRPC target", () => {
  test("is retried until it succeeds, with the same key and one trace", async () => {
    script = [failing(14), failing(8, "slow down", { "grpc-retry-pushback-ms": "5" })];
    const before = target.calls.length;
    const idempotencyKey = `key-${destination}`;
    const { taskId, task, attempts } = await run({
      bodyBase64: base64([8, 150, 255]),
      idempotencyKey,
      headers: { "x-team": "shop" },
    });
    expect(task).toMatchObject({ status: "SUCCEEDED", lastStatus: 0, attemptNumber: 3 });
    expect(task.targetUrl).toBe(target.url("Create"));
    expect(attempts).toMatchObject([
      { outcome: "grpc", responseStatus: 14, delaySource: "policy" },
      {
        outcome: "grpc",
        responseStatus: 8,
        delaySource: "retry-after",
        responseHeaders: { "grpc-message": "slow down", "grpc-retry-pushback-ms": "5" },
      },
      { outcome: "success", responseStatus: 0, responseBodyBase64: base64([8, 150, 255]) },
    ]);
    const calls = target.calls.slice(before).map(({ metadata }) => metadata.getMap());
    expect(calls.map((one) => one["redrive-attempt"])).toEqual(["1", "2", "3"]);
    expect(new Set(calls.map((one) => one["idempotency-key"]))).toEqual(new Set([idempotencyKey]));
    expect(new Set(calls.map((one) => one["x-request-id"]))).toEqual(new Set([taskId]));
    expect(new Set(calls.map((one) => String(one["traceparent"]).slice(3, 35))).size).toBe(1);
    expect(new Set(calls.map((one) => one["traceparent"])).size).toBe(3);
    expect(calls[0]?.["x-team"]).toBe("shop");
  });

  test("is a dead letter after a code that the policy does not list, and after a pushback below 0", async () => {
    script = [failing(5)];
    expect(await run({})).toMatchObject({
      task: { status: "EXHAUSTED", reason: "not-retryable", lastStatus: 5 },
      attempts: [{ responseStatus: 5 }],
    });
    script = [failing(14, "", { "grpc-retry-pushback-ms": "-1" })];
    expect(await run({})).toMatchObject({ task: { reason: "not-retryable", attemptNumber: 1 } });
    const path = "/dead-letters?lastStatus=14";
    const { tasks } = (await bodies.as(ADMIN, { method: "GET", path })).json;
    expect(tasks).toMatchObject([{ lastStatus: 14 }]);
  });

  test("obeys the codes of its policy", async () => {
    script = [failing(10)];
    const policy = { retryableGrpcCodes: ["ABORTED"], initialDelayMs: 1, maxDelayMs: 1 };
    const { task } = await run({ policyId: undefined, policy });
    expect(task).toMatchObject({ status: "SUCCEEDED", attemptNumber: 2 });
  });

  test("reports its end to its callback", async () => {
    script = [failing(7)];
    const callbackUrl = bodies.server.target.url;
    const ended = endings(bodies.server.redrive, 2);
    const { taskId } = await run({ callbackUrl });
    await ended;
    const { received } = bodies.server.target;
    const report = JSON.parse(received[0]?.body.toString() ?? "");
    expect(report).toMatchObject({ taskId, status: "EXHAUSTED", lastStatus: 7 });
  });

  test("may have a large body, from a batch, a forward or a bodyRef", async () => {
    const large = bytesOf(200_000);
    const headers = {
      "redrive-target": target.url("Create"),
      "redrive-destination": destination,
      "content-type": "application/grpc+proto",
    };
    let ended = endings(bodies.server.redrive, 1);
    const forwarded = await bodies.forward(large, headers);
    expect(forwarded.status).toBe(202);
    await ended;
    const { task } = await resultOf(forwarded.json.taskId);
    expect(task).toMatchObject({ status: "SUCCEEDED", bodyRef: expect.any(String) });
    expect(target.calls.at(-1)?.request.equals(large)).toBe(true);

    ended = endings(bodies.server.redrive, 2);
    const item = { targetUrl: target.url("Create"), destination, policyId: "quick" };
    const { results } = (
      await bodies.as(ADMIN, {
        path: "/retry-tasks/batch",
        body: [
          { ...item, bodyRef: task.bodyRef },
          { ...item, body: "text" },
          { ...item, json: {} },
        ],
      })
    ).json;
    expect(results).toMatchObject([
      { status: 202 },
      { status: 202 },
      { status: 400, code: "INVALID_ARGUMENT" },
    ]);
    await ended;
    const bytes = target.calls.slice(-2).map(({ request }) => request.length);
    expect(bytes.toSorted((a, b) => a - b)).toEqual([4, 200_000]);
  });

  test("counts its codes in the metrics", async () => {
    script = [failing(16)];
    await run({});
    const { text } = await bodies.as(OPERATOR, { method: "GET", path: "/metrics" });
    expect(text).toContain('outcome="UNAUTHENTICATED"');
  });

  test.each([
    [{ method: "GET" }, "method must be POST for a gRPC target"],
    [{ json: {} }, "json cannot be sent to a gRPC target"],
    [{ headers: { "grpc-encoding": "gzip" } }, "is set by the service"],
    [{ targetUrl: "grpc://127.0.0.1:50051/x" }, "must have a gRPC method as path"],
    [
      { callbackUrl: "grpc://127.0.0.1:50051/a.B/c" },
      "callbackUrl must begin with http:// or https://",
    ],
  ])("is refused with %j", async (more, message) => {
    const body = { targetUrl: target.url("Create"), ...more };
    const response = await bodies.as(ADMIN, { body });
    expect(response.status).toBe(400);
    expect(response.text).toContain(message);
  });
});
