/** Tests of the export to OpenTelemetry, with its SDK and a real receiver of OTLP/HTTP. */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import type { EngineEvent } from "@redrive/service";
import { expect, onTestFinished, test } from "vitest";
import { type RunningService, startService } from "../../apps/cli/src/serve/running-service.ts";
import {
  type Loaders,
  startTelemetry,
  type TelemetryFile,
  telemetryConfig,
} from "../../apps/cli/src/serve/telemetry.ts";
import { failing, grpcTestServer } from "../../faces/service/src/deliver/grpc-server.testing.ts";
import { otlpReceiver } from "./otlp-receiver.ts";

const SECRET = "canary-4711";
const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT = "00f067aa0ba902b7";
const traceparent = (flags: string) => `00-${TRACE}-${PARENT}-${flags}`;

const policy = { maxAttempts: 3, initialDelayMs: 7, maxDelayMs: 7, jitterType: "NONE" } as const;

async function open(file: TelemetryFile = {}, status = 200) {
  const receiver = await otlpReceiver(status);
  const endpoint = receiver.url;
  const config = telemetryConfig({}, { endpoint, protocol: "http/json", ...file })!;
  const telemetry = await startTelemetry(config, { environment: {}, version: "1.2.3" });
  const options = { host: "127.0.0.1", port: 0, store: "memory:" };
  const service = await startService(options, { telemetry });
  onTestFinished(async () => {
    await service.stop();
    await receiver.close();
  });
  return { receiver, service, telemetry };
}

/** A target that fails once, and the headers that it received. */
async function flakyTarget() {
  const received: IncomingHttpHeaders[] = [];
  const server = createServer((request, response) => {
    received.push(request.headers);
    request.resume();
    response.writeHead(received.length === 1 ? 503 : 200).end("secret body");
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${port}/hook/${SECRET}?token=${SECRET}`, port, received };
}

/** Creates a task and waits for its end. */
async function run({ redrive }: RunningService, task: Parameters<typeof redrive.enqueue>[0]) {
  const ended = new Promise<EngineEvent>((resolve) => {
    const ends = ["task.succeeded", "task.exhausted"];
    redrive.onEvent((event) => ends.includes(event.type) && resolve(event));
  });
  const { taskId } = await redrive.enqueue(task);
  await ended;
  return taskId;
}

test("attempts are exported as spans of their task's trace", async () => {
  const { receiver, service } = await open();
  const target = await flakyTarget();
  const quiet = await flakyTarget();
  const grpc = await grpcTestServer({ Create: failing(14) });
  onTestFinished(() => grpc.close());
  const headers = { traceparent: traceparent("01"), authorization: `Bearer ${SECRET}` };
  const task = { targetUrl: target.url, headers, body: SECRET, policy, destination: "shop" };
  const taskId = await run(service, task);
  const unsampled = { headers: { traceparent: traceparent("00") }, destination: "quiet", policy };
  await run(service, { targetUrl: quiet.url, ...unsampled });
  const once = { ...policy, maxAttempts: 1 };
  const callId = await run(service, { targetUrl: grpc.url("Create"), policy: once });
  await service.stop();

  const spans = receiver.spans.toSorted((a, b) => a.startedAt - b.startedAt);
  const [first, second, call] = spans;
  // The caller of the second task does not sample its trace, and the target knows.
  expect(spans).toHaveLength(3);
  expect(quiet.received[0]?.["traceparent"]).toMatch(new RegExp(`^00-${TRACE}-\\w{16}-00$`, "u"));
  expect(first).toMatchObject({
    name: "POST",
    kind: 3,
    traceId: TRACE,
    parentSpanId: PARENT,
    status: 2,
    attributes: {
      "http.request.method": "POST",
      "http.response.status_code": 503,
      "url.scheme": "http",
      "url.full": `http://127.0.0.1:${target.port}/REDACTED`,
      "server.address": "127.0.0.1",
      "server.port": target.port,
      "error.type": "503",
      "redrive.task.id": taskId,
      "redrive.tenant": "default",
      "redrive.destination": "shop",
      "redrive.attempt": 1,
      "redrive.outcome": "status",
    },
  });
  // A busy machine may have sent the attempt late, which is an event of its own.
  expect(first?.events.filter(({ name }) => name === "redrive.retry")).toEqual([
    expect.objectContaining({
      attributes: { "redrive.wait.cause": "policy", "redrive.wait.duration_ms": 7 },
    }),
  ]);
  expect(second).toMatchObject({
    parentSpanId: PARENT,
    status: 0,
    attributes: {
      "http.response.status_code": 200,
      "http.request.resend_count": 1,
      "redrive.attempt": 2,
      "redrive.task.status": "SUCCEEDED",
    },
  });
  expect(call).toMatchObject({
    name: "test.Service/Create",
    traceId: callId.replaceAll("-", ""),
    attributes: {
      "rpc.system.name": "grpc",
      "rpc.method": "test.Service/Create",
      "rpc.response.status_code": "UNAVAILABLE",
      "server.port": grpc.port,
      "error.type": "UNAVAILABLE",
      "redrive.reason": "attempts",
      "redrive.task.status": "EXHAUSTED",
    },
  });
  // The target continues the trace from the span of its attempt.
  expect(target.received.map((one) => one["traceparent"])).toEqual(
    [first, second].map((span) => `00-${span?.traceId}-${span?.spanId}-01`),
  );
  expect(receiver.resource).toEqual({ "service.name": "redrive", "service.version": "1.2.3" });
  expect(JSON.stringify(receiver.requests)).not.toMatch(new RegExp(`${SECRET}|secret body`, "u"));
});

test("metrics are exported if they are asked for, and protobuf is possible", async () => {
  const { receiver, service } = await open({ metrics: true, protocol: "http/protobuf" });
  const { url } = await flakyTarget();
  await run(service, { targetUrl: url, policy });
  await service.stop();
  const byPath = receiver.requests.toSorted((a, b) => a.path.localeCompare(b.path));
  expect(byPath).toMatchObject([
    { path: "/v1/metrics", type: "application/x-protobuf" },
    { path: "/v1/traces", type: "application/x-protobuf" },
  ]);
  for (const name of ["redrive.attempt.duration", "redrive.attempt.lag", "redrive.tasks.ended"]) {
    expect(byPath[0]?.text).toContain(name);
  }
  expect(byPath[1]?.text).toContain("http.request.method");
});

test("a receiver that refuses is reported, and the service goes on", async () => {
  const { service, telemetry } = await open({}, 400);
  const problems: string[] = [];
  telemetry.onProblem((problem) => problems.push(problem));
  const { url } = await flakyTarget();
  await run(service, { targetUrl: url, policy });
  await service.stop();
  expect(problems.join()).toContain("Bad Request");
});

test("a missing package is named, with the command that installs all of them", async () => {
  const config = telemetryConfig({ OTEL_TRACES_EXPORTER: "otlp" }, undefined)!;
  const missing = () => Promise.reject(new Error("not found"));
  const api = async () => ({});
  const loaders = { api, resources: missing } as unknown as Loaders;
  const parts = { environment: {}, version: "1.2.3", loaders };
  await expect(startTelemetry(config, parts)).rejects.toThrow(
    "OpenTelemetry is turned on by OTEL_TRACES_EXPORTER, but @opentelemetry/resources cannot be loaded: run `npm install @opentelemetry/api @opentelemetry/resources @opentelemetry/sdk-trace-base @opentelemetry/exporter-trace-otlp-proto`",
  );
});
