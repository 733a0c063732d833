/** Tests of the ceilings: exact values for each curve, and limits for any policy. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ceilingMsOf, power } from "./backoff.ts";
import { anyPolicy } from "./policy.testing.ts";
import { type PolicyDocument, resolvePolicy } from "./policy.ts";

const ceilings = (document: PolicyDocument, count: number, throttled = false) => {
  const policy = resolvePolicy(document);
  return Array.from({ length: count }, (_, i) => ceilingMsOf(policy, i + 1, throttled));
};

describe("curves", () => {
  test("exponential doubles from the initial delay and stops at the cap", () => {
    const curve = { initialDelayMs: 100, maxDelayMs: 3000 };
    expect(ceilings(curve, 8)).toEqual([100, 200, 400, 800, 1600, 3000, 3000, 3000]);
  });

  test("a fractional multiplier is rounded down to whole milliseconds", () => {
    expect(ceilings({ initialDelayMs: 5, multiplier: 1.5 }, 5)).toEqual([5, 7, 11, 16, 25]);
  });

  test("linear adds the initial delay each time and stops at the cap", () => {
    expect(ceilings({ backoff: "LINEAR", maxDelayMs: 350 }, 5)).toEqual([100, 200, 300, 350, 350]);
  });

  test("fixed stays constant", () => {
    expect(ceilings({ backoff: "FIXED", initialDelayMs: 70 }, 3)).toEqual([70, 70, 70]);
  });

  test("a list gives its entries, and the last one beyond its end", () => {
    expect(ceilings({ delaysMs: [5, 300, 20] }, 5)).toEqual([5, 300, 20, 20, 20]);
  });

  test("after a throttling response the curve starts from its own base", () => {
    const curve = { initialDelayMs: 50, throttleDelayMs: 1000, maxDelayMs: 20_000 };
    expect(ceilings(curve, 6, true)).toEqual([1000, 2000, 4000, 8000, 16_000, 20_000]);
    expect(ceilings({ ...curve, backoff: "LINEAR" }, 3, true)).toEqual([1000, 2000, 3000]);
    expect(ceilings({ ...curve, backoff: "FIXED" }, 2, true)).toEqual([1000, 1000]);
  });

  test("an initial delay of zero stays zero even if the power overflows", () => {
    const policy = resolvePolicy({ initialDelayMs: 0, multiplier: 10 });
    expect(ceilingMsOf(policy, 1000, false)).toBe(0);
  });
});

describe("any policy, any attempt", () => {
  test("ceilings are whole, finite, never negative and never above the cap", () => {
    fc.assert(
      fc.property(
        anyPolicy,
        fc.integer({ min: 1, max: 1_000_000 }),
        fc.boolean(),
        (policy, n, t) => {
          const ceiling = ceilingMsOf(policy, n, t);
          expect(Number.isSafeInteger(ceiling)).toBe(true);
          expect(ceiling).toBeGreaterThanOrEqual(0);
          expect(ceiling).toBeLessThanOrEqual(policy.maxDelayMs ?? Math.max(...policy.delaysMs));
        },
      ),
    );
  });

  test("a curve never falls", () => {
    fc.assert(
      fc.property(anyPolicy, fc.integer({ min: 1, max: 2000 }), (policy, n) => {
        fc.pre(policy.delaysMs === undefined);
        const [lower, higher] = [n, n + 1].map((attempt) => ceilingMsOf(policy, attempt, false));
        expect(higher).toBeGreaterThanOrEqual(lower ?? 0);
      }),
    );
  });
});

describe("power", () => {
  test("agrees with repeated multiplication where that is exact", () => {
    for (let exponent = 0, expected = 1; exponent < 50; exponent++, expected *= 2) {
      expect(power(2, exponent)).toBe(expected);
    }
    expect(power(3, 5)).toBe(243);
    expect(power(10, 0)).toBe(1);
  });

  test("overflows to infinity, never to NaN", () => {
    expect(power(10, 1_000_000)).toBe(Number.POSITIVE_INFINITY);
    expect(power(1, 1_000_000)).toBe(1);
  });
});
