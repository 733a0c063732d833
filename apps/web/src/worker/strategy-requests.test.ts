/** Tests of calls that share a bucket of retries. */
import { schedule } from "@redrive/simulator";
import { expect, test } from "vitest";
import { BUCKET_RETRIES, runBucket } from "./strategy-requests.ts";

const policy = {
  initialDelayMs: 100,
  maxDelayMs: 1000,
  maxAttempts: 4,
  jitterType: "NONE",
} as const;
const calls = (count: number) =>
  Array.from({ length: count }, (_, call) => schedule(policy, { seed: 1, callId: String(call) }));

test("a herd gets no more retries than the bucket has, and the others give up", () => {
  const { sums, peak, outlasting } = runBucket(calls(1000), 10, 250);
  expect(peak).toBe(BUCKET_RETRIES);
  expect(sums.filter((sum) => sum > 0)).toHaveLength(BUCKET_RETRIES);
  expect(outlasting).toBe(0);
});

test("a few calls do not notice the bucket", () => {
  const { sums, outlasting } = runBucket(calls(10), 10, 250);
  // The second retry, after 100 and 200 ms, is the first after the outage.
  expect(sums).toEqual(Array(10).fill(300));
  expect(outlasting).toBe(10);
});
