/** Tests how the arrow keys move through suggestions. */
import { expect, test } from "vitest";
import { nextMark } from "./use-suggestions.ts";

test("the mark goes around the ends, and starts at either end", () => {
  expect(nextMark(-1, 1, 3)).toBe(0);
  expect(nextMark(-1, -1, 3)).toBe(2);
  expect(nextMark(2, 1, 3)).toBe(0);
  expect(nextMark(0, -1, 3)).toBe(2);
  expect(nextMark(0, 1, 1)).toBe(0);
});
