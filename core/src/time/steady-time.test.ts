/** Tests of steady time: a late reading changes nothing, and a clock set back is followed. */
import { expect, test } from "vitest";
import { STALE_READING_MS, steadyAt } from "./steady-time.ts";

test("time that moves on is followed", () => {
  expect(steadyAt(5000, 5000)).toBe(5000);
  expect(steadyAt(5000, 5001)).toBe(5001);
  expect(steadyAt(5000, 9_999_999)).toBe(9_999_999);
});

test("a late reading of up to a second changes nothing", () => {
  expect(steadyAt(5000, 4999)).toBe(5000);
  expect(steadyAt(5000, 5000 - STALE_READING_MS)).toBe(5000);
});

test("a clock set back further than that is followed", () => {
  expect(steadyAt(5000, 4999 - STALE_READING_MS)).toBe(3999);
  expect(steadyAt(9_999_999, 0)).toBe(0);
});
