/** Shares and counts read as people say them, and never round a rest away. */
import { expect, test } from "vitest";
import { counted, figure, percent } from "./figures.ts";

test("shares are exactly none or all only if they are", () => {
  expect([0, 1, 0.5, 0.00001, 0.99999].map(percent)).toEqual([
    "0 %",
    "100 %",
    "50 %",
    "< 0.1 %",
    "> 99.9 %",
  ]);
});

test("figures have no more digits than count", () => {
  expect([figure(812.97), figure(0.065_14), figure(2419.4), figure(0)]).toEqual([
    "813",
    "0.0651",
    "2,419",
    "0",
  ]);
  expect([counted(1, "wait"), counted(2, "wait")]).toEqual(["1 wait", "2 waits"]);
});
