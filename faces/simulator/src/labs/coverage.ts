/** Coverage lab: does a policy outlast an outage of 8 s? */
import type { PolicyDocument } from "@redrive/core";
import { coverage } from "../schedule/coverage.ts";
import { type Lab, type LabRow, within } from "./lab.ts";

type Case = readonly [string, PolicyDocument, number];

const FAST: PolicyDocument = { initialDelayMs: 100, maxDelayMs: 20_000, totalBudgetMs: 3_600_000 };
const SLOW: PolicyDocument = { initialDelayMs: 1000, maxDelayMs: 30_000, totalBudgetMs: 3_600_000 };

const CASES: readonly Case[] = [
  ["100 ms, 7 retries, exponential", { ...FAST, maxAttempts: 8, jitterType: "NONE" }, 1],
  ["100 ms, 7 retries, equal", { ...FAST, maxAttempts: 8, jitterType: "EQUAL" }, 0.92],
  ["100 ms, 7 retries, full", { ...FAST, maxAttempts: 8 }, 0.25],
  [
    "100 ms, 7 retries, decorrelated",
    { ...FAST, maxAttempts: 8, jitterType: "DECORRELATED" },
    0.34,
  ],
  ["100 ms, 9 retries, full", { ...FAST, maxAttempts: 10 }, 0.99],
  [
    "100 ms, 9 retries, decorrelated",
    { ...FAST, maxAttempts: 10, jitterType: "DECORRELATED" },
    0.58,
  ],
  [
    "100 ms, 11 retries, decorrelated",
    { ...FAST, maxAttempts: 12, jitterType: "DECORRELATED" },
    0.75,
  ],
  ["1 s, 4 retries, full", { ...SLOW, maxAttempts: 5 }, 0.44],
  ["1 s, 4 retries, decorrelated", { ...SLOW, maxAttempts: 5, jitterType: "DECORRELATED" }, 0.91],
];

function run(seed: number | string): readonly LabRow[] {
  return CASES.map(([what, policy, published]) =>
    within(`${what}: chance to outlast 8 s`, published, coverage(policy, 8000, { seed }), 0.02),
  );
}

export const coverageLab: Lab = {
  id: "coverage",
  title: "Does the policy outlast the outage?",
  source: "Own reference, two independent implementations (no published tool shows it)",
  lesson:
    "Decorrelated jitter is a random walk: with eleven retries a quarter of the calls still gives up within 8 s.",
  run,
};
