/** Tests of formatted durations and numbers. */
import { expect, test } from "vitest";
import { formatDuration, formatInteger, formatNumber } from "./format.ts";

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

test("numbers have thousands separators and at most two decimals", () => {
  expect([formatInteger(1_234_567), formatNumber(12.345), formatNumber(12_345.6)]).toEqual([
    "1,234,567",
    "12.35",
    "12,346",
  ]);
});
