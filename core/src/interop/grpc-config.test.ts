/**
 * Tests of reading gRPC service configs: what is kept, what is noted and what is refused.
 * Tests of writing gRPC service configs, and of reading back what was written.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { GRPC_CODES, type PolicyDocument } from "../decide/policy.ts";
import { formatSeconds } from "../documents/format.ts";
import { expectImportOrRefusal, withBadValue } from "./config-reader.testing.ts";
import { exportGrpc, type GrpcServiceConfig, importGrpc } from "./grpc-config.ts";

const retryPolicy = {
  maxAttempts: 4,
  initialBackoff: "0.1s",
  maxBackoff: "1s",
  backoffMultiplier: 2,
  retryableStatusCodes: ["UNAVAILABLE"],
};
const hedgingPolicy = {
  maxAttempts: 3,
  hedgingDelay: ".5s",
  nonFatalStatusCodes: ["UNAVAILABLE", "INTERNAL"],
};
const config = {
  loadBalancingConfig: [{ round_robin: {} }],
  methodConfig: [
    { name: [{}], timeout: "10s", retryPolicy: { ...retryPolicy, maxAttempts: 2 } },
    { name: [{ service: "shop.Orders" }], timeout: "5s", retryPolicy },
    { name: [{ service: "shop.Orders", method: "Get" }], timeout: "2s", hedgingPolicy },
    { name: [{ service: "shop.Plain", method: "" }] },
  ],
  retryThrottling: { maxTokens: 10, tokenRatio: 0.1 },
};

const withRetry = (changes: object) => ({
  methodConfig: [{ name: [{}], timeout: "60s", retryPolicy: { ...retryPolicy, ...changes } }],
  retryThrottling: { maxTokens: 10, tokenRatio: 0.1 },
});

describe("importGrpc", () => {
  test("reads gRFC A6's example", () => {
    expect(importGrpc(config, { service: "shop.Orders" })).toEqual({
      policy: {
        maxAttempts: 4,
        backoff: "EXPONENTIAL",
        initialDelayMs: 100,
        multiplier: 2,
        maxDelayMs: 1000,
        jitterType: "PROPORTIONAL",
        jitterRatio: 0.2,
        retryableGrpcCodes: ["UNAVAILABLE"],
        totalBudgetMs: 5000,
        attemptTimeoutMs: 5000,
      },
      destination: { retryBudget: { kind: "GRPC", maxTokens: 10, tokenRatio: 0.1 } },
      notes: [],
    });
  });

  test("uses the most specific name: method, then service, then the entry for all", () => {
    const attempts = (service: string, method: string) =>
      importGrpc(config, { service, method }).policy.maxAttempts;
    expect(attempts("shop.Orders", "Put")).toBe(4);
    expect(attempts("shop.Other", "Get")).toBe(2);
    expect(importGrpc(config).policy.maxAttempts).toBe(2);
    expect(importGrpc(config, { service: "shop.Orders", method: "Get" }).destination.hedge).toEqual(
      {
        after: 500,
        max: 2,
      },
    );
  });

  test("reads a hedging policy as a hedge around a single attempt", () => {
    const { policy, notes } = importGrpc(config, { service: "shop.Orders", method: "Get" });
    expect(policy.maxAttempts).toBe(1);
    expect(policy.retryableGrpcCodes).toEqual(["INTERNAL", "UNAVAILABLE"]);
    expect(notes).toEqual([expect.stringMatching(/^gRPC sends the next hedge at once/)]);
  });

  test("uses the only entry if no target is given, and says so", () => {
    const only = { methodConfig: [{ name: [{ service: "a.B" }], timeout: "9s", retryPolicy }] };
    const { policy, notes } = importGrpc(only);
    expect(policy.maxAttempts).toBe(4);
    expect(notes).toContain('No entry is for all methods; the only one, for "a.B/", is used.');
  });

  test("makes one attempt without a policy, and says so", () => {
    expect(importGrpc({}).policy).toEqual({ maxAttempts: 1 });
    expect(importGrpc({}, { service: "a.B" }).notes).toContain(
      "No methodConfig matches: gRPC makes one attempt.",
    );
    expect(importGrpc(config, { service: "shop.Plain" }).policy).toEqual({ maxAttempts: 1 });
  });

  test("clamps attempts to 5, as gRPC does, and says so", () => {
    const { policy, notes } = importGrpc(withRetry({ maxAttempts: 9 }));
    expect(policy.maxAttempts).toBe(5);
    expect(notes).toContain("maxAttempts 9 became 5, as in gRPC: no client makes more.");
  });

  test("reads codes by name in upper or lower case and by number", () => {
    const { policy } = importGrpc(withRetry({ retryableStatusCodes: [14, "aborted", 14] }));
    expect(policy.retryableGrpcCodes).toEqual(["ABORTED", "UNAVAILABLE"]);
  });

  test("clamps values to Redrive's ranges, and says so", () => {
    const odd = importGrpc(withRetry({ backoffMultiplier: 0.5, initialBackoff: "3s" }));
    expect(odd.policy).toMatchObject({ multiplier: 1, initialDelayMs: 1000, maxDelayMs: 1000 });
    expect(odd.notes).toEqual([
      "initialBackoff in ms 3000 became 1000: the range is 0 to 1000.",
      "backoffMultiplier 0.5 became 1: the range is 1 to 10.",
    ]);
  });

  test("reports which defaults replace a missing timeout and missing throttling", () => {
    const { notes } = importGrpc({ methodConfig: [{ name: [{}], retryPolicy }] });
    expect(notes).toEqual([
      "The config has no retryThrottling, so Redrive's own retry budget applies.",
      "The method has no timeout, so Redrive's default of 30 s limits the whole call.",
    ]);
  });
});

describe("refusals name the field and quote the value", () => {
  test.each<[unknown, string]>([
    ["text", 'the service config must be an object, got "text"'],
    [{ methodConfig: {} }, "methodConfig must be a list, got {}"],
    [{ methodConfig: [{}] }, "methodConfig[0].name must be a list, got undefined"],
    [
      { methodConfig: [{ name: [{ method: "Get" }] }] },
      "methodConfig[0].name[0] must be with a service",
    ],
    [
      { methodConfig: [{ name: [{}, {}] }] },
      'methodConfig must be without duplicate names, got "/"',
    ],
    [
      { methodConfig: [{ name: [{}], timeout: "5" }] },
      'methodConfig[0].timeout must be seconds such as "0.1s"',
    ],
    [
      withRetry({ maxAttempts: 1 }),
      "retryPolicy.maxAttempts must be a whole number of at least 2, got 1",
    ],
    [
      withRetry({ initialBackoff: "100ms" }),
      'retryPolicy.initialBackoff must be seconds such as "0.1s"',
    ],
    [withRetry({ maxBackoff: "0s" }), 'retryPolicy.maxBackoff must be above 0 s, got "0s"'],
    [withRetry({ backoffMultiplier: 0 }), "backoffMultiplier must be a number above 0, got 0"],
    [
      withRetry({ retryableStatusCodes: [] }),
      "retryableStatusCodes must be a list with entries, got []",
    ],
    [withRetry({ retryableStatusCodes: ["NOPE"] }), 'by name or number, got "NOPE"'],
    [
      { retryThrottling: { maxTokens: 1001, tokenRatio: 1 } },
      "maxTokens must be at most 1000, got 1001",
    ],
  ])("%j", (bad, message) => {
    expect(() => importGrpc(bad)).toThrow(message);
  });

  test("both policies on one method are an error, as in gRPC", () => {
    const both = { methodConfig: [{ name: [{}], retryPolicy, hedgingPolicy }] };
    expect(() => importGrpc(both)).toThrow(/must be without hedgingPolicy if it has retryPolicy/);
  });

  test("one bad entry invalidates the config for every method, as in gRPC", () => {
    const bad = { name: [{ service: "x.Y" }], retryPolicy: { ...retryPolicy, maxAttempts: 0 } };
    const mixed = { methodConfig: [...config.methodConfig, bad] };
    expect(() => importGrpc(mixed, { service: "shop.Orders" })).toThrow(/methodConfig\[4\]/);
  });

  test("several entries without a target are ambiguous", () => {
    const two = { methodConfig: config.methodConfig.slice(1, 3) };
    expect(() => importGrpc(two)).toThrow(/choose one of "shop.Orders\/ shop.Orders\/Get"/);
    expect(() => importGrpc(two, { method: "Get" })).toThrow('method "Get" needs a service');
  });

  test("a timeout shorter than the first wait is refused", () => {
    const hasty = { methodConfig: [{ name: [{}], timeout: "0.05s", retryPolicy }] };
    expect(() => importGrpc(hasty)).toThrow(/totalBudgetMs must be at least the first wait/);
  });

  test("any value gives an import or INVALID_IMPORT", () => {
    const anything = fc.oneof(fc.anything(), fc.jsonValue(), withBadValue(config));
    fc.assert(fc.property(anything, (any) => expectImportOrRefusal(() => importGrpc(any))));
  });
});

const codes = fc
  .subarray(GRPC_CODES.slice(2), { minLength: 1 })
  .map((some) => GRPC_CODES.filter((code) => some.includes(code)));

/** Configs in the form of the export, so the tests can compare them directly. */
const anyConfig: fc.Arbitrary<GrpcServiceConfig> = fc
  .record({
    maxAttempts: fc.integer({ min: 2, max: 5 }),
    initialMs: fc.integer({ min: 1, max: 60_000 }),
    moreMs: fc.nat(60_000),
    backoffMultiplier: fc.double({ min: 1, max: 10, noNaN: true }),
    retryableStatusCodes: codes,
    timeoutMs: fc.integer({ min: 60_001, max: 86_400_000 }),
    maxTokens: fc.integer({ min: 1, max: 1000 }),
    tokenRatio: fc.integer({ min: 1, max: 9999 }).map((thousandths) => thousandths / 1000),
  })
  .map((drawn) => ({
    methodConfig: [
      {
        name: [{ service: "a.B" }],
        timeout: formatSeconds(drawn.timeoutMs),
        retryPolicy: {
          maxAttempts: drawn.maxAttempts,
          initialBackoff: formatSeconds(drawn.initialMs),
          maxBackoff: formatSeconds(drawn.initialMs + drawn.moreMs),
          backoffMultiplier: drawn.backoffMultiplier,
          retryableStatusCodes: drawn.retryableStatusCodes,
        },
      },
    ],
    retryThrottling: { maxTokens: drawn.maxTokens, tokenRatio: drawn.tokenRatio },
  }));

describe("round trips", () => {
  test("a config that is read and written again is unchanged, without a note", () => {
    fc.assert(
      fc.property(anyConfig, (any) => {
        const { policy, destination, notes } = importGrpc(any, { service: "a.B" });
        const { attemptTimeoutMs: _, ...rest } = policy;
        expect(exportGrpc(rest, destination, { service: "a.B" })).toEqual({ config: any, notes });
        expect(notes).toEqual([]);
      }),
      { numRuns: 50 },
    );
  });

  test("a hedge that is written and read again is the same hedge", () => {
    const hedges = fc.record({
      after: fc.integer({ min: 1, max: 600_000 }),
      max: fc.integer({ min: 1, max: 4 }),
    });
    fc.assert(
      fc.property(hedges, codes, (hedge, retryableGrpcCodes) => {
        const { config: written } = exportGrpc({ maxAttempts: 1, retryableGrpcCodes }, { hedge });
        const read = importGrpc(written);
        expect(read.destination.hedge).toEqual(hedge);
        expect(read.policy).toMatchObject({
          maxAttempts: 1,
          retryableGrpcCodes,
          totalBudgetMs: 30_000,
        });
      }),
    );
  });
});

describe("exportGrpc", () => {
  const notesOf = (policy: PolicyDocument, destination = {}) =>
    exportGrpc(policy, destination).notes;

  test("writes the defaults, and reports that gRPC has other jitter", () => {
    expect(exportGrpc({})).toEqual({
      config: {
        methodConfig: [
          {
            name: [{}],
            timeout: "30s",
            retryPolicy: {
              maxAttempts: 5,
              initialBackoff: "0.1s",
              maxBackoff: "30s",
              backoffMultiplier: 2,
              retryableStatusCodes: ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
            },
          },
        ],
      },
      notes: ["gRPC always draws from 0.8 to 1.2 times the backoff, not FULL."],
    });
  });

  test.each<[PolicyDocument, RegExp]>([
    [{ maxAttempts: 12 }, /^maxAttempts 12 became 5/],
    [{ backoff: "LINEAR" }, /no LINEAR backoff/],
    [{ initialDelayMs: 0 }, /no backoff of 0/],
    [{ delaysMs: [10, 500, 20] }, /no list of delays/],
    [
      { attemptTimeoutMs: 500, throttleDelayMs: 200 },
      /cannot express attemptTimeoutMs, throttleDelayMs/,
    ],
    [{ retryableGrpcCodes: [] }, /no retryPolicy without codes/],
  ])("reports what is lost of %j", (policy, note) => {
    expect(notesOf(policy)).toContainEqual(expect.stringMatching(note));
  });

  test("reports which guards are lost", () => {
    const guards = { retryBudget: { ratio: 0.1 }, hedge: { after: "p95" }, breaker: {} };
    expect(notesOf({}, guards)).toEqual(
      expect.arrayContaining([
        "gRPC cannot express breaker; left out.",
        "gRPC has retries or hedges, not both; the hedge is left out.",
        "gRPC throttles with its own tokens; the RATIO budget is left out.",
      ]),
    );
    const hedged = exportGrpc({ maxAttempts: 1 }, { hedge: { endpoints: ["http://b.example"] } });
    expect(hedged.config.methodConfig[0]?.hedgingPolicy?.hedgingDelay).toBe("1s");
    expect(hedged.notes).toHaveLength(2);
  });

  test("writes a FIXED backoff and a list of equal delays as a multiplier of 1", () => {
    const multiplier = (policy: PolicyDocument) =>
      exportGrpc(policy).config.methodConfig[0]?.retryPolicy?.backoffMultiplier;
    expect(multiplier({ backoff: "FIXED" })).toBe(1);
    expect(multiplier({ delaysMs: [50, 50] })).toBe(1);
  });
});
