/**
 * Tests of reading single values of other systems' configurations.
 * Tests of the two spellings of protocol buffers in JSON.
 */
import { describe, expect, test } from "vitest";
import {
  addLostNote,
  clampWithNote,
  fieldOf,
  imported,
  numberOf,
  readInteger,
  readList,
  readObject,
  readPositive,
  readPositiveSeconds,
  readSeconds,
  readText,
} from "./config-reader.ts";

describe("readers", () => {
  test("return a good value", () => {
    expect(readObject({ a: 1 }, "f")).toEqual({ a: 1 });
    expect(readList([1], "f")).toEqual([1]);
    expect(readText("x", "f")).toBe("x");
    expect(readInteger(2, "f", 2)).toBe(2);
    expect(readPositive(0.5, "f")).toBe(0.5);
    expect(readSeconds("0.1s", "f")).toBe(100);
    expect(readPositiveSeconds("1s", "f")).toBe(1000);
  });

  test.each<[() => unknown, string]>([
    [() => readObject([], "f"), "f must be an object, got []"],
    [() => readList({}, "f"), "f must be a list, got {}"],
    [() => readText(1, "f"), "f must be a text, got 1"],
    [() => readInteger(1.5, "f", 0), "f must be a whole number of at least 0, got 1.5"],
    [() => readInteger("1", "f", 0), 'f must be a whole number of at least 0, got "1"'],
    [() => readPositive(Number.NaN, "f"), "f must be a number above 0, got NaN"],
    [() => readPositive(1 / 0, "f"), "f must be a number above 0, got Infinity"],
    [
      () => readSeconds("5ms", "f"),
      'f must be seconds such as "0.1s", to the millisecond, got "5ms"',
    ],
    [() => readPositiveSeconds("0s", "f"), 'f must be above 0 s, got "0s"'],
  ])("refuse anything else: %#", (read, message) => {
    expect(read).toThrow(expect.objectContaining({ code: "INVALID_IMPORT", message }));
  });
});

test("a clamped value adds a note, a value in its range adds none", () => {
  const notes: string[] = [];
  expect(clampWithNote(notes, "f", 7, [1, 10])).toBe(7);
  expect(clampWithNote(notes, "f", 70, [1, 10])).toBe(10);
  expect(notes).toEqual(["f 70 became 10: the range is 1 to 10."]);
});

test("a note names the fields that are set and lost; false and undefined are not set", () => {
  const notes: string[] = [];
  addLostNote(notes, "X", { a: 1, b: false, c: undefined, d: 0, e: 2 }, ["e"]);
  addLostNote(notes, "X", {}, []);
  expect(notes).toEqual(["X cannot express a, d; left out."]);
});

test("an import whose fields do not fit together is refused", () => {
  expect(() => imported({ maxDelayMs: 1 }, {}, [])).toThrow(
    "as a policy of Redrive maxDelayMs must be at least initialDelayMs (100), got 1",
  );
});

test("a field is found in snake_case and in camelCase, snake_case first", () => {
  expect(fieldOf({ retry_on: 1 }, "retry_on")).toBe(1);
  expect(fieldOf({ retryOn: 2 }, "retry_on")).toBe(2);
  expect(fieldOf({ retryOn: 2, retry_on: 1 }, "retry_on")).toBe(1);
  expect(fieldOf({}, "constructor")).toBeUndefined();
});

test("a number is found with and without its wrapper", () => {
  expect(numberOf({ value: 3 })).toBe(3);
  expect(numberOf(3)).toBe(3);
  expect(numberOf(undefined)).toBeUndefined();
});
