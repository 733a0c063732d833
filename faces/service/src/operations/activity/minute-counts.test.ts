/** Tests that the ring of minutes counts like a list of all records, and forgets what is older. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { MINUTE_MS, MINUTES, MinuteCounts, minuteOf } from "./minute-counts.ts";

const measures = ["one", "two"] as const;
const steps = fc.array(
  fc.record({
    stepMs: fc.oneof(fc.integer({ min: 0, max: 90_000 }), fc.integer({ min: 0, max: 5_000_000 })),
    lateMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 4_000_000 })),
    measure: fc.constantFrom(...measures),
  }),
  { maxLength: 60 },
);

test("the counts of an hour are those of a list of all records", () => {
  fc.assert(
    fc.property(fc.integer({ min: -10_000_000, max: 1e12 }), steps, (start, list) => {
      const counts = new MinuteCounts(measures);
      const all: { readonly minute: number; readonly measure: string }[] = [];
      let now = start;
      for (const { stepMs, lateMs, measure } of list) {
        now += stepMs;
        counts.add(now, measure);
        counts.add(now - lateMs, measure);
        all.push({ minute: minuteOf(now), measure });
        // A minute that was left before it was recorded is not counted.
        if (minuteOf(now - lateMs) > minuteOf(now) - MINUTES) {
          all.push({ minute: minuteOf(now - lateMs), measure });
        }
      }
      for (const measure of measures) {
        const expected = Array.from({ length: MINUTES }, (_, index) => {
          const minute = minuteOf(now) - MINUTES + 1 + index;
          return all.filter((one) => one.minute === minute && one.measure === measure).length;
        });
        expect(counts.read(now)[measure]).toEqual(expected);
      }
    }),
  );
});

test("what is older than an hour is forgotten, and a sampled value keeps its maximum", () => {
  const counts = new MinuteCounts(measures);
  counts.add(0, "one", 3);
  for (const value of [5, 9, 7]) counts.raise(MINUTE_MS, "two", value);
  expect(counts.read(MINUTE_MS).one.slice(-2)).toEqual([3, 0]);
  expect(counts.read(MINUTE_MS).two.slice(-2)).toEqual([0, 9]);
  expect(counts.read(MINUTES * MINUTE_MS).one).toEqual(Array(MINUTES).fill(0));
  expect(counts.minute).toBe(1);
});
