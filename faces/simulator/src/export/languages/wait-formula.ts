/**
 * Wait formula: the wait of a policy after a failed attempt, as expressions of a programming language. The
 * formula exists once; a language only says how it writes numbers, functions and lists. So the code for
 * every language has the waits of Redrive.
 */
import type { Policy } from "@redrive/core";

/** How a language writes the parts of the formula. All values are floating-point numbers. */
export interface Syntax {
  number(value: number): string;
  floor(value: string): string;
  /** The smaller one. */
  min(left: string, right: string): string;
  /** The larger one. */
  max(left: string, right: string): string;
  /** A power with a whole exponent, at most `limit`: from there on, the maximum of the wait holds. */
  power(base: string, exponent: string, limit: number): string;
  /** An entry of a list. `position` is its position plus one; the last entry if there are fewer. */
  entry(numbers: readonly string[], position: string): string;
  /** The number of the failed attempt, as an integer and as a floating-point number. */
  readonly failed: string;
  readonly failedNumber: string;
}

export interface WaitFormula {
  /** The maximum of the wait, in milliseconds. */
  readonly ceiling: string;
  /** The wait in whole milliseconds. Uses the names `ceiling`, `draw` (from 0 to below 1) and `previous`. */
  readonly wait: string;
  /** The wait depends on a random number. */
  readonly draws: boolean;
  /** The wait depends on the one before it, in milliseconds, which is 0 at first. */
  readonly usesPrevious: boolean;
}

export function waitFormula(policy: Policy, syntax: Syntax): WaitFormula {
  const { jitterType } = policy;
  return {
    ceiling: ceilingOf(policy, syntax),
    wait: pickOf(policy, syntax),
    draws: jitterType !== "NONE",
    usesPrevious: jitterType === "DECORRELATED",
  };
}

function ceilingOf(policy: Policy, syntax: Syntax): string {
  const { number, floor, min, failed, failedNumber } = syntax;
  if (policy.delaysMs !== undefined) return syntax.entry(policy.delaysMs.map(number), failed);
  const { backoff, initialDelayMs, multiplier, maxDelayMs } = policy;
  const first = number(initialDelayMs);
  if (backoff === "FIXED" || initialDelayMs === 0) return first;
  const limit = stepsToMax(policy);
  const growth =
    backoff === "LINEAR" ? failedNumber : syntax.power(number(multiplier), `${failed} - 1`, limit);
  return floor(min(number(maxDelayMs), `${first} * ${growth}`));
}

/** After how many multiplications the maximum is reached; at most 1000, which is the most attempts. */
function stepsToMax({ initialDelayMs = 0, multiplier = 1, maxDelayMs = 0 }: Policy): number {
  let steps = 0;
  for (let ms = initialDelayMs; ms < maxDelayMs && steps < 1000; steps++) ms *= multiplier;
  return steps;
}

function pickOf(policy: Policy, { number, floor, min, max }: Syntax): string {
  const one = number(1);
  const between = (low: string, count: string) => `${low} + ${floor(`draw * (${count})`)}`;
  switch (policy.jitterType) {
    case "NONE":
      return "ceiling";
    case "FULL":
      return floor(`draw * (ceiling + ${one})`);
    case "EQUAL": {
      const half = floor(`ceiling / ${number(2)}`);
      return between(half, `ceiling - ${half} + ${one}`);
    }
    case "PROPORTIONAL": {
      const spread = floor(`ceiling * ${number(policy.jitterRatio)}`);
      return between(`ceiling - ${spread}`, `${number(2)} * ${spread} + ${one}`);
    }
    case "DECORRELATED": {
      const { initialDelayMs = 0, maxDelayMs = 0 } = policy;
      const first = number(initialDelayMs);
      const top = min(number(maxDelayMs), `${max(first, "previous")} * ${number(3)}`);
      return between(first, `${max(first, top)} - ${first} + ${one}`);
    }
  }
}

/** The formula for a library that does not know the wait before: full jitter replaces DECORRELATED. */
export function statelessFormula(policy: Policy, syntax: Syntax): WaitFormula {
  const isStateless = policy.jitterType !== "DECORRELATED";
  return waitFormula(isStateless ? policy : { ...policy, jitterType: "FULL" }, syntax);
}

/** A floating-point number in languages where `1` is an integer. */
export function floatLiteral(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

/** `Math.min(a, b)` and so on, as Java and JavaScript write it. */
export function functionSyntax(
  names: Readonly<Record<"floor" | "min" | "max" | "power", string>>,
): Pick<Syntax, "floor" | "min" | "max" | "power"> {
  return {
    floor: (value) => `${names.floor}(${value})`,
    min: (left, right) => `${names.min}(${left}, ${right})`,
    max: (left, right) => `${names.max}(${left}, ${right})`,
    power: (base, exponent) => `${names.power}(${base}, ${exponent})`,
  };
}
