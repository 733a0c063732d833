/**
 * Tests of reading Envoy's retry policies: what is kept, what is noted and what is refused.
 * Tests of writing Envoy's retry policies, and of reading back what was written.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type ErrorClass,
  type GrpcCode,
  type PolicyDocument,
  resolvePolicy,
  statusRange,
} from "../decide/policy.ts";
import type { DestinationDocument } from "../guards/destination.ts";
import { catalogEntry } from "./catalog.ts";
import { expectImportOrRefusal, withBadValue } from "./config-reader.testing.ts";
import { exportEnvoy, importEnvoy } from "./envoy-config.ts";

const retry_policy = {
  retry_on: "connect-failure, refused-stream,unavailable,retriable-status-codes",
  num_retries: 3,
  per_try_timeout: "2s",
  retriable_status_codes: [503, 429],
  retry_back_off: { base_interval: "0.1s", max_interval: "1.5s" },
};
const route = {
  timeout: "10s",
  retry_policy: {
    ...retry_policy,
    rate_limited_retry_back_off: {
      reset_headers: [{ name: "retry-after", format: "SECONDS" }],
      max_interval: "60s",
    },
  },
  hedge_policy: { hedge_on_per_try_timeout: false, initial_requests: 1 },
  circuit_breakers: {
    thresholds: [
      { priority: "HIGH", max_retries: 9 },
      { max_requests: { value: 500 }, max_retries: 5 },
    ],
  },
};

describe("importEnvoy", () => {
  test("reads a route, its hedging and the circuit breakers of its cluster", () => {
    expect(importEnvoy(route)).toEqual({
      policy: {
        maxAttempts: 4,
        backoff: "EXPONENTIAL",
        initialDelayMs: 100,
        multiplier: 2,
        maxDelayMs: 1500,
        jitterType: "FULL",
        totalBudgetMs: 10_000,
        attemptTimeoutMs: 2000,
        retryableStatusCodes: [429, 503],
        retryableErrors: ["connect", "protocol"],
        retryableGrpcCodes: ["UNAVAILABLE"],
        maxRetryAfterMs: 60_000,
      },
      destination: {
        retryBudget: false,
        concurrency: { algorithm: "FIXED", max: 500, maxRetries: 5 },
      },
      notes: [
        "initial_requests is not implemented by Envoy; left out.",
        expect.stringMatching(/^Envoy's documentation gives the ceilings as base x \(2\^n - 1\)/),
        "Envoy ignores a hint beyond max_interval; Redrive then waits for max_interval.",
      ],
    });
  });

  test("reads a retry policy alone, also in camelCase", () => {
    const camel = {
      retryOn: retry_policy.retry_on,
      numRetries: { value: 3 },
      perTryTimeout: "2s",
      retriableStatusCodes: [503, 429],
      retryBackOff: { baseInterval: "0.1s", maxInterval: "1.5s" },
    };
    expect(importEnvoy(camel)).toEqual(importEnvoy(retry_policy));
    expect(importEnvoy({ retryPolicy: camel })).toEqual(importEnvoy({ retry_policy }));
  });

  test("uses Envoy's defaults, which equal those of the catalog", () => {
    const { policyId, description, connectTimeoutMs, ...envoy } = catalogEntry("envoy").policy;
    expect(importEnvoy({ retry_on: "5xx" }).policy).toEqual({
      backoff: "EXPONENTIAL",
      multiplier: 2,
      jitterType: "FULL",
      ...envoy,
    });
    expect([policyId, description, connectTimeoutMs]).toHaveLength(3);
  });

  test.each([
    ["5xx", statusRange(500, 599), ["timeout", "connect", "reset", "protocol"]],
    ["gateway-error", [502, 503, 504], ["timeout", "connect", "reset", "protocol"]],
    ["reset", [], ["timeout", "connect", "reset", "protocol"]],
    ["reset-before-request", [], ["connect"]],
    ["connect-failure,refused-stream", [], ["connect", "protocol"]],
    ["retriable-4xx", [409], []],
    ["retriable-headers,envoy-ratelimited,,", [], []],
  ])("reads retry_on %s", (retry_on, statuses, errors) => {
    const { policy } = importEnvoy({ retry_on });
    expect(policy.retryableStatusCodes).toEqual(statuses);
    expect(policy.retryableErrors).toEqual(errors);
  });

  test("reads the conditions of gRPC", () => {
    const retry_on = "unavailable,cancelled,internal,deadline-exceeded,resource-exhausted";
    const { policy, notes } = importEnvoy({ retry_on });
    expect(policy.retryableGrpcCodes).toEqual([
      "CANCELLED",
      "DEADLINE_EXCEEDED",
      "RESOURCE_EXHAUSTED",
      "INTERNAL",
      "UNAVAILABLE",
    ]);
    expect(notes).toContain("Redrive never repeats CANCELLED, because the caller asked for it.");
  });

  test("makes one attempt without retry_on, and says so", () => {
    const { policy, notes } = importEnvoy({});
    expect(policy.maxAttempts).toBe(1);
    expect(notes).toContain("Without retry_on Envoy retries nothing.");
  });

  test("reads a hedge on a try's timeout as a hedge, and lets the try continue", () => {
    const { policy, destination } = importEnvoy({
      ...route,
      hedge_policy: { hedge_on_per_try_timeout: true },
    });
    expect(destination.hedge).toEqual({ after: 2000, max: 1 });
    expect(policy.attemptTimeoutMs).toBe(10_000);
  });

  test("reads a retry budget as a ratio, and says how they differ", () => {
    const thresholds = [{ retry_budget: { budget_percent: { value: 25 } } }];
    const { destination, notes } = importEnvoy({ ...route, circuit_breakers: { thresholds } });
    expect(destination).toEqual({ retryBudget: { kind: "RATIO", ratio: 0.25, minPerSecond: 3 } });
    expect(notes).toContainEqual(expect.stringMatching(/^Envoy's retry budget is a share of/));
  });

  test("reports what it leaves out or changes", () => {
    const { policy, notes } = importEnvoy({
      retry_on: "5xx",
      num_retries: 5000,
      timeout: "0s",
      per_try_timeout: "0.01s",
      retriable_status_codes: [418],
      retry_host_predicate: [],
    });
    expect(policy).toMatchObject({ maxAttempts: 1000, attemptTimeoutMs: 100 });
    expect(notes).toEqual(
      expect.arrayContaining([
        "retry_host_predicate is left out.",
        "A timeout of 0 s means none in Envoy; a year, the maximum here, replaces it.",
        "per_try_timeout in ms 10 became 100: the range is 100 to 600000.",
        "num_retries 5000 became 999: the range is 0 to 999.",
        "retriable_status_codes has no effect unless retry_on has retriable-status-codes.",
      ]),
    );
    const odd = { retry_on: "retriable-status-codes", retriable_status_codes: [200, 503] };
    expect(importEnvoy(odd).policy.retryableStatusCodes).toEqual([503]);
  });

  test("reads no reset header except Retry-After", () => {
    const other = { reset_headers: [{ name: "X-RateLimit-Reset", format: "UNIX_TIMESTAMP" }] };
    const { policy } = importEnvoy({ retry_on: "5xx", rate_limited_retry_back_off: other });
    expect(policy.respectRetryAfter).toBe(false);
  });
});

describe("refusals name the field and quote the value", () => {
  test.each<[unknown, string]>([
    [[], "the Envoy config must be an object, got []"],
    [{ retry_policy: 5 }, "retry_policy must be an object, got 5"],
    [{ retry_on: 5 }, "retry_on must be a text, got 5"],
    [{ retry_on: "5x" }, 'retry_on must name conditions of Envoy, got "5x", did you mean "5xx"?'],
    [{ retry_on: "constructor" }, 'got "constructor"'],
    [
      { retry_on: "5xx", num_retries: -1 },
      "num_retries must be a whole number of at least 0, got -1",
    ],
    [
      { per_try_timeout: 2 },
      'per_try_timeout must be seconds such as "0.1s", to the millisecond, got 2',
    ],
    [{ retry_back_off: {} }, "retry_back_off.base_interval must be seconds"],
    [
      { retry_back_off: { base_interval: "1s", max_interval: "0.5s" } },
      'retry_back_off.max_interval must be at least base_interval, got "0.5s"',
    ],
    [
      { retriable_status_codes: ["503"] },
      'retriable_status_codes[0] must be a whole number of at least 0, got "503"',
    ],
    [{ hedge_policy: { hedge_on_per_try_timeout: "yes" } }, 'must be true or false, got "yes"'],
    [
      { rate_limited_retry_back_off: { reset_headers: [{}] } },
      "reset_headers[0].name must be a text",
    ],
    [
      { circuit_breakers: { thresholds: [{ retry_budget: { budget_percent: { value: 101 } } }] } },
      "retry_budget.budget_percent must be a number from 0 to 100, got 101",
    ],
    [{ retry_on: "5xx", timeout: "0.01s" }, "totalBudgetMs must be at least the first wait"],
  ])("%j", (bad, message) => {
    expect(() => importEnvoy(bad)).toThrow(message);
  });

  test("any value gives an import or INVALID_IMPORT", () => {
    const anything = fc.oneof(
      fc.anything(),
      fc.jsonValue(),
      withBadValue(route),
      withBadValue(retry_policy),
    );
    fc.assert(fc.property(anything, (any) => expectImportOrRefusal(() => importEnvoy(any))));
  });
});

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
          retriable_status_codes: [408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529],
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
