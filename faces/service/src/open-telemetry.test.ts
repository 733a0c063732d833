/** Tests of the spans of attempts, with OpenTelemetry's SDK: their attributes, events and parents. */
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { describe, expect, it } from "vitest";
import { notStarted } from "./deliver/attempt.ts";
import type { Settle, StartedTask } from "./model/batch.ts";
import type { AttemptWait } from "./model/task.ts";
import { attemptSpans } from "./open-telemetry.ts";

const NOW = 1_800_000_000_000;
const TASK_ID = "0190b4c8-0000-7000-8000-000000000001";

function traced(task: Partial<StartedTask> = {}, waits: readonly AttemptWait[] = []) {
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(exporter)],
  });
  const started = {
    taskId: TASK_ID,
    tenantId: "acme",
    destination: "shop",
    policyId: "background",
    attemptNumber: 1,
    targetUrl: "https://example.com/hook/secret?token=secret",
    method: "PUT",
    headers: {},
    ...task,
  } as StartedTask;
  const trace = attemptSpans(provider.getTracer("test"))(started, waits, NOW);
  return { trace, span: () => exporter.getFinishedSpans()[0] };
}

const settle = (more: Partial<Settle>) =>
  ({ status: "PENDING", reason: null, attempt: null, ...more }) as Settle;

describe("the span of an attempt", () => {
  it("has the waits before it as events", () => {
    const { trace, span } = traced({}, [
      { cause: "pause", sinceAt: NOW - 500, durationMs: 300 },
      { cause: "circuit-open", sinceAt: NOW - 200, durationMs: 200 },
    ]);
    trace.end(settle({}));
    expect(span()?.events.map(({ name, attributes }) => [name, attributes])).toEqual([
      ["redrive.waited", { "redrive.wait.cause": "pause", "redrive.wait.duration_ms": 300 }],
      ["redrive.waited", { "redrive.wait.cause": "circuit-open", "redrive.wait.duration_ms": 200 }],
    ]);
  });

  it("ends when the attempt ended, although it is settled later", () => {
    const { trace, span } = traced();
    trace.recordResult({ ...notStarted({ kind: "success" }, null), status: 204, durationMs: 250 });
    trace.end(settle({ status: "SUCCEEDED", reason: "succeeded" }));
    expect(span()?.duration).toEqual([0, 250_000_000]);
    expect(span()?.status.code).toBe(SpanStatusCode.UNSET);
    expect(span()?.attributes).toMatchObject({
      "server.address": "example.com",
      "server.port": 443,
      "http.response.status_code": 204,
      "redrive.task.status": "SUCCEEDED",
    });
    expect(span()?.attributes).not.toHaveProperty("error.type");
  });

  it("names the class of an error, and never the URL or a message", () => {
    const { trace, span } = traced();
    const failure = { errorClass: "connect", errorMessage: "secret" } as const;
    trace.recordResult(notStarted({ kind: "error", errorClass: "connect", sent: false }, failure));
    trace.end(settle({}));
    expect(span()?.attributes).toMatchObject({ "error.type": "connect" });
    expect(span()?.status).toEqual({ code: SpanStatusCode.ERROR });
    expect(JSON.stringify([span()?.attributes, span()?.name])).not.toContain("secret");
  });

  it.each([
    ["amqp://rabbit.example/?queue=orders", "rabbitmq", "orders", 5672],
    ["amqps://rabbit.example/?exchange=shop&routingKey=new", "rabbitmq", "shop", 5671],
    ["redis-stream://redis.example:7000/0?stream=orders", "redis", "orders", 7000],
  ])("of a message to %s is a producer", (targetUrl, system, name, port) => {
    const { trace, span } = traced({ targetUrl });
    trace.recordResult({ ...notStarted({ kind: "grpc", code: "NOT_FOUND" }, null), status: 5 });
    trace.end(settle({}));
    expect([span()?.name, span()?.kind]).toEqual([`publish ${name}`, SpanKind.PRODUCER]);
    expect(span()?.attributes).toMatchObject({
      "messaging.system": system,
      "messaging.operation.name": "publish",
      "messaging.destination.name": name,
      "server.port": port,
      "redrive.broker.answer": "NOT_FOUND",
      "error.type": "NOT_FOUND",
    });
    expect(span()?.attributes).not.toHaveProperty("rpc.response.status_code");
  });

  it("says if the claim was returned, because nothing was sent", () => {
    const { trace, span } = traced();
    trace.recordResult(notStarted({ kind: "aborted" }, null));
    trace.end(settle({}));
    expect(span()?.attributes["redrive.returned"]).toBe(true);
  });

  it("has the caller's span as parent, or one that all attempts of the task share", () => {
    const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const { trace, span } = traced({ headers: { TraceParent: traceparent } });
    trace.end(settle({}));
    expect(span()?.parentSpanContext).toMatchObject({ spanId: "00f067aa0ba902b7" });
    const { traceId, spanId } = span()!.spanContext();
    expect(trace.traceparent).toBe(`00-${traceId}-${spanId}-01`);
    expect(traceId).toBe("4bf92f3577b34da6a3ce929d0e0e4736");
    const parents = [1, 2].map((attemptNumber) => {
      const other = traced({ attemptNumber });
      other.trace.end(settle({}));
      return other.span()?.parentSpanContext;
    });
    expect(parents[0]).toMatchObject({ traceId: TASK_ID.replaceAll("-", "") });
    expect(parents[1]).toEqual(parents[0]);
  });
});
