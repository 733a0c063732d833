/** Policy testing: any legal policy document, for properties. */
import type { PolicyDocument } from "@redrive/core";
import fc from "fast-check";

const curve: fc.Arbitrary<PolicyDocument> = fc
  .record({
    maxAttempts: fc.integer({ min: 1, max: 30 }),
    backoff: fc.constantFrom("EXPONENTIAL", "LINEAR", "FIXED"),
    initialDelayMs: fc.integer({ min: 0, max: 5000 }),
    multiplier: fc.double({ min: 1, max: 10, noNaN: true }),
    extraMs: fc.integer({ min: 0, max: 100_000 }),
    jitterType: fc.constantFrom("FULL", "EQUAL", "DECORRELATED", "PROPORTIONAL", "NONE"),
    jitterRatio: fc.double({ min: 0, max: 1, noNaN: true }),
    roomMs: fc.integer({ min: 1, max: 600_000 }),
  })
  .map(({ extraMs, roomMs, ...rest }) => ({
    ...rest,
    backoff: rest.jitterType === "DECORRELATED" ? "EXPONENTIAL" : rest.backoff,
    maxDelayMs: rest.initialDelayMs + extraMs,
    totalBudgetMs: rest.initialDelayMs + roomMs,
  })) as fc.Arbitrary<PolicyDocument>;

const list: fc.Arbitrary<PolicyDocument> = fc
  .array(fc.integer({ min: 0, max: 100_000 }), { minLength: 1, maxLength: 12 })
  .map((delaysMs) => ({ delaysMs, totalBudgetMs: (delaysMs[0] ?? 0) + 100_000 }));

export const anyPolicy: fc.Arbitrary<PolicyDocument> = fc.oneof(
  { weight: 4, arbitrary: curve },
  list,
);
