/**
 * Labs: reproduces every published result with its full number of runs. One seed takes two minutes
 * on one core. `REDRIVE_LAB_SEEDS=1,2,3` runs more seeds, because no result may depend on the seed.
 */
import { labs, runLab } from "@redrive/simulator";
import { describe, expect, it } from "vitest";

const SEEDS = (process.env["REDRIVE_LAB_SEEDS"] ?? "1").split(",").map(Number);
/** A row of this lab once depended on the seed. */
const KNOWN = [["metastable", 3]] as const;

const cases = [...SEEDS.flatMap((seed) => labs.map(({ id }) => [id, seed] as const)), ...KNOWN];

describe("labs", () => {
  it.each(cases)("%s with seed %d", { timeout: 900_000 }, (id, seed) => {
    const { rows } = runLab(id, { seed });
    expect(rows.filter((row) => !row.ok && row.deviation === undefined)).toEqual([]);
    expect(rows.length).toBeGreaterThan(0);
  });
});
