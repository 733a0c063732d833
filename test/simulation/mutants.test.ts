/** Tests of the simulation itself: it finds each removed safeguard within a thousand seeds. */
import { describe, expect, it } from "vitest";
import { Coverage } from "./coverage.ts";
import type { Mutant } from "./mutant.ts";
import { mutants } from "./mutants.ts";
import { simulateSeed } from "./simulate.ts";
import { withoutStackTraces } from "./stack-traces.ts";

const MAX_SEEDS = 1000;

/** After a change to the service, another seed may be the first that finds a mutant. */
function* seedsFor({ foundBy = 0 }: Mutant): Generator<number> {
  yield foundBy;
  for (let seed = 0; seed < MAX_SEEDS; seed++) yield seed;
}

/** The violation that the first seed finds. */
async function find(mutant: Mutant): Promise<string> {
  const coverage = new Coverage();
  for (const seed of seedsFor(mutant)) {
    const found = await simulateSeed(seed, { coverage, mutant }).then(
      () => undefined,
      (error: Error) => error.message,
    );
    if (found === undefined) continue;
    console.log(`${mutant.name}: found by seed ${seed}: ${found.split("\n")[0]}`);
    return found;
  }
  return `not found within ${MAX_SEEDS} seeds`;
}

describe("the simulation finds a service with", () => {
  it.each(mutants)("$name", { timeout: 300_000 }, async (mutant) => {
    const found = await withoutStackTraces(() => find(mutant));
    const { caughtBy, orBy = caughtBy } = mutant;
    expect(
      [caughtBy, orBy].some((name) => found.includes(name)),
      found,
    ).toBe(true);
  });
});
