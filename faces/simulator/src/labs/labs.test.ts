/** Labs: the quick ones reproduce what was published; the others are in test/labs. */
import { describe, expect, it } from "vitest";
import { labs, runLab } from "./labs.ts";

/** Quick ones; the others run in test/labs. */
const QUICK = ["herd", "coverage", "failover", "budgets"];

describe("labs", () => {
  it.each(QUICK)("%s reproduces what was published, within its tolerance", (id) => {
    const { rows, ok } = runLab(id, { seed: 1 });
    expect(rows.filter((row) => !row.ok)).toEqual([]);
    expect(ok).toBe(true);
  });

  it("occ comes out with few runs too", () => {
    const { rows } = runLab("occ", { seed: 1, effort: 0.2 });
    expect(rows.filter((row) => !row.ok)).toEqual([]);
  });

  it("each names its source and its lesson", () => {
    for (const lab of labs) {
      expect(lab.source.length, lab.id).toBeGreaterThan(10);
      expect(lab.lesson, lab.id).toMatch(/\.$/);
    }
    expect(new Set(labs.map((lab) => lab.id)).size).toBe(labs.length);
  });

  it("refuses an unknown id with a guess", () => {
    expect(() => runLab("ocd")).toThrow('unknown lab "ocd", did you mean "occ"?');
    expect(() => runLab("xyzzy-lab")).toThrow("one of occ, herd");
  });
});
