/** Bars have the right length, to an eighth of a character, and never exceed their width. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bar, rangeBar } from "./bar.ts";

describe("bar", () => {
  test.each([
    [0, ""],
    [1, "▏"],
    [4, "▌"],
    [8, "█"],
    [11, "█▍"],
    [16, "██"],
  ])("%i sixteenths of two characters are %j", (value, drawn) => {
    expect(bar(value, 16, 2)).toBe(drawn);
  });

  test("shows every value above 0", () => {
    expect(bar(0.001, 1_000_000, 10)).toBe("▏");
  });

  test("draws nothing on an empty scale and stops at the end of the scale", () => {
    expect(bar(5, 0, 10)).toBe("");
    expect(bar(99, 10, 3)).toBe("███");
  });

  test("never exceeds its width, and a larger value never has a shorter bar", () => {
    const size = fc.nat({ max: 1_000_000 });
    fc.assert(
      fc.property(size, size, fc.integer({ min: 1, max: 120 }), (one, other, width) => {
        const [small = 0, large = 0] = [one, other].sort((a, b) => a - b);
        const drawn = bar(large, large, width);
        expect(drawn.length).toBeLessThanOrEqual(width);
        expect(bar(small, large, width).length).toBeLessThanOrEqual(drawn.length);
      }),
    );
  });
});

test("a range is dots after the bar, and the three parts fill the width", () => {
  const { solid, dots, rest } = rangeBar(25, 75, 100, 20);
  expect([solid, dots, rest]).toEqual(["█".repeat(5), "·".repeat(10), " ".repeat(5)]);
});
