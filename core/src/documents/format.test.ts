/**
 * Durations, numbers, shares and counts are formatted with units, and no remainder is rounded away.
 * Tests of durations: parsing, refusals, and that formatting and parsing agree.
 */

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  formatCount,
  formatDuration,
  formatInteger,
  formatNumber,
  formatPercent,
  formatSeconds,
  formatSignificant,
  parseDuration,
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

const MAX_MS = Number.MAX_SAFE_INTEGER;

describe("parseDuration", () => {
  test.each([
    ["0s", 0],
    ["0.1s", 100],
    [".5s", 500],
    ["1.5s", 1500],
    ["0.025s", 25],
    ["0.100000000s", 100],
    ["100ms", 100],
    ["1.0ms", 1],
    ["2m", 120_000],
    ["1.5h", 5_400_000],
    ["30d", 2_592_000_000],
    ["007s", 7000],
  ])("reads %s as %i ms", (text, durationMs) => {
    expect(parseDuration(text)).toBe(durationMs);
  });

  test.each([
    "",
    "s",
    ".s",
    "1",
    "1.s",
    "-1s",
    "+1s",
    "1e3s",
    "1 s",
    " 1s",
    "1s ",
    "1S",
    "1,5s",
    "1s1s",
    "Infinitys",
    "NaNs",
    "0x1s",
  ])("refuses %j, which is not a duration", (text) => {
    expect(parseDuration(text)).toBeUndefined();
  });

  test.each(["0.0001s", "0.5ms", "0.000000001d"])(
    "refuses %s, finer than a millisecond",
    (text) => {
      expect(parseDuration(text)).toBeUndefined();
    },
  );

  test("refuses a duration that is too long for an exact number", () => {
    expect(parseDuration("9007199254740.991s")).toBe(MAX_MS);
    expect(parseDuration("9007199254740.992s")).toBeUndefined();
    expect(parseDuration("999999999999999d")).toBeUndefined();
    expect(parseDuration("1000000000000000ms")).toBeUndefined();
  });

  test("gives a whole number of ms or undefined for any text", () => {
    const text = fc.oneof(fc.string(), fc.stringMatching(/^[\d.]{0,20}(ms|s|m|h|d)?$/));
    fc.assert(
      fc.property(text, (any) => {
        const durationMs = parseDuration(any);
        expect(
          durationMs === undefined || (Number.isSafeInteger(durationMs) && durationMs >= 0),
        ).toBe(true);
      }),
    );
  });
});

describe("formatSeconds", () => {
  test.each([
    [0, "0s"],
    [1, "0.001s"],
    [25, "0.025s"],
    [100, "0.1s"],
    [1000, "1s"],
    [1250, "1.25s"],
  ])("writes %i ms as %s", (durationMs, text) => {
    expect(formatSeconds(durationMs)).toBe(text);
  });

  test("writes what parseDuration reads back", () => {
    const anyDuration = fc.oneof(fc.nat(), fc.integer({ min: 0, max: MAX_MS }));
    fc.assert(
      fc.property(
        anyDuration,
        (durationMs) => parseDuration(formatSeconds(durationMs)) === durationMs,
      ),
    );
  });
});
