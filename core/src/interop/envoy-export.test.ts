/** Tests of writing Envoy's retry policies, and of reading back what was written. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { DestinationDocument } from "../guards/destination.ts";
import type { ErrorClass, GrpcCode } from "../policy/error-classes.ts";
import { type PolicyDocument, resolvePolicy } from "../policy/policy.ts";
import { statusRange } from "../policy/status-range.ts";
import { importEnvoy } from "./envoy-config.ts";
import { exportEnvoy } from "./envoy-export.ts";

const NO_RESPONSE: readonly ErrorClass[] = ["timeout", "connect", "reset", "protocol"];
const CODES: readonly GrpcCode[] = [
  "DEADLINE_EXCEEDED",
  "RESOURCE_EXHAUSTED",
  "INTERNAL",
  "UNAVAILABLE",
];

/** Policies that use only what Envoy can express. */
const expressible: fc.Arbitrary<PolicyDocument> = fc
  .record({
    maxAttempts: fc.integer({ min: 1, max: 1000 }),
    initialDelayMs: fc.integer({ min: 1, max: 60_000 }),
    moreMs: fc.nat(600_000),
    totalBudgetMs: fc.integer({ min: 60_001, max: 365 * 86_400_000 }),
    attemptTimeoutMs: fc.integer({ min: 100, max: 600_000 }),
    retryableErrors: fc.constantFrom<readonly ErrorClass[]>(
      [],
      ["connect"],
      ["protocol"],
      ["connect", "protocol"],
      NO_RESPONSE,
    ),
    statuses: fc.oneof(
      fc.constant(statusRange(500, 599)),
      fc.subarray([301, 404, 409, 429, 500, 503, 599]),
    ),
    more: fc.subarray([300, 408, 425, 499]),
    retryableGrpcCodes: fc.subarray([...CODES]),
    hint: fc.oneof(
      fc.constant({ respectRetryAfter: false }),
      fc.integer({ min: 1, max: 86_400_000 }).map((maxRetryAfterMs) => ({ maxRetryAfterMs })),
    ),
  })
  .map(({ moreMs, statuses, more, hint, ...rest }) => ({
    ...rest,
    ...hint,
    backoff: "EXPONENTIAL",
    multiplier: 2,
    jitterType: "FULL",
    maxDelayMs: rest.initialDelayMs + moreMs,
    retryableStatusCodes: [...new Set([...more, ...statuses])].sort((a, b) => a - b),
  }));

describe("round trips", () => {
  test("a policy that Envoy can express is unchanged after export and import", () => {
    fc.assert(
      fc.property(expressible, (document) => {
        const read = importEnvoy(exportEnvoy(document).config);
        expect(resolvePolicy(read.policy)).toEqual(resolvePolicy(document));
      }),
      { numRuns: 40 },
    );
  });

  test("a written config is unchanged after import and export", () => {
    const guards: fc.Arbitrary<DestinationDocument> = fc.oneof(
      fc
        .record({ max: fc.integer({ min: 10, max: 1000 }), maxRetries: fc.nat(10) })
        .map((limits) => ({
          retryBudget: false as const,
          concurrency: { algorithm: "FIXED" as const, ...limits },
        })),
      fc
        .record({ percent: fc.nat(100), minPerSecond: fc.nat(1000) })
        .map(({ percent, minPerSecond }) => ({
          retryBudget: { kind: "RATIO" as const, ratio: percent / 100, minPerSecond },
        })),
    );
    fc.assert(
      fc.property(expressible, guards, (document, destination) => {
        const written = exportEnvoy(document, destination).config;
        const read = importEnvoy(written);
        expect(exportEnvoy(read.policy, read.destination).config).toEqual(written);
        expect(read.destination).toEqual(destination);
      }),
      { numRuns: 40 },
    );
  });

  test("a hedge keeps its delay", () => {
    const { config } = exportEnvoy({}, { hedge: { after: 250 } });
    expect(importEnvoy(config).destination.hedge).toEqual({ after: 250, max: 1 });
  });
});

describe("exportEnvoy", () => {
  const notesOf = (policy: PolicyDocument, destination = {}) =>
    exportEnvoy(policy, destination).notes;

  test("writes the defaults, and reports what Envoy cannot express", () => {
    expect(exportEnvoy({})).toEqual({
      config: {
        timeout: "30s",
        retry_policy: {
          retry_on: "reset,retriable-status-codes,unavailable,resource-exhausted",
          num_retries: 4,
          per_try_timeout: "10s",
          retriable_status_codes: [408, 425, 429, 500, 502, 503, 504],
          retry_back_off: { base_interval: "0.1s", max_interval: "30s" },
          rate_limited_retry_back_off: {
            reset_headers: [{ name: "Retry-After", format: "SECONDS" }],
            max_interval: "86400s",
          },
        },
      },
      notes: [
        "Envoy has no condition for dns; left out.",
        "Envoy ignores a Retry-After beyond max_interval; Redrive then waits for max_interval.",
      ],
    });
  });

  test.each<[PolicyDocument, RegExp]>([
    [{ multiplier: 3 }, /backoff always doubles/],
    [{ delaysMs: [5, 900, 10] }, /backoff always doubles/],
    [{ jitterType: "EQUAL" }, /always uses FULL jitter, not EQUAL/],
    [{ initialDelayMs: 0 }, /no backoff of 0/],
    [{ retryableErrors: ["timeout"] }, /reset includes timeouts, failed connects/],
    [{ retryableErrors: ["dns", "tls"] }, /no condition for dns and tls/],
    [{ retryableGrpcCodes: ["ABORTED"] }, /no condition for ABORTED/],
    [
      { requireIdempotencyKey: true, minCallMs: 5 },
      /cannot express requireIdempotencyKey, minCallMs/,
    ],
  ])("reports what is lost of %j", (policy, note) => {
    expect(notesOf(policy)).toContainEqual(expect.stringMatching(note));
  });

  test("writes a FIXED backoff with one interval, without a note on the curve", () => {
    const { config, notes } = exportEnvoy({ backoff: "FIXED", initialDelayMs: 70 });
    expect(config.retry_policy.retry_back_off).toEqual({
      base_interval: "0.07s",
      max_interval: "0.07s",
    });
    expect(notes.join(" ")).not.toContain("doubles");
  });

  test("reports which guards are lost", () => {
    const guards = { retryBudget: { kind: "GRPC" }, hedge: {}, breaker: {}, concurrency: {} };
    const { config, notes } = exportEnvoy({}, guards as DestinationDocument);
    expect(notes).toEqual(
      expect.arrayContaining([
        "Envoy cannot express breaker; left out.",
        "Envoy has no hedge at a quantile; the one at p95 is left out.",
        "Envoy's thresholds are fixed; AIMD is left out.",
        "Envoy has no budget of GRPC; left out.",
      ]),
    );
    expect(config.circuit_breakers?.thresholds).toEqual([
      { priority: "DEFAULT", max_requests: 64, max_retries: 64 },
    ]);
  });
});
