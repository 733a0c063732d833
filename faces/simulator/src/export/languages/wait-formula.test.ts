/** The wait formula gives the waits of Redrive. JavaScript evaluates it here, as any language would. */
import { compilePolicy, resolvePolicy } from "@redrive/core";
import fc from "fast-check";
import { expect, test } from "vitest";
import { anyPolicy } from "../../schedule/policy.testing.ts";
import { functionSyntax, type Syntax, statelessFormula, waitFormula } from "./wait-formula.ts";

const syntax: Syntax = {
  ...functionSyntax({
    floor: "Math.floor",
    min: "Math.min",
    max: "Math.max",
    power: "Math.pow",
  }),
  number: String,
  entry: (numbers, position) => `[${numbers}][Math.min(${position}, ${numbers.length}) - 1]`,
  failed: "failed",
  failedNumber: "failed",
};

test("it is the wait of Redrive after every attempt, for every draw and previous wait", () => {
  fc.assert(
    fc.property(
      anyPolicy,
      fc.integer({ min: 1, max: 40 }),
      fc.nat(200_000),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (document, failed, previous, draw) => {
        const policy = resolvePolicy(document);
        const { ceiling, wait } = waitFormula(policy, syntax);
        const names = ["failed", "previous", "draw"];
        const evaluate = new Function(...names, `const ceiling = ${ceiling}; return ${wait};`);
        const expected = compilePolicy(policy).delayMs(failed, previous, draw);
        // A power may be rounded differently, which moves a whole number of milliseconds by one.
        expect(Math.abs(evaluate(failed, previous, draw) - expected)).toBeLessThanOrEqual(2);
      },
    ),
  );
});

test("without the previous wait, full jitter replaces decorrelated jitter", () => {
  const policy = resolvePolicy({ jitterType: "DECORRELATED" });
  expect(waitFormula(policy, syntax).usesPrevious).toBe(true);
  const full = waitFormula(resolvePolicy({ jitterType: "FULL" }), syntax);
  expect(statelessFormula(policy, syntax)).toEqual(full);
});
