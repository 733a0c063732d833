/** Tests that a run is named by what differs. */
import { type CallsDocument, scenarios } from "@redrive/simulator";
import { expect, test } from "vitest";
import { differenceText } from "./results.tsx";

const base = scenarios["metastable"] as CallsDocument;
const [tier = {}] = base.tiers ?? [];
const policy = tier.destination?.policy;

function withDestination(change: object): CallsDocument {
  return { ...base, tiers: [{ ...tier, destination: { ...tier.destination, ...change } }] };
}

test("an equal run has no difference, whatever its description", () => {
  expect(differenceText(base, { ...base, description: "mine" })).toBe("");
});

test("a changed field is named with its value, and a guard by its name", () => {
  const changed = { ...(policy as object), maxAttempts: 2, initialDelayMs: 3000 };
  expect(differenceText(base, withDestination({ policy: changed }))).toContain("maxAttempts 2");
  expect(differenceText(base, withDestination({ breaker: {} }))).toBe("breaker");
  const guarded = withDestination({ breaker: { minCalls: 20, failureRate: 0.5 } });
  expect(differenceText(base, guarded)).toBe("breaker");
  expect(differenceText(guarded, base)).toBe("no breaker");
});

test("many differences are counted", () => {
  const changed = { ...base, horizonMs: 1000, timeline: [], patience: "wait" as const };
  expect(differenceText(base, changed)).toMatch(/, \d+ more$/u);
});
