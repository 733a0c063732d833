/** Columns share one scale, in eighths of a line, above an axis with labeled ends. */
import { describe, expect, test } from "vitest";
import { chart, columnLines, plotWidth, timeAxis } from "./column-chart.ts";

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
