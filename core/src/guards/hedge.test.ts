/** Tests of when a hedge may be sent. */
import { expect, test } from "vitest";
import {
  HEDGE_DEFAULTS,
  HEDGE_MIN_SAMPLES,
  type HedgeAfter,
  hedgeAfterMs,
  hedgeQuantile,
} from "./hedge.ts";
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
  // A duration of 10 ms is that of calls which took 10 to 11 ms.
  expect(hedgeAfterMs(HEDGE_DEFAULTS, latency, 0)).toBe(11);
});

test("old latencies do not count as known", () => {
  const latency = createLatency(0);
  recordLatency(latency, 0, 10, HEDGE_MIN_SAMPLES - 1);
  recordLatency(latency, 40_000, 10, 1);
  expect(hedgeAfterMs(HEDGE_DEFAULTS, latency, 40_000)).toBe(11);
  expect(hedgeAfterMs(HEDGE_DEFAULTS, latency, 61_000)).toBeUndefined();
});

/** The share of calls that outlast the delay, when all calls so far took these durations. */
function hedgedShare(durations: readonly number[], after: HedgeAfter): number {
  const latency = createLatency(0);
  for (const ms of durations) recordLatency(latency, 0, ms);
  const afterMs = hedgeAfterMs({ ...HEDGE_DEFAULTS, after }, latency, 0) ?? 0;
  return durations.filter((ms) => ms > afterMs).length / durations.length;
}

test("no more calls than the quantile says are hedged, also if all take about the same time", () => {
  for (let base = 1; base < 3000; base += 7) {
    for (const spread of [0, 0.5, 3, base / 10]) {
      const durations = Array.from({ length: 1000 }, (_, n) => base + (spread * n) / 1000);
      expect(hedgedShare(durations, "p95")).toBeLessThanOrEqual(0.05);
      expect(hedgedShare(durations, "p99")).toBeLessThanOrEqual(0.01);
    }
  }
});
