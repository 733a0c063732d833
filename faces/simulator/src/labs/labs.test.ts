/** Labs: the quick ones reproduce the published results; the others run in test/labs. */
import { describe, expect, it } from "vitest";
import { explained, type LabRow, sampled, within } from "./lab.ts";
import { labs, runLab } from "./labs.ts";

/** The quick labs; the others run in test/labs. */
const QUICK = ["coverage", "budgets"];

const isMiss = (row: LabRow) => !row.ok && row.deviation === undefined;

describe("labs", () => {
  it.each(QUICK)("%s reproduces the published results within their tolerances", (id) => {
    const { rows, ok } = runLab(id, { seed: 1, effort: 0.2 });
    expect(rows.filter(isMiss)).toEqual([]);
    expect(ok).toBe(true);
  });

  it("occ reproduces them with few runs too", () => {
    const { rows } = runLab("occ", { seed: 1, effort: 0.2 });
    expect(rows.filter(isMiss)).toEqual([]);
  });

  it("derive a tolerance from the variation between runs if no source states one", () => {
    // The mean of 4 runs is 10, their variance 2/3: five standard errors of the difference to 200 runs.
    const row = sampled("x", 11, 0.1, [9, 10, 10, 11]);
    const by = 5 * Math.sqrt(2 / 3 / 4 + 2 / 3 / 200) + 0.05;
    expect(row).toMatchObject({ ours: 10, ok: true, basis: "sampling", runs: 4 });
    expect(row.tolerance).toEqual({ kind: "absolute", by: expect.closeTo(by, 12) });
    expect(sampled("x", 10, 0.1, [10.2, 10.2]).deviation).toMatch(/^2 % off: more than random/);
    expect(sampled("x", 10, 0.1, [12, 12])).toMatchObject({ ok: false });
    expect(sampled("x", 10, 0.1, [12, 12]).deviation).toBeUndefined();
  });

  it("accept a row outside its tolerance only if it has an explanation", () => {
    const missed = within("x", 1, 2, 0.5);
    expect([missed, explained(missed, "why")].map(isMiss)).toEqual([true, false]);
    expect(explained(within("x", 1, 1, 0.5), "why").deviation).toBeUndefined();
  });

  it("each have a source and a lesson", () => {
    for (const lab of labs) {
      expect(lab.source.length, lab.id).toBeGreaterThan(10);
      expect(lab.lesson, lab.id).toMatch(/\.$/);
    }
    expect(new Set(labs.map((lab) => lab.id)).size).toBe(labs.length);
  });

  it("reject an unknown id with a suggestion", () => {
    expect(() => runLab("ocd")).toThrow('unknown lab "ocd", did you mean "occ"?');
    expect(() => runLab("xyzzy-lab")).toThrow("one of occ, herd");
  });
});
