/** Waits: the table of an inner loop is core's kernel, as a property. */
import { compiledPolicyOf, resolvePolicy } from "@redrive/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { anyPolicy } from "./policy.testing.ts";
import { nextWait, waitsOf } from "./waits.ts";

describe("waits", () => {
  it("are core's kernel, for every policy, attempt and draw", () => {
    const draw = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(
        anyPolicy,
        fc.integer({ min: 1, max: 40 }),
        fc.nat({ max: 700_000 }),
        fc.nat({ max: 50_000 }),
        draw,
        (document, attempt, elapsedMs, previousMs, chance) => {
          const policy = resolvePolicy(document);
          const expected = compiledPolicyOf(policy).next(attempt, elapsedMs, previousMs, chance);
          expect(nextWait(waitsOf(policy), attempt, elapsedMs, previousMs, chance)).toBe(expected);
        },
      ),
      { numRuns: 2000 },
    );
  });
});
