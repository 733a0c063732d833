/** Figures read as people say them, with units, and never round a rest away. */
import { expect, test } from "vitest";
import { counted, figure, percent, plain, span, whole } from "./figures.ts";

test.each([
  [0, "0 ms"],
  [999, "999 ms"],
  [1500, "1.5 s"],
  [86_500, "86.5 s"],
  [60_000, "1 min"],
  [600_000, "10 min"],
  [3_600_000, "1 h"],
  [86_400_000, "24 h"],
  [345_600_000, "4 d"],
  [2_592_000_000, "30 d"],
  [31_536_000_000, "1 year"],
  [94_608_000_000, "3 years"],
])("%i ms are %j", (ms, text) => expect(span(ms)).toBe(text));

test("shares are exactly none or all only if they are", () => {
  expect([0, 1, 0.5, 0.00001, 0.99999].map(percent)).toEqual([
    "0 %",
    "100 %",
    "50 %",
    "< 0.1 %",
    "> 99.9 %",
  ]);
});

test("numbers have their thousands apart, and no more digits than count", () => {
  expect([whole(1_234_567), plain(12.345), plain(12_345.6)]).toEqual([
    "1,234,567",
    "12.35",
    "12,346",
  ]);
  expect([figure(812.97), figure(0.065_14), figure(2419.4), figure(0)]).toEqual([
    "813",
    "0.0651",
    "2,419",
    "0",
  ]);
  expect([counted(1, "wait"), counted(2, "wait")]).toEqual(["1 wait", "2 waits"]);
});
