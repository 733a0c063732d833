/** Lab chart: rows grouped by measure, and the sources of every lab. */
import { type LabRow, labs } from "@redrive/simulator";
import type { NumberRow } from "@redrive/simulator/text";
import { describe, expect, it } from "vitest";
import { measuresOf, needsLog, partsOf } from "./lab-chart.tsx";
import { sources } from "./lab-panel.tsx";

function row(published: number, ours: number, tolerance: LabRow["tolerance"]): NumberRow {
  return { what: "a: b", published, ours, tolerance, basis: "stated", ok: true };
}

describe("measures", () => {
  it("come after the last colon, without the published text", () => {
    expect(partsOf("full, window b: higher than the comb: peak")).toEqual({
      label: "full, window b: higher than the comb",
      measure: "peak",
    });
    expect(partsOf("3 retries: share lost (published: never recovers)").measure).toBe("share lost");
    expect(partsOf("order by time")).toEqual({ label: "order by time", measure: "" });
  });

  it("contain every number once, in the order of their measures", () => {
    const exactly = { kind: "same" } as const;
    const rows: LabRow[] = ["a: calls", "a: ms", "b: calls"].map((what) => ({
      ...row(1, 1, exactly),
      what,
    }));
    const textRow: LabRow = { ...row(1, 1, exactly), published: "never", ours: "never" };
    expect(
      measuresOf([...rows, textRow]).map(({ name, rows: those }) => [
        name,
        those.map(({ label }) => label),
      ]),
    ).toEqual([
      ["calls", ["a", "b"]],
      ["ms", ["a"]],
    ]);
  });

  it("use a logarithmic scale only if small values would vanish", () => {
    const exactly = { kind: "relative", share: 0 } as const;
    const of = (...values: number[]) => ({
      name: "",
      rows: values.map((value) => ({ ...row(value, value, exactly), label: "" })),
    });
    expect([of(1, 39), of(1, 40), of(0, 1000)].map(needsLog)).toEqual([false, true, false]);
  });
});

it("each lab has sources, and each source belongs to a lab", () => {
  expect(Object.keys(sources).toSorted()).toEqual(labs.map(({ id }) => id).toSorted());
  for (const { url } of Object.values(sources).flat()) expect(url ?? "https:").toMatch(/^https:/u);
});
