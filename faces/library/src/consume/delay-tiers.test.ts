/** Tests of the delay tiers: a wait is never shorter than asked for, and at most half longer. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { assertTiers, DEFAULT_TIERS, tierFor } from "./delay-tiers.ts";

const DAYS_30 = 30 * 86_400_000;

test("the default tiers cover every delay that a policy can have", () => {
  expect(DEFAULT_TIERS.slice(0, 6)).toEqual([100, 150, 200, 300, 400, 600]);
  expect(DEFAULT_TIERS.at(-1)).toBeGreaterThanOrEqual(DAYS_30);
  expect(DEFAULT_TIERS.at(-1)).toBeLessThan(2 ** 32);
  expect(DEFAULT_TIERS).toHaveLength(51);
  assertTiers(DEFAULT_TIERS);
});

test("a wait is rounded up, by at most half of it", () => {
  fc.assert(
    fc.property(fc.integer({ min: 100, max: DAYS_30 }), (delayMs) => {
      const tierMs = tierFor(DEFAULT_TIERS, delayMs);
      expect(tierMs).toBeGreaterThanOrEqual(delayMs);
      expect(tierMs).toBeLessThanOrEqual(delayMs * 1.5);
    }),
  );
});

test("it is the shortest tier that is long enough", () => {
  const lists = fc.uniqueArray(fc.integer({ min: 1, max: 1000 }), { minLength: 1 });
  fc.assert(
    fc.property(lists, fc.integer({ min: 0, max: 1200 }), (list, delayMs) => {
      const tiers = list.toSorted((a, b) => a - b);
      const expected = tiers.find((ms) => ms >= delayMs) ?? tiers.at(-1);
      expect(tierFor(tiers, delayMs)).toBe(expected);
    }),
  );
});

test.each([[[]], [[0, 1]], [[5, 5]], [[3, 2]], [[1.5]], [[2 ** 32]], ["100"]])(
  "refuses %o",
  (tiers) => {
    expect(() => assertTiers(tiers as number[])).toThrow("tiersMs must be a list of whole");
  },
);
