/**
 * Labs: reproduces every published result. `npm test` makes a quarter of the runs, and `npm run test:long`
 * makes all of them: fewer runs widen the tolerance of a sampled row. `REDRIVE_LAB_SEEDS=1,2,3` runs more
 * seeds, because no result may depend on the seed.
 */
// needs: build
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type LabRow, labs } from "@redrive/simulator";
import { describe, expect, it } from "vitest";

const SCRIPT = fileURLToPath(new URL("./run-lab.mjs", import.meta.url));

const EFFORT = Number(process.env["REDRIVE_LAB_EFFORT"] ?? 0.25);
const SEEDS = process.env["REDRIVE_LAB_SEEDS"]?.split(",").map(Number);
/** A row of this lab once depended on the seed, and failed with this one. */
const KNOWN: Readonly<Record<string, number>> = { metastable: 3 };

const cases = labs.flatMap(({ id }) =>
  (SEEDS ?? [KNOWN[id] ?? 1]).map((seed) => [id, seed] as const),
);

describe("labs", () => {
  it.each(cases)("%s with seed %d", { timeout: 900_000 }, async (id, seed) => {
    const args = [SCRIPT, id, String(seed), String(EFFORT)];
    const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 1e8 });
    const rows: readonly LabRow[] = JSON.parse(stdout);
    expect(rows.filter((row) => !row.ok && row.deviation === undefined)).toEqual([]);
    expect(rows.length).toBeGreaterThan(0);
  });
});
