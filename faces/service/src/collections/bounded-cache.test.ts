/** Remembered answers: asked once each, and never too many of them. */
import { expect, it } from "vitest";
import { memoize } from "./bounded-cache.ts";

it("asks once for each text, until it knows too many", () => {
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

it("does not keep long texts", () => {
  let asked = 0;
  const count = memoize(10, () => ++asked);
  expect([count("x".repeat(3000)), count("x".repeat(3000))]).toEqual([1, 2]);
});
