/** Flags are parsed into values, and every error message says what is valid. */

import { RedriveError } from "@redrive/core";
import { describe, expect, test } from "vitest";
import {
  choiceFlag,
  durationFlag,
  durationFlagFrom,
  flagNamesIn,
  integerFlag,
  numberFlag,
  seedFlag,
  withFlagNames,
} from "./flags.ts";
import { replayCommandLines } from "./presentation.ts";
import { hasColor, plainPaint, terminalWidth } from "./terminal.ts";

describe("flags", () => {
  test("durations become milliseconds", () => {
    expect(["200ms", "20s", "1.5h"].map(durationFlag)).toEqual([200, 20_000, 5_400_000]);
  });

  test("a number without a unit is refused with a suggestion", () => {
    expect(() => durationFlag("20")).toThrow('Did you mean "20ms" or "20s"?');
    expect(() => durationFlag("soon")).toThrow('such as "200ms"');
    expect(durationFlagFrom("1s", "10m")("600s")).toBe(600_000);
    expect(() => durationFlagFrom("1s", "10m")("999ms")).toThrow("from 1s to 10m");
  });

  test("numbers have bounds and may contain thousands separators", () => {
    expect(integerFlag(1, 20_000)("10,000")).toBe(10_000);
    expect(integerFlag(1, 20_000)("10_000")).toBe(10_000);
    expect(() => integerFlag(1, 10)("11")).toThrow("from 1 to 10");
    expect(() => integerFlag(1, 10)("1e1")).toThrow("whole number");
    expect(numberFlag(1, 10)("1.5")).toBe(1.5);
    expect(() => numberFlag(1, 10)("-2")).toThrow("from 1 to 10");
  });

  test("a misspelled choice gets a suggestion", () => {
    expect(() => choiceFlag("person", "service")("persn")).toThrow('Did you mean "person"?');
  });

  test("a seed is a number or a word", () => {
    expect(["7", "monday"].map(seedFlag)).toEqual([7, "monday"]);
    expect(() => seedFlag("two words")).toThrow("Must be a number");
  });
});

describe("the terminal", () => {
  test("takes its width from COLUMNS, within limits", () => {
    expect(terminalWidth({ COLUMNS: "120" }, 80)).toBe(120);
    expect(terminalWidth({ COLUMNS: "wide" }, 90)).toBe(90);
    expect(terminalWidth({}, undefined)).toBe(80);
    expect([terminalWidth({ COLUMNS: "1" }, 80), terminalWidth({}, 9999)]).toEqual([40, 240]);
  });

  test("uses colors only on a terminal that supports and allows them", () => {
    expect(hasColor({}, true)).toBe(true);
    expect(hasColor({}, false)).toBe(false);
    expect(hasColor({ NO_COLOR: "1" }, true)).toBe(false);
    expect(hasColor({ FORCE_COLOR: "1" }, false)).toBe(true);
    expect(hasColor({ TERM: "dumb" }, true)).toBe(false);
  });
});

test("the replay command adds the seed once and quotes for a shell", () => {
  const line = (args: string[], width = 200) =>
    replayCommandLines({ args, paint: plainPaint, width }, 7);
  expect(line(["schedule", "--full"])).toEqual([
    "seed 7   repeat: redrive schedule --full --seed 7",
  ]);
  expect(line(["sim", "run", "it's.json", "--seed=7"])).toEqual([
    "seed 7   repeat: redrive sim run 'it'\\''s.json' --seed=7",
  ]);
  expect(line(["schedule"], 20)).toHaveLength(2);
});

// Messages of the service in the words of the command line.

const FLAGS = { idempotencyKey: "--key", method: "--method", policyId: "--policy" };

test.each([
  ['method must be a token, got "method"', '--method must be a token, got "method"'],
  ["the policy requires an idempotencyKey", "the policy requires an --key"],
  ['idempotencyKey: bad; method: "a \\" method"', '--key: bad; --method: "a \\" method"'],
  ["the method stays in a sentence", "the method stays in a sentence"],
  ["constructor and toString stay", "constructor and toString stay"],
])("%s", (message, expected) => {
  expect(flagNamesIn(message, FLAGS)).toBe(expected);
});

test("keeps the code and the cause of an error", async () => {
  const cause = new RedriveError("UNKNOWN_POLICY" as never, "policyId is unknown");
  const thrown = await withFlagNames(FLAGS, () => Promise.reject(cause)).catch((error) => error);
  expect([thrown.code, thrown.message, thrown.cause]).toEqual([
    "UNKNOWN_POLICY",
    "--policy is unknown",
    cause,
  ]);
});

test("passes other errors on", async () => {
  const other = new TypeError("fetch failed");
  await expect(withFlagNames(FLAGS, () => Promise.reject(other))).rejects.toBe(other);
});
