/** Bounds, deviations and verdicts of rows, for every kind of tolerance. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { LabRow } from "../labs/lab.ts";
import { boundsOf, deviationOf, type NumberRow, rowVerdict } from "./lab-results.ts";

function row(published: number, ours: number, tolerance: LabRow["tolerance"]): NumberRow {
  return { what: "a: b", published, ours, tolerance, basis: "stated", ok: true };
}

describe("bounds", () => {
  it.each([
    [{ kind: "relative", share: 0.05 }, [95, 105]],
    [{ kind: "absolute", by: 3 }, [97, 103]],
    [{ kind: "range", from: 80, to: 101 }, [80, 101]],
  ] as const)("of %j around 100", (tolerance, bounds) => {
    expect(boundsOf(row(100, 100, tolerance))).toEqual(bounds);
  });
});

describe("deviation", () => {
  it("is within one tolerance exactly where the bounds are kept", () => {
    const value = fc.double({ min: -1000, max: 1000, noNaN: true });
    const by = fc.double({ min: 0, max: 500, noNaN: true });
    fc.assert(
      fc.property(value, value, by, by, (published, ours, below, above) => {
        const one = row(published, ours, {
          kind: "range",
          from: published - below,
          to: published + above,
        });
        const [from, to] = boundsOf(one);
        fc.pre(from <= published && published <= to);
        expect(Math.abs(deviationOf(one)) <= 1).toBe(ours >= from && ours <= to);
      }),
    );
  });

  it("is infinite where nothing is allowed, and 0 where nothing differs", () => {
    expect(deviationOf(row(1, 1, { kind: "absolute", by: 0 }))).toBe(0);
    expect(deviationOf(row(1, 2, { kind: "absolute", by: 0 }))).toBe(Number.POSITIVE_INFINITY);
    expect(deviationOf(row(1, 0, { kind: "relative", share: 0 }))).toBe(Number.NEGATIVE_INFINITY);
  });
});

it("a row is missed only if nothing explains it", () => {
  const verdicts = [{ ok: true }, { ok: false, deviation: "why" }, { ok: false }].map(rowVerdict);
  expect(verdicts).toEqual(["ok", "differs", "missed"]);
});
