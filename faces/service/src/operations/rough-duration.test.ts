/** Tests of durations in sentences. */
import { expect, it } from "vitest";
import { roughDuration } from "./rough-duration.ts";

it.each([
  [40, "40 ms"],
  [999.6, "1 s"],
  [7123, "7.1 s"],
  [46_420, "46 s"],
  [59_800, "1 min"],
  [212_400, "3.5 min"],
  [10_000_000, "2.8 h"],
  [200_000_000, "2.3 d"],
])("%d ms is %s", (ms, text) => {
  expect(roughDuration(ms)).toBe(text);
});
