/**
 * Tests of the bounded cache: each value is computed once, and the number of entries is limited.
 */
import { expect, it } from "vitest";
import { memoize } from "./bounded-cache.ts";

it("computes each value once, until the cache is full", () => {
  const asked: string[] = [];
  const length = memoize(2, (text) => {
    asked.push(text);
    return { length: text.length };
  });
  expect(["a", "a", "bb", "a", "ccc", "a"].map((text) => length(text).length)).toEqual([
    1, 1, 2, 1, 3, 1,
  ]);
  expect(asked).toEqual(["a", "bb", "ccc", "a"]);
});

it("does not cache long keys", () => {
  let asked = 0;
  const count = memoize(10, () => ++asked);
  expect([count("x".repeat(3000)), count("x".repeat(3000))]).toEqual([1, 2]);
});
