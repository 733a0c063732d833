/**
 * Lint examples: for each rule a subject in which lint finds it, for the tests of `lint` and
 * `fixFinding`.
 */
import type { LintContext, LintSubject } from "./rule.ts";

export const budget = { retryBudget: { ratio: 0.1 } } as const;

export const lintExamples: Readonly<Record<string, readonly [LintSubject, LintContext]>> = {
  "no-wait": [{ initialDelayMs: 0 }, {}],
  "no-jitter": [{ jitterType: "NONE" }, { clients: 1000 }],
  "narrow-jitter": [{ jitterType: "PROPORTIONAL", jitterRatio: 0.05 }, {}],
  "fixed-delay": [{ backoff: "FIXED", initialDelayMs: 1000 }, {}],
  "flat-curve": [{ initialDelayMs: 1000, maxDelayMs: 1500, maxAttempts: 6 }, {}],
  "cap-too-long": [
    {
      initialDelayMs: 1000,
      maxAttempts: 21,
      maxDelayMs: 2_592_000_000,
      totalBudgetMs: 31_536_000_000,
    },
    {},
  ],
  "below-minimum": [{}, { minimumWaitMs: 50 }],
  decorrelated: [
    { jitterType: "DECORRELATED", maxAttempts: 12, totalBudgetMs: 600_000 },
    { outageMs: 8000 },
  ],
  endless: [{ maxAttempts: 1000, totalBudgetMs: 31_536_000_000 }, {}],
  "waits-do-not-fit": [
    { maxAttempts: 10, jitterType: "NONE", totalBudgetMs: 5000 },
    { clients: 1 },
  ],
  "attempt-outlives-budget": [{ totalBudgetMs: 8000 }, {}],
  "short-cover": [{}, { outageMs: 60_000 }],
  "person-waits": [{}, { waits: "person" }],
  "poison-loop": [{}, { maxReceives: null }],
  "permanent-errors": [{ retryableStatusCodes: [400, 404, 503] }, {}],
  "unsafe-repeat": [{}, { method: "POST" }],
  "ignores-retry-after": [{ respectRetryAfter: false }, {}],
  "fast-throttle": [{ initialDelayMs: 1, maxDelayMs: 5000 }, {}],
  "no-budget": [{ policy: {} }, { clients: 100 }],
  "guards-lose-calls": [
    { policy: { maxAttempts: 8, initialDelayMs: 500, maxDelayMs: 5000 }, ...budget },
    { clients: 400, outageMs: 8000 },
  ],
  "large-budget": [{ retryBudget: { ratio: 0.5 } }, {}],
  "no-breaker": [budget, { clients: 10_000 }],
  "hasty-breaker": [{ ...budget, breaker: { minCalls: 20 } }, { shards: 3 }],
  "hedge-without-budget": [{ hedge: {} }, {}],
  "early-hedge": [{ hedge: { after: "p50" }, ...budget }, {}],
  "nested-layers": [
    {
      tiers: [
        { name: "client", policy: { maxAttempts: 3 } },
        { name: "gateway", policy: { maxAttempts: 3 } },
      ],
    },
    {},
  ],
};

/** The example of a rule: its subject and its context. */
export function lintExample(id: string): readonly [LintSubject, LintContext] {
  const example = lintExamples[id];
  if (example === undefined) throw new Error(`no subject for the rule ${id}`);
  return example;
}
