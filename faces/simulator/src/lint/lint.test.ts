/** Lint: each rule finds its example but not the fixed one, and has a section in the docs. */
import { readFileSync } from "node:fs";
import { type DestinationDocument, type PolicyDocument, presets } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { coverage } from "../schedule/coverage.ts";
import { lint, lintRules, passesLint } from "./lint.ts";
import { budget, lintExample, lintExamples } from "./lint-examples.testing.ts";
import type { LintContext, LintSubject } from "./rule.ts";

type Case = readonly [id: string, good: LintSubject, goodContext?: LintContext];

/** For each rule its example, fixed so that lint does not find it. */
const CASES: readonly Case[] = [
  ["no-wait", { initialDelayMs: 100 }],
  ["no-jitter", { jitterType: "FULL" }],
  ["narrow-jitter", { jitterType: "PROPORTIONAL", jitterRatio: 0.2 }],
  ["fixed-delay", { backoff: "EXPONENTIAL", initialDelayMs: 1000 }],
  ["flat-curve", { initialDelayMs: 1000, maxAttempts: 5 }],
  [
    "cap-too-long",
    { initialDelayMs: 1000, maxAttempts: 8, maxDelayMs: 60_000, totalBudgetMs: 600_000 },
  ],
  ["below-minimum", { jitterType: "EQUAL", initialDelayMs: 100 }],
  ["decorrelated", { maxAttempts: 12, totalBudgetMs: 600_000 }],
  ["endless", { maxAttempts: 20, totalBudgetMs: 31_536_000_000 }],
  ["waits-do-not-fit", { maxAttempts: 5, jitterType: "NONE", totalBudgetMs: 5000 }],
  [
    "attempt-outlives-budget",
    { totalBudgetMs: 8000, attemptTimeoutMs: 2000, connectTimeoutMs: 1000 },
  ],
  [
    "short-cover",
    { maxAttempts: 12, maxDelayMs: 60_000, initialDelayMs: 1000, totalBudgetMs: 3_600_000 },
  ],
  ["person-waits", presets.interactive],
  ["poison-loop", {}, { maxReceives: 5 }],
  ["permanent-errors", { retryableStatusCodes: [503] }],
  ["unsafe-repeat", { requireIdempotencyKey: true }],
  ["ignores-retry-after", { respectRetryAfter: true }],
  ["fast-throttle", { initialDelayMs: 1, maxDelayMs: 5000, throttleDelayMs: 500 }],
  ["no-budget", { policy: {}, ...budget }],
  [
    "guards-lose-calls",
    { policy: { maxAttempts: 8, initialDelayMs: 500, maxDelayMs: 5000 }, ...budget },
    { clients: 400, outageMs: 8000, patience: "wait" },
  ],
  ["large-budget", budget],
  ["no-breaker", { ...budget, breaker: {} }],
  ["hasty-breaker", { ...budget, breaker: { minCalls: 100 } }],
  ["hedge-without-budget", { hedge: {}, ...budget }],
  ["early-hedge", { hedge: { after: "p95" }, ...budget }],
  ["nested-layers", { tiers: [{ policy: { maxAttempts: 3 } }, { policy: { maxAttempts: 1 } }] }],
];

const idsOf = (subject: LintSubject, context: LintContext) =>
  lint(subject, context).map((finding) => finding.id);

describe("lint", () => {
  it("reports the same coverage as `coverage` and the curve", () => {
    for (const jitterType of ["FULL", "DECORRELATED"] as const) {
      const policy = { maxAttempts: 8, initialDelayMs: 100, maxDelayMs: 20_000, jitterType };
      const coverages = lint(policy, { outageMs: 8000 }).flatMap(
        (one) => one.figures["coverage"] ?? [],
      );
      expect(new Set(coverages)).toEqual(new Set([coverage(policy, 8000)]));
    }
  });

  it.each(CASES.map((one) => ({ id: one[0], one })))(
    "$id is found in its example and not in the fixed one",
    ({ one: [id, good, goodContext] }) => {
      const [bad, context] = lintExample(id);
      expect(idsOf(bad, context)).toContain(id);
      expect(idsOf(good, goodContext ?? context)).not.toContain(id);
    },
  );

  it("has a case and a section of docs/lint.md for each rule, and no others", () => {
    const ids = lintRules.map((rule) => rule.id);
    expect(CASES.map(([id]) => id).sort()).toEqual([...ids].sort());
    expect(Object.keys(lintExamples).sort()).toEqual([...ids].sort());
    const page = readFileSync(new URL("../../../../docs/lint.md", import.meta.url), "utf8");
    const sections = [...page.matchAll(/^### ([a-z-]+)$/gm)].map((match) => match[1]);
    expect(sections.sort()).toEqual([...ids].sort());
    expect(ids.length).toBeGreaterThanOrEqual(15);
  });

  it("gives each finding a sentence with figures, a fix and a link to the docs", () => {
    for (const [id, [bad, context]] of Object.entries(lintExamples)) {
      const finding = lint(bad, context).find((one) => one.id === id);
      expect(finding?.sentence, id).toMatch(/\d.*\.$/);
      expect(finding?.fix, id).toMatch(/^[A-Z].*\.$/);
      expect(Object.values(finding?.figures ?? {}).every(Number.isFinite), id).toBe(true);
      expect(finding?.docs).toBe(`docs/lint.md#${id}`);
    }
  });

  it("multiplies layers: 9, 81, the SRE book's 64 and AWS's 243", () => {
    const calls = (attempts: readonly number[]) =>
      lint({ tiers: attempts.map((maxAttempts) => ({ policy: { maxAttempts } })) })[0]?.figures[
        "calls"
      ];
    expect(
      [
        [3, 3],
        [3, 3, 3, 3],
        [4, 4, 4],
        [3, 3, 3, 3, 3],
      ].map(calls),
    ).toEqual([9, 81, 64, 243]);
  });

  it("gives the binomial probability that the breaker opens", () => {
    const [finding] = lint(
      { ...budget, breaker: { minCalls: 20, failureRate: 0.5 } },
      { shards: 3 },
    );
    expect(finding?.figures["tripChance"]).toBeCloseTo(0.0919, 3);
  });

  it("sorts the worst findings first", () => {
    const severities = lint(
      { policy: { maxAttempts: 1000, jitterType: "NONE", respectRetryAfter: false } },
      { clients: 10_000 },
    ).map((one) => one.severity);
    expect(severities).toEqual(
      [...severities].sort((a, b) => "ewi".indexOf(a[0] ?? "") - "ewi".indexOf(b[0] ?? "")),
    );
    expect(severities[0]).toBe("error");
  });

  it("passes Redrive's own presets", () => {
    for (const [name, preset] of Object.entries(presets)) {
      expect(lint(preset as PolicyDocument), name).toEqual([]);
    }
  });

  it("throws core's error for an invalid document", () => {
    expect(() => lint({ maxAttempts: 0 })).toThrow("maxAttempts must be");
    expect(() => passesLint({ retryBudget: { ratio: 99 } } as DestinationDocument)).toThrow(
      "retryBudget.ratio must be",
    );
  });
});

describe("the figures in a sentence are right", () => {
  const figuresOf = (id: string, subject: LintSubject, context: LintContext = {}) =>
    lint(subject, context).find((one) => one.id === id)?.figures;

  it("counts attempts within a minute, not those just after it", () => {
    const metronome = { backoff: "FIXED", initialDelayMs: 1000, maxAttempts: 90 } as const;
    // At 0, 1, 3, 7, 15 and 31 s; the next one would come at 63 s.
    expect(figuresOf("fixed-delay", { ...metronome, totalBudgetMs: 600_000 })).toMatchObject({
      attemptsPerMinute: 61,
      attemptsPerMinuteExponential: 6,
    });
  });

  it("counts only attempts within the time of the Retry-After", () => {
    const deaf = { respectRetryAfter: false, totalBudgetMs: 86_400_000 } as const;
    const within = (policy: PolicyDocument) =>
      figuresOf("ignores-retry-after", { ...deaf, ...policy })?.["attemptsWithin60s"];
    expect(within({ delaysMs: [20_000, 30_000, 20_000], jitterType: "NONE" })).toBe(2);
    // A drawn wait may be close to 0.
    expect(within({ delaysMs: [20_000, 30_000, 20_000], jitterType: "FULL" })).toBe(3);
    expect(within({ delaysMs: [3_600_000], jitterType: "NONE" })).toBeUndefined();
  });

  it("suggests changes that a list of waits allows", () => {
    const list = { delaysMs: [0, 0], jitterType: "NONE" } as const;
    for (const { id, fix } of lint(list, { minimumWaitMs: 50, outageMs: 8000 })) {
      expect(fix, id).not.toMatch(/initialDelayMs|maxDelayMs|throttleDelayMs|maxAttempts/u);
    }
  });
});
