/** Durations, numbers, shares and counts are formatted with units, and no remainder is rounded away. */
import { expect, test } from "vitest";
import {
  formatCount,
  formatDuration,
  formatInteger,
  formatNumber,
  formatPercent,
  formatSignificant,
} from "./format.ts";

test.each([
  [0, "0 ms"],
  [999, "999 ms"],
  [1500, "1.5 s"],
  [86_500, "86.5 s"],
  [60_000, "1 min"],
  [600_000, "10 min"],
  [3_600_000, "1 h"],
  [7_201_000, "2 h"],
  [86_400_000, "24 h"],
  [345_600_000, "4 d"],
  [2_592_000_000, "30 d"],
  [31_536_000_000, "1 year"],
  [94_608_000_000, "3 years"],
])("%i ms are %j", (ms, text) => expect(formatDuration(ms)).toBe(text));

test("numbers have commas between thousands and at most two decimals", () => {
  expect([formatInteger(1_234_567), formatNumber(12.345), formatNumber(12_345.6)]).toEqual([
    "1,234,567",
    "12.35",
    "12,346",
  ]);
});

test("a share is 0 % or 100 % only if it is exactly that", () => {
  expect([0, 1, 0.5, 0.00001, 0.99999].map(formatPercent)).toEqual([
    "0 %",
    "100 %",
    "50 %",
    "< 0.1 %",
    "> 99.9 %",
  ]);
});

test("measured values have only significant digits, and counts have their noun", () => {
  expect([812.97, 0.065_14, 2419.4, 0].map(formatSignificant)).toEqual([
    "813",
    "0.0651",
    "2,419",
    "0",
  ]);
  expect([formatCount(1, "wait"), formatCount(2, "wait")]).toEqual(["1 wait", "2 waits"]);
});
