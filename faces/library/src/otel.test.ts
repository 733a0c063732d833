/** Tests of spans and metrics with OpenTelemetry's SDK: what a collector would receive. */
import { context, propagation, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { CallEvent } from "./call/call-event.ts";
import { rejectionOf, statusError, world } from "./call/world.testing.ts";
import { type Destination, type DestinationInput, destination } from "./destination/destination.ts";
import { createFetch } from "./http/fetch.ts";
import { countDuplicates, traced, tracedFetch, traceHeaders } from "./otel.ts";

const FAST = { initialDelayMs: 100, jitterType: "NONE", maxAttempts: 2 } as const;

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
});
afterAll(() => {
  context.disable();
  propagation.disable();
});

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

function observed(input: DestinationInput = {}) {
  const spans = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  const metrics = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter: metrics });
  const meter = new MeterProvider({ readers: [reader] }).getMeter("test");
  const tracer = provider.getTracer("test");
  stops.push(() => reader.shutdown());
  const { clock, random } = world("otel");
  const bare = destination("shop", { clock, random, policy: FAST, idempotent: true, ...input });
  return {
    clock,
    bare,
    meter,
    tracer,
    shop: traced(bare, { tracer, meter }),
    spans: () => spans.getFinishedSpans().toReversed().toSorted(byAttempt),
    /** Name, labels and value (a histogram's sum) of every point. */
    async points(prefix = "") {
      await reader.forceFlush();
      const [{ scopeMetrics = [] } = {}] = metrics.getMetrics().toReversed();
      return scopeMetrics
        .flatMap((scope) =>
          scope.metrics.flatMap(({ descriptor, dataPoints }) =>
            dataPoints.map(({ attributes, value }) => {
              const { "redrive.destination": place = "shop", ...labels } = attributes;
              expect(place).toBe("shop");
              const sum = typeof value === "number" ? value : value.sum;
              return [descriptor.name, Object.values(labels).join(), sum] as const;
            }),
          ),
        )
        .filter(([name]) => name.startsWith(prefix));
    },
  };
}

/** The call first, then its attempts. */
function byAttempt(a: ReadableSpan, b: ReadableSpan): number {
  const rank = ({ attributes }: ReadableSpan) => Number(attributes["redrive.attempt"] ?? 0);
  return rank(a) - rank(b);
}

const down = () => Promise.reject(statusError(503));

describe("a call that is retried", () => {
  test("is a span with a child span per attempt, and the wait as an event", async () => {
    const { clock, shop, spans } = observed();
    const fn = ({ attempt }: { attempt: number }) => (attempt === 1 ? down() : "done");
    expect(await clock.run(shop.run(fn, { key: "eu" }))).toBe("done");
    const [call, first, second] = spans();
    expect(call).toMatchObject({
      name: "redrive shop",
      attributes: { "redrive.destination": "shop", "redrive.key": "eu", "redrive.attempts": 2 },
      status: { code: SpanStatusCode.UNSET },
      events: [{ name: "retry", attributes: { attempt: 2, delayMs: 100, source: "policy" } }],
    });
    expect(first).toMatchObject({
      attributes: {
        "redrive.attempt": 1,
        "redrive.verdict": "transient",
        "http.response.status_code": 503,
        "error.type": "Error",
      },
      status: { code: SpanStatusCode.ERROR },
    });
    expect(second?.attributes).toMatchObject({ "redrive.verdict": "success" });
    const id = call?.spanContext().spanId;
    expect([first, second].map((span) => span?.parentSpanContext?.spanId)).toEqual([id, id]);
  });

  test("counts calls, attempts, durations and waits", async () => {
    const { clock, shop, points } = observed();
    await clock.run(shop.run(({ attempt }) => (attempt === 1 ? down() : clock.sleep(30))));
    await rejectionOf(clock.run(shop.run(down)));
    expect(await points()).toEqual([
      ["retry.calls", "success", 1],
      ["retry.calls", "attempts", 1],
      ["retry.call.duration", "success", 0.13],
      ["retry.call.duration", "attempts", 0.1],
      ["retry.attempts", "transient", 3],
      ["retry.attempts", "success", 1],
      ["retry.attempt.duration", "transient", 0],
      ["retry.attempt.duration", "success", 0.03],
      ["retry.backoff.delay", "", 0.2],
      ["retry.exhausted", "attempts", 1],
      ["retry.budget.available", "", 1],
    ]);
  });
});

test("a call that is given up records the reason but not the message", async () => {
  const { clock, shop, spans } = observed();
  const secret = Object.assign(new Error("token 4711"), { code: "ECONNRESET" });
  await rejectionOf(clock.run(shop.run(() => Promise.reject(secret))));
  const [call, first] = spans();
  expect(call).toMatchObject({
    attributes: { "redrive.reason": "attempts", "redrive.attempts": 2 },
    status: { code: SpanStatusCode.ERROR, message: "attempts" },
  });
  expect(first?.attributes["error.type"]).toBe("ECONNRESET");
  for (const { attributes, events, status } of spans()) {
    expect(JSON.stringify([attributes, events, status])).not.toContain("4711");
  }
});

test("a call that an open circuit refuses has a span and no attempt", async () => {
  const { clock, shop, spans } = observed({ breaker: { minCalls: 1 } });
  await rejectionOf(clock.run(shop.run(down)));
  const before = spans().length;
  await rejectionOf(clock.run(shop.run(down)));
  expect(spans()).toHaveLength(before + 1);
  const reasons = spans().flatMap(({ attributes }) => attributes["redrive.reason"] ?? []);
  expect(reasons).toEqual(["circuit-open", "circuit-open"]);
});

test("an aborted attempt ends with its call", async () => {
  const { shop, spans, points } = observed();
  const controller = new AbortController();
  const running = shop.run(() => new Promise(() => {}), { signal: controller.signal });
  controller.abort(new Error("the user left"));
  await rejectionOf(running);
  expect(spans().map(({ attributes }) => attributes["redrive.verdict"])).toEqual([
    undefined,
    "aborted",
  ]);
  expect(await points()).toContainEqual(["retry.calls", "aborted", 1]);
});

test.each([
  ["the original", [50, 500], ["success", "aborted"]],
  ["the copy", [500, 50], ["aborted", "success"]],
])("of a hedged attempt %s may win, and the other is aborted", async (_, tookMs, verdicts) => {
  const { clock, shop, spans } = observed({ hedge: { after: 10 } });
  await clock.run(shop.run(({ copy }) => clock.sleep(tookMs[copy] ?? 0)));
  const [call, ...copies] = spans();
  expect(call?.events.map(({ name }) => name)).toEqual(["hedge"]);
  const recorded = copies.map(({ attributes }) => [
    attributes["redrive.copy"] ?? 0,
    attributes["redrive.verdict"],
  ]);
  expect(recorded.toSorted()).toEqual(verdicts.map((verdict, copy) => [copy, verdict]));
});

test("of copies that all fail, the last one is recorded as failed", async () => {
  const { clock, shop, spans } = observed({ hedge: { after: 10 }, policy: { maxAttempts: 1 } });
  const running = shop.run(async ({ copy }) => {
    await clock.sleep(copy === 0 ? 20 : 50);
    throw statusError(copy === 0 ? 500 : 503);
  });
  await clock.run(rejectionOf(running));
  const last = spans().find(({ attributes }) => attributes["redrive.copy"] === 1);
  expect(last?.attributes).toMatchObject({
    "redrive.verdict": "transient",
    "http.response.status_code": 503,
  });
});

test("spans of the operation are children of its attempt", async () => {
  const { shop, spans, tracer } = observed();
  await shop.run(async () => {
    await Promise.resolve();
    tracer.startSpan("query").end();
  });
  const [, attempt] = spans().filter(({ name }) => name !== "query");
  const query = spans().find(({ name }) => name === "query");
  expect(query?.parentSpanContext?.spanId).toBe(attempt?.spanContext().spanId);
});

test("behaves as the destination otherwise: events, wrapping, fetch, stats", async () => {
  const { bare, shop, spans } = observed();
  const types: string[] = [];
  const onEvent = ({ type }: CallEvent) => types.push(type);
  const doubled = shop.wrap((n: number) => 2 * n, { onEvent });
  expect(await doubled(21)).toBe(42);
  expect(types).toEqual(["success"]);
  const response = new Response("ok");
  const http = createFetch(shop, { fetch: async () => response });
  expect(await http("http://shop.example/")).toBe(response);
  expect(shop.stats()).toEqual(bare.stats());
  expect(shop.stats().successes).toBe(2);
  expect(spans()).toHaveLength(4);
});

test("without a provider it does nothing and throws no error", async () => {
  const { bare } = observed();
  expect(trace.getActiveSpan()).toBeUndefined();
  expect(await traced(bare).run(() => 7)).toBe(7);
});

describe("guards", () => {
  test("are observed: limit, running attempts, tokens and the state of the breaker", async () => {
    const { clock, shop, points } = observed({
      breaker: { minCalls: 1 },
      concurrency: { max: 7, algorithm: "FIXED" },
      retryBudget: { kind: "TOKENS", maxTokens: 20 },
    });
    expect(await points("retry.")).toEqual([
      ["retry.concurrency.limit", "", 7],
      ["retry.concurrency.in_flight", "", 0],
      ["retry.budget.tokens", "", 20],
      ["retry.budget.available", "", 1],
      ["retry.breaker.state", "CLOSED", 1],
      ["retry.breaker.state", "HALF_OPEN", 0],
      ["retry.breaker.state", "OPEN", 0],
    ]);
    await rejectionOf(clock.run(shop.run(down)));
    expect(await points("retry.breaker")).toEqual([
      ["retry.breaker.state", "CLOSED", 0],
      ["retry.breaker.state", "HALF_OPEN", 0],
      ["retry.breaker.state", "OPEN", 1],
    ]);
  });

  test("are not observed any more when the destination is disposed of", async () => {
    const { bare, tracer, meter, points } = observed();
    let reads = 0;
    const stats = () => {
      reads++;
      return bare.stats();
    };
    const counted: Destination = Object.create(bare, {
      stats: { value: stats },
      [Symbol.dispose]: { value: () => bare[Symbol.dispose]() },
    });
    const shop = traced(counted, { tracer, meter });
    await points();
    expect(reads).toBe(1);
    shop[Symbol.dispose]();
    await points();
    expect(reads).toBe(1);
  });

  test("a call that an empty budget ended is counted", async () => {
    const budget = { kind: "TOKENS", maxTokens: 5, costPerRetry: 5, costPerThrottle: 5 } as const;
    const { clock, shop, points } = observed({ retryBudget: { ...budget, refillPerSuccess: 0 } });
    await rejectionOf(clock.run(shop.run(down)));
    await rejectionOf(clock.run(shop.run(down)));
    expect(await points("retry.budget")).toEqual([
      ["retry.budget.exhausted", "", 1],
      ["retry.budget.tokens", "", 0],
      ["retry.budget.available", "", 0],
    ]);
    expect(await points("retry.exhausted")).toContainEqual(["retry.exhausted", "retry-budget", 1]);
  });
});

describe("the trace context of an attempt is sent with its request", () => {
  const parentOf = (headers: Headers) => headers.get("traceparent")?.split("-")[2];

  test("by fetch, with another span for each attempt", async () => {
    const { clock, shop, spans } = observed();
    const sent: Headers[] = [];
    const send = async (_url: unknown, init?: RequestInit) => {
      sent.push(new Headers(init?.headers));
      return new Response(null, { status: sent.length === 1 ? 503 : 200 });
    };
    const http = createFetch(shop, { fetch: tracedFetch(send) });
    await clock.run(http("http://shop.example/", { headers: { "x-own": "1" } }));
    const [, first, second] = spans().map((span) => span.spanContext().spanId);
    expect(sent.map(parentOf)).toEqual([first, second]);
    expect(sent.map((headers) => headers.get("x-own"))).toEqual(["1", "1"]);
  });

  test("by other clients, without a context manager", async () => {
    context.disable();
    const { shop, spans } = observed();
    const headers = await shop.run((attempt) => traceHeaders(attempt));
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    const [, attempt] = spans().map((span) => span.spanContext().spanId);
    expect(parentOf(new Headers(headers))).toBe(attempt);
  });

  test("and nothing is sent if nothing is traced", async () => {
    const { bare } = observed();
    expect(await bare.run((attempt) => traceHeaders(attempt))).toEqual({});
    const send = async (input: unknown, init?: RequestInit) =>
      Response.json([(input as Request).url, [...new Headers(init?.headers)]]);
    const request = new Request("http://shop.example/", { headers: { "x-own": "1" } });
    const answer = await (await tracedFetch(send)(request)).json();
    expect(answer).toEqual(["http://shop.example/", [["x-own", "1"]]]);
  });
});

test("duplicates are counted by what happened to them", async () => {
  const { meter, points } = observed();
  const count = countDuplicates(meter);
  for (const type of ["claimed", "stored", "replayed", "replayed", "mismatch"]) count({ type });
  expect(await points("retry.duplicates")).toEqual([
    ["retry.duplicates", "replayed", 2],
    ["retry.duplicates", "mismatch", 1],
  ]);
});
