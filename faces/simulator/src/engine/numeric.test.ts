/** Numeric: compared with the platform's functions, to the stated accuracy. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { exp, ln, power, root } from "./numeric.ts";

describe("numeric", () => {
  it("computes logarithms to within 4e-16 of the larger of 1 and the result", () => {
    fc.assert(
      fc.property(fc.double({ min: 1e-12, max: 1e9, noNaN: true }), (x) => {
        expect(Math.abs(ln(x) - Math.log(x))).toBeLessThanOrEqual(
          4e-16 * Math.max(1, Math.abs(Math.log(x))),
        );
      }),
      { numRuns: 2000 },
    );
  });

  it("computes exponentials and roots to within 1e-14", () => {
    fc.assert(
      fc.property(fc.double({ min: -50, max: 50, noNaN: true }), (x) => {
        expect(Math.abs(exp(x) / Math.exp(x) - 1)).toBeLessThanOrEqual(1e-14);
        const square = x * x;
        expect(Math.abs(root(square) - Math.sqrt(square))).toBeLessThanOrEqual(
          1e-14 * Math.max(1, Math.abs(x)),
        );
      }),
      { numRuns: 2000 },
    );
    expect([root(0), root(1), power(2, 10), power(3, 0)]).toEqual([0, 1, 1024, 1]);
  });
});
