/** Labs: every published result, with its full number of runs. Two minutes on one core. */
import { labs, runLab } from "@redrive/simulator";
import { describe, expect, it } from "vitest";

describe("labs", () => {
  it.each(labs.map((lab) => lab.id))("%s", { timeout: 180_000 }, (id) => {
    const { rows } = runLab(id, { seed: 1 });
    expect(rows.filter((row) => !row.ok && row.deviation === undefined)).toEqual([]);
    expect(rows.length).toBeGreaterThan(0);
  });
});
