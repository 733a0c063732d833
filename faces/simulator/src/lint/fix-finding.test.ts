/** Fix finding: a fix is a valid document without the finding, and makes nothing worse. */

import { presets } from "@redrive/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { anyPolicy } from "../schedule/policy.testing.ts";
import { fixFinding, lint, lintRules } from "./lint.ts";
import { budget, lintExample } from "./lint-examples.testing.ts";
import type { LintContext, LintSubject } from "./rule.ts";

type Case = readonly [id: string, fixed: object, example?: readonly [LintSubject, LintContext]];

/** For each rule with a fix: the fixed example, or the fix of another subject that shows more. */
const CASES: readonly Case[] = [
  ["no-wait", { initialDelayMs: 100 }],
  ["no-jitter", { jitterType: "FULL" }, [{ jitterType: "NONE" }, {}]],
  ["narrow-jitter", { jitterType: "PROPORTIONAL", jitterRatio: 0.2 }],
  ["fixed-delay", { backoff: "EXPONENTIAL", initialDelayMs: 1000 }],
  [
    "flat-curve",
    { initialDelayMs: 500, maxDelayMs: 4000, maxAttempts: 6 },
    [{ initialDelayMs: 500, maxDelayMs: 700, maxAttempts: 6 }, {}],
  ],
  [
    "cap-too-long",
    {
      initialDelayMs: 1000,
      maxAttempts: 15,
      maxDelayMs: 3_600_000,
      totalBudgetMs: 31_536_000_000,
    },
    [
      {
        initialDelayMs: 1000,
        maxAttempts: 15,
        maxDelayMs: 86_400_000,
        totalBudgetMs: 31_536_000_000,
      },
      {},
    ],
  ],
  ["below-minimum", { jitterType: "EQUAL", initialDelayMs: 100 }],
  [
    "decorrelated",
    { jitterType: "FULL", maxAttempts: 12, totalBudgetMs: 600_000 },
    [{ jitterType: "DECORRELATED", maxAttempts: 12, totalBudgetMs: 600_000 }, {}],
  ],
  ["endless", { maxAttempts: 20, totalBudgetMs: 31_536_000_000 }],
  ["short-cover", { maxAttempts: 10, totalBudgetMs: 151_100 }, [{}, { outageMs: 8000 }]],
  [
    "attempt-outlives-budget",
    { totalBudgetMs: 8000, attemptTimeoutMs: 1333, connectTimeoutMs: 1333 },
  ],
  [
    "waits-do-not-fit",
    { maxAttempts: 10, jitterType: "NONE", totalBudgetMs: 61_100, attemptTimeoutMs: 1000 },
    [
      { maxAttempts: 10, jitterType: "NONE", totalBudgetMs: 5000, attemptTimeoutMs: 1000 },
      { clients: 1 },
    ],
  ],
  [
    "person-waits",
    { maxAttempts: 3, totalBudgetMs: 5000, attemptTimeoutMs: 1250, connectTimeoutMs: 1250 },
  ],
  ["permanent-errors", { retryableStatusCodes: [503] }],
  ["unsafe-repeat", { requireIdempotencyKey: true }],
  ["ignores-retry-after", { respectRetryAfter: true }],
  ["fast-throttle", { initialDelayMs: 1, maxDelayMs: 5000, throttleDelayMs: 500 }],
  ["no-budget", { policy: {}, retryBudget: { kind: "RATIO", ratio: 0.1 } }],
  ["large-budget", { retryBudget: { kind: "RATIO", ratio: 0.1 } }],
  ["no-breaker", { ...budget, breaker: { minCalls: 20 } }],
  ["hasty-breaker", { ...budget, breaker: { minCalls: 100 } }],
  [
    "hedge-without-budget",
    { hedge: {}, retryBudget: { kind: "RATIO", ratio: 0.1 } },
    [{ hedge: {} }, { clients: 1 }],
  ],
  ["early-hedge", { hedge: { after: "p95" }, ...budget }],
  [
    "nested-layers",
    {
      tiers: [
        { name: "client", policy: { maxAttempts: 3 } },
        { name: "gateway", policy: { maxAttempts: 1 } },
      ],
    },
    [
      {
        tiers: [
          { name: "client", policy: { maxAttempts: 3 } },
          { name: "gateway", policy: { maxAttempts: 4 } },
        ],
      },
      {},
    ],
  ],
];

function fixed(id: string, subject: LintSubject, context: LintContext = {}) {
  const finding = lint(subject, context).find((one) => one.id === id);
  return finding && fixFinding(subject, finding, context);
}

describe("fixFinding", () => {
  it.each(CASES.map((one) => ({ id: one[0], one })))(
    "$id becomes what its fix says",
    ({ one: [id, expected, example = lintExample(id)] }) => {
      expect(fixed(id, ...example)).toEqual(expected);
    },
  );

  it("has a fix for every rule but those that no document can fix", () => {
    const known = CASES.map(([id]) => id);
    expect(lintRules.map(({ id }) => id).filter((id) => !known.includes(id))).toEqual([
      "poison-loop",
      // What the calls do when a guard refuses them is not part of a document.
      "guards-lose-calls",
    ]);
    expect(fixed("poison-loop", {}, { maxReceives: null })).toBeUndefined();
  });

  it("returns a valid document with fewer problems, for any policy", () => {
    const context = { clients: 1000, outageMs: 8000 };
    fc.assert(
      fc.property(anyPolicy, (policy) => {
        for (const finding of lint(policy, context)) {
          const better = fixFinding(policy, finding, context);
          if (better === undefined) continue;
          expect(lint(better, context).map(({ id }) => id)).not.toContain(finding.id);
        }
      }),
      { numRuns: 30 },
    );
  });

  it("raises the fields that must not be shorter than the first wait", () => {
    expect(fixed("below-minimum", {}, { minimumWaitMs: 100_000 })).toEqual({
      jitterType: "EQUAL",
      initialDelayMs: 200_000,
      maxDelayMs: 1_600_000,
      throttleDelayMs: 200_000,
      totalBudgetMs: 3_050_000,
    });
  });

  it("does not change a curve if the waits are a list", () => {
    expect(fixed("no-wait", { delaysMs: [0, 0] })).toBeUndefined();
    expect(fixed("no-jitter", { delaysMs: [1000, 2000], jitterType: "NONE" })).toEqual({
      delaysMs: [1000, 2000],
      jitterType: "FULL",
    });
  });

  it("fixes one tier of several, and replaces a preset by its document", () => {
    const tiers = [
      { name: "client", policy: { maxAttempts: 1 } },
      { name: "gateway", policy: { jitterType: "NONE" as const } },
    ];
    expect(fixed("no-jitter", { tiers })).toEqual({
      tiers: [tiers[0], { name: "gateway", policy: { jitterType: "FULL" } }],
    });
    expect(fixed("unsafe-repeat", "interactive", { method: "POST" })).toEqual({
      ...presets.interactive,
      requireIdempotencyKey: true,
    });
  });
});
