/** Tests of durations: parsing, refusals, and that formatting and parsing agree. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatSeconds, parseDuration } from "./duration.ts";

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
