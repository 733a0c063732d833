/** The results of a benchmark are compared with its limits. */
import { expect, test } from "vitest";
import { flat, judge } from "./bars.mjs";
import type { Report } from "./harness.mjs";

const row = { nsLow: 0, nsHigh: 0 };
const report: Report = {
  name: "x",
  baseline: "plain",
  node: "v20",
  rounds: 1,
  results: [
    { ...row, name: "plain", nsPerOp: 50, ratio: 1, bytesPerOp: 100 },
    { ...row, name: "ours", nsPerOp: 200, ratio: 4, bytesPerOp: 900 },
    { ...row, name: "theirs", nsPerOp: 180, ratio: 3.6, bytesPerOp: 1_000 },
    { ...row, name: "others", nsPerOp: 900, ratio: 18, bytesPerOp: undefined },
  ],
};
const verdictsOf = (bar: Parameters<typeof judge>[1][number]) =>
  judge(report, [bar]).map(({ ok }) => ok);

test("ratio, nanoseconds and bytes each have a verdict", () => {
  expect(verdictsOf({ of: "ours", ratio: 5, ns: 150, bytes: 900 })).toEqual([true, false, true]);
});

test("a limit below several peers is the best of them", () => {
  expect(verdictsOf({ of: "ours", below: ["others"] })).toEqual([true]);
  expect(verdictsOf({ of: "ours", below: ["others", "theirs"] })).toEqual([false]);
});

test("bytes that were not measured have no verdict", () => {
  expect(verdictsOf({ of: "others", bytes: 1 })).toEqual([]);
});

test("flat compares the most expensive with the cheapest", () => {
  expect(flat(report, ["ours", "theirs"], 1.2).ok).toBe(true);
  expect(flat(report, ["ours", "others"], 1.1)).toMatchObject({ got: "4.50", ok: false });
});

test("an unknown contender is an error", () => {
  expect(() => judge(report, [{ of: "nobody", ratio: 1 }])).toThrow('"nobody"');
});
