/** Replays the seed in REDRIVE_SEED and prints its coverage. */
import { describe, it } from "vitest";
import { Coverage } from "./coverage.ts";
import { simulateSeed } from "./simulate.ts";

const seed = process.env["REDRIVE_SEED"];

describe("replay", () => {
  // skipped: without REDRIVE_SEED there is nothing to replay
  it.runIf(seed !== undefined)(`seed ${seed}`, async () => {
    const coverage = new Coverage();
    await simulateSeed(Number(seed), { coverage });
    console.log(coverage.report());
  });

  it("gives the same run for the same seed", async () => {
    const steps: string[] = [];
    for (let run = 0; run < 2; run++) {
      const coverage = new Coverage();
      await simulateSeed(7, { coverage });
      steps.push(`${coverage.totals.steps} ${coverage.report()}`);
    }
    if (steps[0] !== steps[1]) throw new Error("two runs of one seed differ");
  });
});
