/** Tests of the simulation itself: it finds each removed safeguard within a thousand seeds. */
import { describe, expect, it } from "vitest";
import { Coverage } from "./coverage.ts";
import { mutants } from "./mutants.ts";
import { simulateSeed } from "./simulate.ts";

const MAX_SEEDS = 1000;

describe("the simulation finds a service with", () => {
  it.each(mutants)("$name", { timeout: 300_000 }, async (mutant) => {
    const coverage = new Coverage();
    for (let seed = 0; seed < MAX_SEEDS; seed++) {
      const found = await simulateSeed(seed, { coverage, mutant }).then(
        () => undefined,
        (error: Error) => error.message,
      );
      if (found === undefined) continue;
      console.log(`${mutant.name}: found by seed ${seed}: ${found.split("\n")[0]}`);
      const { caughtBy, orBy = caughtBy } = mutant;
      expect(
        [caughtBy, orBy].some((name) => found.includes(name)),
        found,
      ).toBe(true);
      return;
    }
    expect.fail(`not found within ${MAX_SEEDS} seeds`);
  });
});
