/** Tests that a redrive takes what was shown, at a pace that the service accepts. */
import { expect, test } from "vitest";
import { frozenFilter, paceProblem, paceSentence } from "./redrive-wizard.tsx";

const group = {
  destination: "pay",
  reason: "attempts",
  count: 3,
  redriven: 1,
  firstFinishedAt: 1000,
  lastFinishedAt: 2000,
};

test("the set ends with the last dead letter that was shown", () => {
  expect(frozenFilter(group)).toEqual({ destination: "pay", reason: "attempts", finishedTo: 2001 });
});

test("a group that no filter selects cannot be redriven as a whole", () => {
  expect(frozenFilter({ ...group, reason: null })).toBeUndefined();
});

test.each([
  ["", "10"],
  ["0", "10"],
  ["ten", "10"],
  ["10", "1.5"],
  ["10", "-1"],
  ["10", "101"],
  ["10", ""],
])("rate %j with canary %j is refused", (rate, canary) => {
  expect(paceProblem({ rate, canary })).not.toBe("");
});

test("the default pace is accepted, and its duration is estimated", () => {
  expect(paceProblem({ rate: "10", canary: "0" })).toBe("");
  expect(paceSentence(95, { rate: "10", canary: "0" })).toContain("10 s");
});
