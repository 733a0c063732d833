/** Tests of asserted bounds and of how values are quoted in messages. */
import { expect, test } from "vitest";
import { assertRange, quote } from "./assert.ts";

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
