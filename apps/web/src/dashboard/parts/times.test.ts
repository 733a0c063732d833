/** Tests that durations are rounded to one unit, and never lose more than a hundredth of it. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { roundDuration } from "./times.tsx";

test.each([
  [0, "0 ms"],
  [999.4, "999 ms"],
  [1000, "1 s"],
  [99_400, "99 s"],
  [99_600, "2 min"],
  [464_000, "8 min"],
  [5_999_000, "2 h"],
  [7_200_000, "2 h"],
  [172_800_000, "2 d"],
  [86_400_000 * 1500, "1,500 d"],
])("%d ms is %s", (ms, text) => {
  expect(roundDuration(ms)).toBe(text);
});

test("a longer duration never looks shorter", () => {
  const MS = { ms: 1, s: 1000, min: 60_000, h: 3_600_000, d: 86_400_000 } as const;
  const msOf = (text: string) => {
    const [count = "", unit = "ms"] = text.replaceAll(",", "").split(" ");
    return Number(count) * MS[unit as keyof typeof MS];
  };
  fc.assert(
    fc.property(fc.nat(1e9), fc.nat(1e9), (one, other) => {
      const [less, more] = [Math.min(one, other), Math.max(one, other)];
      expect(msOf(roundDuration(less))).toBeLessThanOrEqual(msOf(roundDuration(more)));
    }),
  );
});
