/**
 * Tests of the message of whatever was thrown.
 * Tests of asserted bounds and of how values are quoted in messages.
 */
import { expect, test } from "vitest";
import { assertRange, messageOf, quote } from "./errors.ts";

test.each([
  ["an error", new Error("no space"), "no space"],
  ["an error without a message", Object.assign(new TypeError("x"), { message: "" }), "TypeError"],
  ["an error of several addresses", new AggregateError([new Error("a"), "b"], "all"), "a; b"],
  ["an error of no parts", new AggregateError([], "nothing to try"), "nothing to try"],
  ["a text", "closed", "closed"],
  ["nothing", undefined, "undefined"],
])("the message of %s", (_, thrown, message) => {
  expect(messageOf(thrown)).toBe(message);
});

test("a range includes both ends, and NaN is in no range", () => {
  expect(() => assertRange("x", 1, 1, 2)).not.toThrow();
  expect(() => assertRange("x", 2, 1, 2)).not.toThrow();
  for (const value of [0, 3, Number.NaN, "1" as never, undefined as never]) {
    expect(() => assertRange("x", value, 1, 2)).toThrow(/^x must be 1 to 2, got /);
  }
  expect(() => assertRange("x", 0, 1, 2)).toThrow(
    expect.objectContaining({ code: "INVALID_ARGUMENT" }),
  );
});

test("values are quoted in a readable form, on one short line", () => {
  expect([5, Number.NaN, "a\nb", null, undefined, [1], { a: 1 }, true].map(quote)).toEqual([
    "5",
    "NaN",
    '"a\\nb"',
    "null",
    "undefined",
    "[1]",
    '{"a":1}',
    "true",
  ]);
  expect(quote("x".repeat(500))).toHaveLength(80);
  expect(quote(10n)).toBe("bigint");
  expect(quote(() => 1)).toBe("function");
});
