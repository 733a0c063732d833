/** Tests of the ratio budget, against a model that keeps every instant in a list. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  countRatioFirstAttempt,
  createRatioBudget,
  RATIO_BUDGET_DEFAULTS,
  type RatioBudgetOptions,
  ratioAllows,
  ratioRefillAt,
  returnRatioToken,
  takeRatioToken,
} from "./ratio-budget.ts";

const T0 = 1_700_000_000_000;

function budgetOf(options: Partial<RatioBudgetOptions>) {
  return createRatioBudget({ ...RATIO_BUDGET_DEFAULTS, ...options }, T0);
}

/** Takes retries until one is refused. */
function drain(budget: ReturnType<typeof budgetOf>, now: number): number {
  let taken = 0;
  for (; ratioAllows(budget, now); taken++) takeRatioToken(budget);
  return taken;
}

/** The rule itself, with exact instants. */
function exactAllowance(options: RatioBudgetOptions, firsts: number): number {
  return options.ratio * firsts + (options.minPerSecond * options.windowMs) / 1000;
}

const within = (list: readonly number[], fromExclusive: number) =>
  list.filter((at) => at > fromExclusive).length;

const anyOptions: fc.Arbitrary<RatioBudgetOptions> = fc.record({
  kind: fc.constant("RATIO"),
  ratio: fc.constantFrom(0, 0.1, 0.2, 0.5, 1, 3),
  minPerSecond: fc.constantFrom(0, 0.5, 1, 10),
  windowMs: fc.constantFrom(100, 1000, 1234, 10_000),
});

const anySteps = fc.array(
  fc.record({
    gapMs: fc.oneof(fc.nat(20), fc.nat(400), fc.nat(12_000)),
    firsts: fc.nat(6),
    retries: fc.nat(6),
    succeeds: fc.boolean(),
  }),
  { maxLength: 50 },
);

describe("the bound", () => {
  test("holds in every window that ends at a retry, and no retry is refused that two tenths allow", () => {
    fc.assert(
      fc.property(anyOptions, anySteps, (options, steps) => {
        const budget = createRatioBudget(options, T0);
        const { windowMs } = options;
        const firsts: number[] = [];
        const retries: number[] = [];
        let now = T0;
        for (const step of steps) {
          now += step.gapMs;
          for (let n = 0; n < step.firsts; n++) {
            countRatioFirstAttempt(budget, now);
            firsts.push(now);
          }
          for (let n = 0; n < step.retries; n++) {
            const exact = exactAllowance(options, within(firsts, now - windowMs));
            const strict = exactAllowance(options, within(firsts, now - 0.9 * windowMs));
            const allowed = ratioAllows(budget, now);
            if (allowed) expect(within(retries, now - windowMs) + 1).toBeLessThanOrEqual(exact);
            else expect(within(retries, now - 1.1 * windowMs - 1) + 1).toBeGreaterThan(strict);
            if (!allowed) break;
            const ticket = takeRatioToken(budget);
            expect(ticket).toBeGreaterThan(0);
            // A retry that is returned does not count, in the budget and in the model.
            if (step.succeeds) returnRatioToken(budget, ticket);
            else retries.push(now);
          }
        }
      }),
      { numRuns: 120 },
    );
  });

  test("100 first attempts allow 20 retries by the ratio and 10 by the minimum", () => {
    const budget = budgetOf({});
    for (let n = 0; n < 100; n++) countRatioFirstAttempt(budget, T0);
    expect(drain(budget, T0)).toBe(30);
  });

  test("a quiet destination may retry by the minimum alone, once per second", () => {
    expect(drain(budgetOf({}), T0)).toBe(10);
    expect(drain(budgetOf({ minPerSecond: 0.3 }), T0)).toBe(3);
    expect(drain(budgetOf({ minPerSecond: 0 }), T0)).toBe(0);
  });

  test("first attempts count for at most the window, retries for at least it", () => {
    const budget = budgetOf({ ratio: 1, minPerSecond: 0 });
    countRatioFirstAttempt(budget, T0);
    expect(ratioAllows(budget, T0 + 9999)).toBe(true);
    expect(ratioAllows(budget, T0 + 10_000)).toBe(false);
    countRatioFirstAttempt(budget, T0 + 10_000);
    expect(drain(budget, T0 + 10_000)).toBe(1);
    countRatioFirstAttempt(budget, T0 + 20_999);
    expect(ratioAllows(budget, T0 + 20_999)).toBe(false);
    expect(ratioAllows(budget, T0 + 21_000)).toBe(true);
  });
});

describe("returning", () => {
  test("a returned ticket frees its token, not before, and not after its window", () => {
    const budget = budgetOf({ ratio: 0, minPerSecond: 0.1 });
    ratioAllows(budget, T0);
    const ticket = takeRatioToken(budget);
    expect(ratioAllows(budget, T0 + 5000)).toBe(false);
    returnRatioToken(budget, ticket);
    expect(ratioAllows(budget, T0 + 5000)).toBe(true);
    takeRatioToken(budget);
    returnRatioToken(budget, ticket);
    expect(ratioAllows(budget, T0 + 14_000)).toBe(false);
  });
});

describe("when to check again", () => {
  test("an empty budget names the instant at which its oldest retries leave", () => {
    const budget = budgetOf({ ratio: 0, minPerSecond: 0.2 });
    expect(drain(budget, T0)).toBe(2);
    expect(ratioRefillAt(budget, T0 + 1500)).toBe(T0 + 11_000);
    expect(ratioAllows(budget, T0 + 10_999)).toBe(false);
    expect(ratioAllows(budget, T0 + 11_000)).toBe(true);
  });

  test("a budget without minimum and first attempts is checked again when its window is over", () => {
    const budget = budgetOf({ minPerSecond: 0 });
    expect(ratioRefillAt(budget, T0)).toBe(T0 + 11_000);
  });

  test("is always after now, and earlier checks fail unless first attempts come", () => {
    fc.assert(
      fc.property(anyOptions, fc.array(fc.nat(3000), { maxLength: 20 }), (options, gaps) => {
        const budget = createRatioBudget({ ...options, ratio: 0 }, T0);
        let now = T0;
        for (const gap of gaps) {
          now += gap;
          drain(budget, now);
          const at = ratioRefillAt(budget, now);
          expect(at).toBeGreaterThan(now);
          expect(at).toBeLessThanOrEqual(now + 1.1 * options.windowMs + 1);
          expect(ratioAllows(budget, at - 1)).toBe(false);
          if (options.minPerSecond * options.windowMs >= 1000) {
            expect(ratioAllows(budget, at)).toBe(true);
          }
          now = at;
        }
      }),
    );
  });
});
