/** Columns of a chart: a rate does not depend on the width, and a peak is never averaged away. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { peaksOver, ratesOver } from "./over-time.ts";

test("a column has the mean rate of its bins, or the largest of them", () => {
  const counts = [1, 3, 0, 8];
  expect(ratesOver(counts, 500, 2000, 2)).toEqual([4, 8]);
  expect(peaksOver(counts, 500, 2000, 2)).toEqual([3, 8]);
});

test("a column narrower than a bin shows that bin, and columns beyond the counts are 0", () => {
  expect(ratesOver([2, 4], 1000, 2000, 4)).toEqual([2, 2, 4, 4]);
  expect(peaksOver([2, 4], 1000, 4000, 4)).toEqual([2, 4, 0, 0]);
});

test("every bin is in a column, including the last one", () => {
  const bins = fc.integer({ min: 1, max: 300 });
  const columns = fc.integer({ min: 1, max: 200 });
  fc.assert(
    fc.property(bins, columns, fc.integer({ min: 1, max: 1000 }), (count, room, binMs) => {
      const last = Array.from({ length: count }, (_, bin) => (bin === count - 1 ? 1 : 0));
      expect(peaksOver(last, binMs, count * binMs, room).at(-1)).toBe(1);
    }),
  );
});
