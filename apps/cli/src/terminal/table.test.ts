/** Tables align numbers, wrap text where allowed, and stay within the width of the terminal. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { table } from "./table.ts";
import { colorPaint, wrap, wrapWithPrefix } from "./terminal.ts";

const columns = [
  { head: "strategy" },
  { head: "peak", align: "right" },
  { head: "what it is", wraps: true },
] as const;

test("numbers are aligned right", () => {
  const rows = [
    ["none", "10,000", "a comb"],
    ["full", "659", "a ramp"],
  ];
  expect(table(columns, rows, { width: 80 })).toEqual([
    "strategy    peak  what it is",
    "none      10,000  a comb",
    "full         659  a ramp",
  ]);
});

test("a column that may wrap breaks its text into lines", () => {
  const rows = [["none", "1", "all clients arrive at one instant, four times over"]];
  const lines = table(columns, rows, { width: 40 });
  expect(lines.slice(1)).toEqual([
    "none         1  all clients arrive at",
    "                one instant, four times",
    "                over",
  ]);
});

test("colors do not change the width", () => {
  const cell = { text: "ok", tone: "good" } as const;
  const [, line] = table([{ head: "a" }, { head: "b" }], [[cell, "x"]], {
    width: 80,
    paint: colorPaint,
  });
  expect(line).toBe("\u001b[32mok\u001b[39m  x");
});

test("a table of short words is never wider than the terminal", () => {
  const words = fc.array(fc.stringMatching(/^[a-z]{1,8}$/u), { maxLength: 30 });
  fc.assert(
    fc.property(fc.array(words, { minLength: 1, maxLength: 5 }), (texts) => {
      const rows = texts.map((text) => ["name", "1,000", text.join(" ")]);
      for (const line of table(columns, rows, { width: 50 })) {
        expect(line.length).toBeLessThanOrEqual(50);
      }
    }),
  );
});

test("a number and its unit stay on one line", () => {
  expect(wrap("it takes 20 s to 25 % of it", 11)).toEqual(["it takes", "20 s to", "25 % of it"]);
  expect(wrapWithPrefix("- ", "one two three", 9)).toEqual(["- one two", "  three"]);
});
