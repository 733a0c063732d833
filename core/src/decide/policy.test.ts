/**
 * Tests of the policy document: defaults, ranges, and rules that involve several fields.
 * Tests of ranges of HTTP statuses.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DocumentError } from "../documents/document.ts";
import { anyDocument } from "./policy.testing.ts";
import {
  checkPolicy,
  type PolicyDocument,
  resolvePolicy,
  singleAttempt,
  statusRange,
} from "./policy.ts";

const messageOf = (document: unknown) =>
  checkPolicy(document)
    .map((one) => one.message)
    .join("; ");

describe("defaults", () => {
  test("an empty document gets all defaults", () => {
    expect(resolvePolicy({})).toEqual({
      maxAttempts: 5,
      backoff: "EXPONENTIAL",
      initialDelayMs: 100,
      multiplier: 2,
      maxDelayMs: 30_000,
      jitterType: "FULL",
      jitterRatio: 0.2,
      totalBudgetMs: 30_000,
      attemptTimeoutMs: 10_000,
      connectTimeoutMs: 3000,
      minCallMs: 1,
      retryableStatusCodes: [408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529],
      retryableGrpcCodes: ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
      retryableErrors: ["timeout", "connect", "reset", "dns", "protocol"],
      throttleDelayMs: 100,
      requireIdempotencyKey: false,
      respectRetryAfter: true,
      maxRetryAfterMs: 86_400_000,
    });
    expect(resolvePolicy()).toEqual(resolvePolicy({}));
  });

  test("some defaults depend on other fields", () => {
    const slow = resolvePolicy({ initialDelayMs: 40_000, totalBudgetMs: 100_000 });
    expect(slow.maxDelayMs).toBe(40_000);
    expect(slow.throttleDelayMs).toBe(40_000);
    expect(resolvePolicy({ attemptTimeoutMs: 500 }).connectTimeoutMs).toBe(500);
  });

  test("a list sets the number of attempts and has no curve", () => {
    const policy = resolvePolicy({ delaysMs: [5, 10, 20] });
    expect(policy.maxAttempts).toBe(4);
    expect(policy).not.toHaveProperty("initialDelayMs");
    expect(policy).not.toHaveProperty("backoff");
  });

  test("a completed policy is a legal document that completes to itself", () => {
    fc.assert(
      fc.property(anyDocument, (document) => {
        const policy = resolvePolicy(document);
        expect(resolvePolicy(policy)).toEqual(policy);
        expect(resolvePolicy(JSON.parse(JSON.stringify(policy)))).toEqual(policy);
      }),
    );
  });

  test("completing does not touch the document", () => {
    const document: PolicyDocument = Object.freeze({ policyId: "a", description: "why" });
    expect(resolvePolicy(document)).toMatchObject({ policyId: "a", description: "why" });
  });
});

describe("ranges", () => {
  const DAY = 86_400_000;
  const bounds: readonly (readonly [keyof PolicyDocument, number, number, PolicyDocument])[] = [
    ["maxAttempts", 1, 1000, {}],
    ["initialDelayMs", 0, DAY, { totalBudgetMs: 365 * DAY }],
    ["multiplier", 1, 10, {}],
    ["maxDelayMs", 0, 30 * DAY, { initialDelayMs: 0 }],
    ["jitterRatio", 0, 1, {}],
    ["totalBudgetMs", 1, 365 * DAY, { initialDelayMs: 0 }],
    ["attemptTimeoutMs", 100, 600_000, {}],
    ["connectTimeoutMs", 100, 60_000, { attemptTimeoutMs: 600_000 }],
    ["minCallMs", 0, 600_000, { totalBudgetMs: DAY }],
    ["throttleDelayMs", 0, 30 * DAY, { initialDelayMs: 0, maxDelayMs: 30 * DAY }],
    ["maxRetryAfterMs", 0, 365 * DAY, {}],
  ];

  test.each(bounds)("%s accepts %d and %d and nothing beyond", (field, min, max, rest) => {
    for (const value of [min, max]) expect(checkPolicy({ ...rest, [field]: value })).toEqual([]);
    for (const value of [
      min - 0.001,
      min - 1,
      max + 0.001,
      max + 1,
      Number.NaN,
      "3",
      null,
      1e400,
    ]) {
      const [one] = checkPolicy({ ...rest, [field]: value });
      expect(one).toMatchObject({ field });
      expect(one?.message).toContain(`${field} must be`);
    }
  });

  test("milliseconds must be integers, a multiplier and a ratio may be fractions", () => {
    expect(messageOf({ initialDelayMs: 0.5 })).toContain("whole number");
    expect(messageOf({ maxAttempts: 1.5 })).toContain("whole number");
    expect(messageOf({ multiplier: 1.5, jitterRatio: 0.25 })).toBe("");
  });

  test.each([
    [{ policyId: "" }, "policyId must be 1 to 64 characters of A-Z a-z 0-9 . _ -"],
    [{ policyId: "a b" }, "policyId must be"],
    [{ policyId: "x".repeat(65) }, "policyId must be"],
    [{ description: "x".repeat(501) }, "description must be at most 500 characters"],
    [{ backoff: "exponential" }, "backoff must be one of EXPONENTIAL, LINEAR, FIXED"],
    [{ jitterType: "full" }, "jitterType must be one of FULL, EQUAL"],
    [{ delaysMs: [] }, "delaysMs must be a list of 1 to 999 entries"],
    [{ delaysMs: [-1] }, "delaysMs must be a list in which each entry is"],
    [{ retryableStatusCodes: [200] }, "a whole number from 300 to 599"],
    [{ retryableGrpcCodes: ["BUSY"] }, "retryableGrpcCodes must be a list"],
    [{ retryableErrors: ["oops"] }, "retryableErrors must be a list"],
    [{ requireIdempotencyKey: "yes" }, "requireIdempotencyKey must be true or false"],
    [{ respectRetryAfter: 0 }, "respectRetryAfter must be true or false"],
    [{ maxAttemps: 3 }, 'unknown field "maxAttemps", did you mean "maxAttempts"?'],
  ])("%o is refused", (document, message) => {
    expect(messageOf(document)).toContain(message);
  });

  test("a description may have line breaks, an id may not", () => {
    expect(checkPolicy({ description: "why\nand how" })).toEqual([]);
    expect(checkPolicy({ policyId: "a\n" })).toHaveLength(1);
  });
});

describe("fields together", () => {
  test.each([
    [
      { initialDelayMs: 500, maxDelayMs: 400 },
      "maxDelayMs must be at least initialDelayMs (500), got 400",
    ],
    [
      { throttleDelayMs: 50 },
      "throttleDelayMs must be from initialDelayMs (100) to maxDelayMs (30000), got 50",
    ],
    [
      { throttleDelayMs: 40_000 },
      "throttleDelayMs must be from initialDelayMs (100) to maxDelayMs (30000), got 40000",
    ],
    [
      { connectTimeoutMs: 5000, attemptTimeoutMs: 4000 },
      "connectTimeoutMs must be at most attemptTimeoutMs (4000), got 5000",
    ],
    [
      { jitterType: "DECORRELATED", backoff: "LINEAR" },
      'backoff must be EXPONENTIAL with jitterType DECORRELATED, got "LINEAR"',
    ],
    [
      { jitterType: "DECORRELATED", delaysMs: [1] },
      "jitterType must be another when delaysMs is given",
    ],
    [
      { delaysMs: [1], initialDelayMs: 5 },
      "initialDelayMs must be left out when delaysMs is given, got 5",
    ],
    [{ delaysMs: [1], multiplier: 2 }, "multiplier must be left out when delaysMs is given, got 2"],
    [{ delaysMs: [1], maxDelayMs: 2 }, "maxDelayMs must be left out"],
    [{ delaysMs: [1], backoff: "FIXED" }, "backoff must be left out"],
    [{ delaysMs: [1], throttleDelayMs: 2 }, "throttleDelayMs must be left out"],
    [
      { delaysMs: [1, 2], maxAttempts: 4 },
      "maxAttempts must be 3 (entries of delaysMs + 1) or left out, got 4",
    ],
  ])("%o is refused", (document, message) => {
    expect(messageOf(document)).toContain(message);
  });

  test("a document whose first wait does not fit is refused; at the limit it is accepted", () => {
    expect(messageOf({ initialDelayMs: 60_000 })).toContain(
      "totalBudgetMs must be at least the first wait and call (60000 + 1), got 30000",
    );
    expect(checkPolicy({ initialDelayMs: 99, minCallMs: 1, totalBudgetMs: 100 })).toEqual([]);
    expect(checkPolicy({ initialDelayMs: 100, minCallMs: 1, totalBudgetMs: 100 })).toHaveLength(1);
    expect(messageOf({ delaysMs: [40_000] })).toContain("totalBudgetMs must be at least");
    expect(checkPolicy({ maxAttempts: 1, totalBudgetMs: 1 })).toEqual([]);
  });

  test("paths have a prefix if the policy is inside another document", () => {
    const [one] = checkPolicy({ initialDelayMs: 500, maxDelayMs: 400 }, "policy.");
    expect(one?.field).toBe("policy.maxDelayMs");
    expect(one?.message).toMatch(/^policy\.maxDelayMs must be/);
    expect(checkPolicy({ maxAttempts: 0 }, "policy.")[0]?.field).toBe("policy.maxAttempts");
  });
});

describe("resolvePolicy", () => {
  test("throws all problems at once, with a code", () => {
    const attempt = () => resolvePolicy({ maxAttempts: 0, multiplier: 11 });
    expect(attempt).toThrow(DocumentError);
    expect(attempt).toThrow(/maxAttempts must be .* got 0; multiplier must be .* got 11/);
    expect(attempt).toThrow(expect.objectContaining({ code: "INVALID_POLICY" }));
  });

  test("only legal documents are accepted, and no value crashes it", () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        fc.pre(value !== undefined);
        if (checkPolicy(value).length > 0)
          expect(() => resolvePolicy(value as never)).toThrow(DocumentError);
        else expect(resolvePolicy(value as never).maxAttempts).toBeGreaterThan(0);
      }),
    );
  });
});

test("singleAttempt changes only the number of attempts", () => {
  const policy = resolvePolicy({ maxAttempts: 4, attemptTimeoutMs: 500 });
  expect(singleAttempt(policy)).toEqual({ ...policy, maxAttempts: 1 });
});

test("a range includes both ends, and may be a single status", () => {
  expect(statusRange(500, 503)).toEqual([500, 501, 502, 503]);
  expect(statusRange(410, 410)).toEqual([410]);
});
