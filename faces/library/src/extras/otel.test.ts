/** Tests of spans and metrics with OpenTelemetry's own SDK: what a collector would receive. */
import { context, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
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
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CallEvent } from "../call/call-event.ts";
import { rejectionOf, statusError, world } from "../call/world.testing.ts";
import { type DestinationInput, destination } from "../destination/destination.ts";
import { createFetch } from "../http/fetch.ts";
import { traced } from "./otel.ts";

const FAST = { initialDelayMs: 100, jitterType: "NONE", maxAttempts: 2 } as const;

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
});
afterAll(() => context.disable());

function observed(input: DestinationInput = {}) {
  const spans = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  const metrics = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter: metrics });
  const meter = new MeterProvider({ readers: [reader] }).getMeter("test");
  const tracer = provider.getTracer("test");
  const { clock, random } = world("otel");
  const bare = destination("shop", { clock, random, policy: FAST, ...input });
  return {
    clock,
    bare,
    tracer,
    shop: traced(bare, { tracer, meter }),
    spans: () => spans.getFinishedSpans().toReversed().toSorted(byAttempt),
    /** Name, labels and value (a histogram's sum) of every point. */
    async points() {
      await reader.forceFlush();
      const [{ scopeMetrics = [] } = {}] = metrics.getMetrics().toReversed();
      await reader.shutdown();
      return scopeMetrics.flatMap((scope) =>
        scope.metrics.flatMap(({ descriptor, dataPoints }) =>
          dataPoints.map(({ attributes, value }) => {
            const { "redrive.destination": place, ...labels } = attributes;
            expect(place).toBe("shop");
            const sum = typeof value === "number" ? value : value.sum;
            return [descriptor.name, Object.values(labels).join(), sum];
          }),
        ),
      );
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
  test("is a span with one below it for each attempt, and the wait as an event", async () => {
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
    await clock.run(shop.run(({ attempt }) => (attempt === 1 ? down() : "done")));
    await rejectionOf(clock.run(shop.run(down)));
    expect(await points()).toEqual([
      ["redrive.calls", "success", 1],
      ["redrive.calls", "attempts", 1],
      ["redrive.attempts", "transient", 3],
      ["redrive.attempts", "success", 1],
      ["redrive.call.duration", "success", 0.1],
      ["redrive.call.duration", "attempts", 0.1],
      ["redrive.retry.delay", "", 0.2],
    ]);
  });
});

test("a call that is given up says why, and nothing of the message", async () => {
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

test("a call that the open circuit refuses has a span and no attempt", async () => {
  const { clock, shop, spans } = observed({ breaker: { minCalls: 1 } });
  await rejectionOf(clock.run(shop.run(down)));
  const before = spans().length;
  await rejectionOf(clock.run(shop.run(down)));
  expect(spans()).toHaveLength(before + 1);
  const reasons = spans().flatMap(({ attributes }) => attributes["redrive.reason"] ?? []);
  expect(reasons).toEqual(["circuit-open", "circuit-open"]);
});

test("an attempt that is cut off ends with its call", async () => {
  const { shop, spans, points } = observed();
  const controller = new AbortController();
  const running = shop.run(() => new Promise(() => {}), { signal: controller.signal });
  controller.abort(new Error("the user left"));
  await rejectionOf(running);
  expect(spans().map(({ attributes }) => attributes["redrive.verdict"])).toEqual([
    undefined,
    "aborted",
  ]);
  expect(await points()).toContainEqual(["redrive.calls", "aborted", 1]);
});

test.each([
  ["the original", [50, 500], ["success", "aborted"]],
  ["the copy", [500, 50], ["aborted", "success"]],
])("of a hedged attempt %s may win, and the other is cut off", async (_, tookMs, verdicts) => {
  const { clock, shop, spans } = observed({ hedge: { after: 10 } });
  await clock.run(shop.run(({ copy }) => clock.sleep(tookMs[copy] ?? 0)));
  const [call, ...copies] = spans();
  expect(call?.events.map(({ name }) => name)).toEqual(["hedge"]);
  const told = copies.map(({ attributes }) => [
    attributes["redrive.copy"] ?? 0,
    attributes["redrive.verdict"],
  ]);
  expect(told.toSorted()).toEqual(verdicts.map((verdict, copy) => [copy, verdict]));
});

test("of copies that all fail, the one that failed last is told as failed", async () => {
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

test("what the function does hangs below its attempt", async () => {
  const { shop, spans, tracer } = observed();
  await shop.run(async () => {
    await Promise.resolve();
    tracer.startSpan("query").end();
  });
  const [, attempt] = spans().filter(({ name }) => name !== "query");
  const query = spans().find(({ name }) => name === "query");
  expect(query?.parentSpanContext?.spanId).toBe(attempt?.spanContext().spanId);
});

test("is the destination in all else: events, wrapping, fetch, stats", async () => {
  const { bare, shop, spans } = observed();
  const told: string[] = [];
  const onEvent = ({ type }: CallEvent) => told.push(type);
  const doubled = shop.wrap((n: number) => 2 * n, { onEvent });
  expect(await doubled(21)).toBe(42);
  expect(told).toEqual(["success"]);
  const answer = new Response("ok");
  const http = createFetch(shop, { fetch: async () => answer });
  expect(await http("http://shop.example/")).toBe(answer);
  expect(shop.stats()).toEqual(bare.stats());
  expect(shop.stats().successes).toBe(2);
  expect(spans()).toHaveLength(4);
});

test("without a provider it does nothing, and costs no error", async () => {
  const { bare } = observed();
  expect(trace.getActiveSpan()).toBeUndefined();
  expect(await traced(bare).run(() => 7)).toBe(7);
});
