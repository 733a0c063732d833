/** Tests of when a hedge may leave. */
import { expect, test } from "vitest";
import { hedgeQuantile } from "./hedge.ts";

test("a quantile's name is read as a share, a span is none", () => {
  expect(hedgeQuantile("p95")).toBe(0.95);
  expect(hedgeQuantile("p99.9")).toBeCloseTo(0.999, 10);
  expect(hedgeQuantile("p50")).toBe(0.5);
  expect(hedgeQuantile(200)).toBeUndefined();
});
