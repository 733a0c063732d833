/** Tests of writing gRPC service configs, and of reading back what was written. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { GRPC_CODES } from "../policy/error-classes.ts";
import type { PolicyDocument } from "../policy/policy.ts";
import { formatSeconds } from "../time/duration.ts";
import { importGrpc } from "./grpc-config.ts";
import { exportGrpc, type GrpcServiceConfig } from "./grpc-export.ts";

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
