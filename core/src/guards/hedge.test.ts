/** Tests of when a hedge may leave. */
import { expect, test } from "vitest";
import { HEDGE_DEFAULTS, HEDGE_MIN_SAMPLES, hedgeAfterMs, hedgeQuantile } from "./hedge.ts";
import { createLatency, recordLatency } from "./latency.ts";

test("a quantile's name is read as a share, a span is none", () => {
  expect(hedgeQuantile("p95")).toBe(0.95);
  expect(hedgeQuantile("p99.9")).toBeCloseTo(0.999, 10);
  expect(hedgeQuantile("p50")).toBe(0.5);
  expect(hedgeQuantile(200)).toBeUndefined();
});

test("a copy leaves after the quantile once enough latencies are known, after a span at once", () => {
  const latency = createLatency(0);
  expect(hedgeAfterMs({ ...HEDGE_DEFAULTS, after: 70 }, latency, 0)).toBe(70);
  for (let known = 0; known < HEDGE_MIN_SAMPLES; known++) {
    expect(hedgeAfterMs(HEDGE_DEFAULTS, latency, 0)).toBeUndefined();
    recordLatency(latency, 0, 10);
  }
  expect(hedgeAfterMs(HEDGE_DEFAULTS, latency, 0)).toBe(10);
});

test("latencies that are too old for the quantile are not counted as known", () => {
  const latency = createLatency(0);
  recordLatency(latency, 0, 10, HEDGE_MIN_SAMPLES - 1);
  recordLatency(latency, 40_000, 10, 1);
  expect(hedgeAfterMs(HEDGE_DEFAULTS, latency, 40_000)).toBe(10);
  expect(hedgeAfterMs(HEDGE_DEFAULTS, latency, 61_000)).toBeUndefined();
});
