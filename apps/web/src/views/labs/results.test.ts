/** Results: bounds, deviations and measures of rows, for every kind of tolerance. */
import { type LabRow, labs } from "@redrive/simulator";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { boundsOf, deviationOf, measuresOf, type NumberRow, needsLog, partsOf } from "./results.ts";
import { sources } from "./sources.ts";

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

describe("measures", () => {
  it("are what stands after the last colon, without what was published in words", () => {
    expect(partsOf("full, window b: higher than the comb: peak")).toEqual({
      label: "full, window b: higher than the comb",
      measure: "peak",
    });
    expect(partsOf("3 retries: share lost (published: never recovers)").measure).toBe("share lost");
    expect(partsOf("order by time")).toEqual({ label: "order by time", measure: "" });
  });

  it("hold every number once, in the order in which their measures come", () => {
    const exactly = { kind: "same" } as const;
    const rows: LabRow[] = ["a: calls", "a: ms", "b: calls"].map((what) => ({
      ...row(1, 1, exactly),
      what,
    }));
    const words: LabRow = { ...row(1, 1, exactly), published: "never", ours: "never" };
    expect(
      measuresOf([...rows, words]).map(({ name, rows: those }) => [
        name,
        those.map(({ label }) => label),
      ]),
    ).toEqual([
      ["calls", ["a", "b"]],
      ["ms", ["a"]],
    ]);
  });

  it("take a logarithm only where one end would vanish", () => {
    const exactly = { kind: "relative", share: 0 } as const;
    const of = (...values: number[]) => ({
      name: "",
      rows: values.map((value) => ({ ...row(value, value, exactly), label: "" })),
    });
    expect([of(1, 39), of(1, 40), of(0, 1000)].map(needsLog)).toEqual([false, true, false]);
  });
});

it("each lab has its sources, and no source is without its lab", () => {
  expect(Object.keys(sources).toSorted()).toEqual(labs.map(({ id }) => id).toSorted());
  for (const { url } of Object.values(sources).flat()) expect(url ?? "https:").toMatch(/^https:/u);
});
