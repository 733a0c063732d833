/** Tests of the two spellings of protocol buffers in JSON. */
import { expect, test } from "vitest";
import { fieldOf, numberOf } from "./proto-json.ts";

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
