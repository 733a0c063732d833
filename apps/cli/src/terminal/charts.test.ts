/** Columns share one scale, in eighths of a line, above an axis with labeled ends. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bar, chart, columnLines, plotWidth, rangeBar, timeAxis } from "./charts.ts";

describe("columnLines", () => {
  test("draws the top line first, in eighths", () => {
    expect(columnLines([16, 8, 4, 0, 1], 16, 2)).toEqual(["█", "██▄ ▁"]);
  });

  test("shows every value above 0 and marks values above the scale", () => {
    expect(columnLines([0.0001, 100], 10, 1)).toEqual(["▁▲"]);
  });
});

describe("chart", () => {
  const options = { top: 10_000, endMs: 8000, width: 40, height: 2 };

  test("labels the top of the scale and stays within its width", () => {
    const lines = chart(
      Array.from({ length: plotWidth(options) }, () => 10_000),
      options,
    );
    expect(lines[0]).toMatch(/^10,000 ┤█+$/u);
    expect(lines[1]).toMatch(/^ {7}│█+$/u);
    for (const line of [...lines, ...timeAxis(options)])
      expect(line.length).toBeLessThanOrEqual(40);
  });

  test("labels the start, the middle and the end of the axis", () => {
    expect(timeAxis(options)[1]).toMatch(/^ {8}0 +4 s +8 s$/u);
  });
});

// Bars have the right length, to an eighth of a character, and never exceed their width.

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
