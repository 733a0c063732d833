/** Tests of when a hedge may be sent. */
import { expect, test } from "vitest";
import { HEDGE_DEFAULTS, HEDGE_MIN_SAMPLES, hedgeAfterMs, hedgeQuantile } from "./hedge.ts";
import { createLatency, recordLatency } from "./latency.ts";

test("a quantile's name is parsed, a duration is not a quantile", () => {
  expect(hedgeQuantile("p95")).toBe(0.95);
  expect(hedgeQuantile("p99.9")).toBeCloseTo(0.999, 10);
  expect(hedgeQuantile("p50")).toBe(0.5);
  expect(hedgeQuantile(200)).toBeUndefined();
});

test("a copy is sent after the quantile once enough latencies are known; a fixed duration needs none", () => {
  const latency = createLatency(0);
  expect(hedgeAfterMs({ ...HEDGE_DEFAULTS, after: 70 }, latency, 0)).toBe(70);
  for (let known = 0; known < HEDGE_MIN_SAMPLES; known++) {
    expect(hedgeAfterMs(HEDGE_DEFAULTS, latency, 0)).toBeUndefined();
    recordLatency(latency, 0, 10);
  }
  expect(hedgeAfterMs(HEDGE_DEFAULTS, latency, 0)).toBe(10);
});

test("old latencies do not count as known", () => {
  const latency = createLatency(0);
  recordLatency(latency, 0, 10, HEDGE_MIN_SAMPLES - 1);
  recordLatency(latency, 40_000, 10, 1);
  expect(hedgeAfterMs(HEDGE_DEFAULTS, latency, 40_000)).toBe(10);
  expect(hedgeAfterMs(HEDGE_DEFAULTS, latency, 61_000)).toBeUndefined();
});
