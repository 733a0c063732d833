/**
 * Random policies for property tests: any legal document, including the ends of every range.
 */
import fc from "fast-check";
import { type Policy, type PolicyDocument, resolvePolicy } from "./policy.ts";

const DAY_MS = 86_400_000;

/** Any legal curve. The first wait always fits, because the budget is chosen above it. */
const curve: fc.Arbitrary<PolicyDocument> = fc
  .record({
    maxAttempts: fc.integer({ min: 1, max: 1000 }),
    backoff: fc.constantFrom("EXPONENTIAL", "LINEAR", "FIXED"),
    initialDelayMs: fc.oneof(
      fc.integer({ min: 0, max: 1000 }),
      fc.integer({ min: 0, max: DAY_MS }),
    ),
    extraMs: fc.oneof(
      fc.integer({ min: 0, max: 60_000 }),
      fc.integer({ min: 0, max: 29 * DAY_MS }),
    ),
    throttleShare: fc.double({ min: 0, max: 1, noNaN: true }),
    multiplier: fc.oneof(fc.constantFrom(1, 2, 10), fc.double({ min: 1, max: 10, noNaN: true })),
    jitterType: fc.constantFrom("FULL", "EQUAL", "DECORRELATED", "PROPORTIONAL", "NONE"),
    jitterRatio: fc.double({ min: 0, max: 1, noNaN: true }),
    minCallMs: fc.integer({ min: 0, max: 600_000 }),
    moreBudgetMs: fc.integer({ min: 1, max: 300 * DAY_MS }),
    respectRetryAfter: fc.boolean(),
    maxRetryAfterMs: fc.integer({ min: 0, max: 365 * DAY_MS }),
  })
  .map(({ extraMs, throttleShare, moreBudgetMs, ...rest }) => ({
    ...rest,
    backoff: rest.jitterType === "DECORRELATED" ? "EXPONENTIAL" : rest.backoff,
    maxDelayMs: rest.initialDelayMs + extraMs,
    throttleDelayMs: rest.initialDelayMs + Math.floor(extraMs * throttleShare),
    totalBudgetMs: rest.initialDelayMs + rest.minCallMs + moreBudgetMs,
  }));

const list: fc.Arbitrary<PolicyDocument> = fc.record({
  delaysMs: fc.array(fc.integer({ min: 0, max: 30 * DAY_MS }), { minLength: 1, maxLength: 40 }),
  jitterType: fc.constantFrom("FULL", "EQUAL", "PROPORTIONAL", "NONE"),
  jitterRatio: fc.double({ min: 0, max: 1, noNaN: true }),
  totalBudgetMs: fc.constant(365 * DAY_MS),
});

export const anyDocument: fc.Arbitrary<PolicyDocument> = fc.oneof(
  { weight: 3, arbitrary: curve },
  { weight: 1, arbitrary: list },
);

export const anyPolicy: fc.Arbitrary<Policy> = anyDocument.map(resolvePolicy);

/** A draw as `Random` returns it, including both ends of the range. */
export const anyDraw: fc.Arbitrary<number> = fc.oneof(
  fc.constantFrom(0, 1 - Number.EPSILON / 2),
  fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
);
