/** Verdict: the numbers in the sentence are a reason for it, never against it. */
import { expect, test } from "vitest";
import type { CallsDocument } from "../scenario.ts";
import { scenarios } from "../scenarios.ts";
import { simulate } from "../simulate.ts";

const classic = scenarios["metastable"] as CallsDocument;

/** The classic with one more guard in front of its server. */
function guarded(guard: object): CallsDocument {
  const [tier] = classic.tiers ?? [];
  return { ...classic, tiers: [{ ...tier, destination: { ...tier?.destination, ...guard } }] };
}

test.each([
  ["no guard", {}],
  ["a retry budget", { retryBudget: {} }],
  ["a breaker", { breaker: {} }],
  ["adaptive concurrency", { concurrency: { algorithm: "AIMD", max: 200 } }],
])("a sentence does not contradict its law: %s", (_, guard) => {
  const { verdict } = simulate(guarded(guard), { seed: 1 });
  expect(verdict).toMatch(/^(?:never recovers|recovers )/u);
  expect(verdict).not.toMatch(verdict.startsWith("never") ? / < \d/u : / > \d/u);
});
