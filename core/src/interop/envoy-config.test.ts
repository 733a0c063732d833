/** Tests of reading Envoy's retry policies: what is kept, what is noted and what is refused. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { statusRange } from "../policy/status-range.ts";
import { catalogEntry } from "./catalog/catalog.ts";
import { expectImportOrRefusal, withBadValue } from "./config-reader.testing.ts";
import { importEnvoy } from "./envoy-config.ts";

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
