/** Tests that error messages use the labels of the controls. */
import { resolvePolicy } from "@redrive/core";
import { expect, test } from "vitest";
import { labeledProblem } from "./field-names.ts";

const problemOf = (document: object): string => {
  try {
    resolvePolicy(document);
    return "";
  } catch (error) {
    return labeledProblem((error as Error).message);
  }
};

test("a base above the deadline is explained with the labels and units of the page", () => {
  expect(problemOf({ initialDelayMs: 60_000, totalBudgetMs: 30_000 })).toBe(
    "The deadline must be at least the first wait and call (60000 + 1 ms), got 30000 ms",
  );
});

test("counts have no unit", () => {
  expect(problemOf({ maxAttempts: 0 })).toMatch(/^The attempts must be .* got 0$/u);
});
