/** A logarithmic slider reaches both ends, stays within them and is monotonic. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { LOG_STEPS, positionOf, valueAt } from "./controls.tsx";

const ranges = fc
  .tuple(fc.integer({ min: 0, max: 1000 }), fc.integer({ min: 10, max: 1_000_000 }))
  .map(([min, more]) => ({ min, max: min + more, scale: "log" as const }));
const position = fc.integer({ min: 0, max: LOG_STEPS });

test("the ends of the slider are the ends of the range", () => {
  fc.assert(
    fc.property(ranges, (range) => {
      expect(valueAt(0, range)).toBe(range.min);
      expect(valueAt(LOG_STEPS, range)).toBe(range.max);
      expect(positionOf(range.min, range)).toBe(0);
      expect(positionOf(range.max, range)).toBe(LOG_STEPS);
    }),
  );
});

test("a position further right never gives a smaller value", () => {
  fc.assert(
    fc.property(ranges, position, position, (range, a, b) => {
      const [left, right] = [Math.min(a, b), Math.max(a, b)];
      expect(valueAt(left, range)).toBeLessThanOrEqual(valueAt(right, range));
    }),
  );
});

test("a value stays in its range, and 0 and 1 have different positions", () => {
  fc.assert(
    fc.property(ranges, position, (range, at) => {
      const value = valueAt(at, range);
      expect(value).toBeGreaterThanOrEqual(range.min);
      expect(value).toBeLessThanOrEqual(range.max);
    }),
  );
  expect(positionOf(1, { min: 0, max: 1000 })).toBe(1);
});
