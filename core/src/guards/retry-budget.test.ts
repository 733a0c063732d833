/**
 * Tests of the three retry budgets: what each grants, takes, returns and saves.
 * Tests of the ratio budget, against a model that keeps every instant in a list.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { expectGarbageRefused } from "../documents/saved-state.testing.ts";
import {
  budgetAllows,
  budgetReadyAt,
  budgetRefillAt,
  countFirstAttempt,
  countRatioFirstAttempt,
  createRatioBudget,
  createRetryBudget,
  GRPC_BUDGET_DEFAULTS,
  RATIO_BUDGET_DEFAULTS,
  type RatioBudgetOptions,
  RECHECK_MS,
  type RetryBudget,
  type RetryBudgetOptions,
  ratioAllows,
  ratioRefillAt,
  recordBudgetFailure,
  recordBudgetSuccess,
  restoreRetryBudget,
  returnRatioToken,
  returnRetryToken,
  saveRetryBudget,
  TOKEN_BUDGET_DEFAULTS,
  TRIAL_EVERY_MS,
  takeRatioToken,
  takeRetryToken,
  uncountFirstAttempt,
} from "./retry-budget.ts";

describe("retry budget", () => {
  const T0 = 1_700_000_000_000;
  const ALL: readonly RetryBudgetOptions[] = [
    RATIO_BUDGET_DEFAULTS,
    TOKEN_BUDGET_DEFAULTS,
    GRPC_BUDGET_DEFAULTS,
  ];

  function drain(budget: RetryBudget, throttled = false): number {
    let taken = 0;
    while (takeRetryToken(budget, T0, throttled) > 0) taken++;
    return taken;
  }

  const tokensOf = (budget: RetryBudget) => saveRetryBudget(budget).tokens;

  describe("TOKENS, as the AWS SDKs count", () => {
    const create = () => createRetryBudget(TOKEN_BUDGET_DEFAULTS, T0);

    test("without success there are 35 transient or 100 throttling retries, then none", () => {
      expect(drain(create())).toBe(35);
      expect(drain(create(), true)).toBe(100);
    });

    test("a ticket is the cost, and a retry that succeeds returns it", () => {
      const budget = create();
      const ticket = takeRetryToken(budget, T0, false);
      const throttledTicket = takeRetryToken(budget, T0, true);
      expect([ticket, throttledTicket, tokensOf(budget)]).toEqual([14, 5, 481]);
      recordBudgetSuccess(budget, ticket, false);
      expect(tokensOf(budget)).toBe(495);
      recordBudgetSuccess(budget, throttledTicket, true);
      expect(tokensOf(budget)).toBe(500);
    });

    test("the success of a first attempt adds one, and the bucket never overflows", () => {
      const budget = create();
      drain(budget);
      recordBudgetSuccess(budget, 0, false);
      expect(tokensOf(budget)).toBe(500 - 35 * 14 + 1);
      for (let n = 0; n < 1000; n++) recordBudgetSuccess(budget, 0, true);
      expect(tokensOf(budget)).toBe(500);
    });

    test("failures and first attempts cost nothing, and time refills nothing", () => {
      const budget = create();
      drain(budget);
      recordBudgetFailure(budget);
      countFirstAttempt(budget, T0);
      expect(tokensOf(budget)).toBe(10);
      expect(budgetAllows(budget, T0 + 3_600_000, false)).toBe(false);
      expect(budgetAllows(budget, T0, true)).toBe(true);
      expect(budgetRefillAt(budget, T0)).toBe(T0 + RECHECK_MS);
    });

    test("in the steady state one call in 15 may be a retry that fails", () => {
      const budget = create();
      drain(budget);
      let retries = 0;
      for (let n = 0; n < 1400; n++) {
        recordBudgetSuccess(budget, 0, false);
        if (takeRetryToken(budget, T0, false) > 0) retries++;
      }
      expect(retries).toBe(100);
    });
  });

  describe("GRPC, as gRFC A6 counts", () => {
    const create = () => createRetryBudget(GRPC_BUDGET_DEFAULTS, T0);
    const fail = (budget: RetryBudget, times: number) => {
      for (let n = 0; n < times; n++) recordBudgetFailure(budget);
    };

    test("retries are allowed only above half of the tokens, and take none themselves", () => {
      const budget = create();
      fail(budget, 4);
      expect(takeRetryToken(budget, T0, false)).toBe(1);
      expect(takeRetryToken(budget, T0, true)).toBe(1);
      expect(tokensOf(budget)).toBe(6000);
      fail(budget, 1);
      expect(takeRetryToken(budget, T0, false)).toBe(0);
    });

    test("ten successes of a tenth are exactly one token: half is still not above half", () => {
      const budget = create();
      fail(budget, 6);
      for (let n = 0; n < 10; n++) recordBudgetSuccess(budget, 0, false);
      expect(budgetAllows(budget, T0, false)).toBe(false);
      recordBudgetSuccess(budget, 1, false);
      expect(tokensOf(budget)).toBe(5100);
      expect(budgetAllows(budget, T0, false)).toBe(true);
    });

    test("tokens stay from 0 to the maximum", () => {
      const budget = create();
      recordBudgetSuccess(budget, 0, false);
      expect(tokensOf(budget)).toBe(10_000);
      fail(budget, 25);
      expect(tokensOf(budget)).toBe(0);
      expect(budgetRefillAt(budget, T0)).toBe(T0 + RECHECK_MS);
    });

    test("the budget limits hedges too: 6 failing hedged calls with 4 tokens send 7 attempts, not 24", () => {
      const budget = createRetryBudget({ kind: "GRPC", maxTokens: 4, tokenRatio: 0.1 }, T0);
      let sent = 0;
      for (let call = 0; call < 6; call++) {
        sent++;
        recordBudgetFailure(budget);
        for (let hedge = 0; hedge < 3 && takeRetryToken(budget, T0, false) > 0; hedge++) {
          sent++;
          recordBudgetFailure(budget);
        }
      }
      expect(sent).toBe(7);
    });
  });

  describe("RATIO", () => {
    test("a retry that succeeds is forgotten for a patient caller only", () => {
      for (const patient of [true, false]) {
        const budget = createRetryBudget({ ...RATIO_BUDGET_DEFAULTS, minPerSecond: 0.1 }, T0);
        recordBudgetSuccess(budget, takeRetryToken(budget, T0, false), patient);
        expect(budgetAllows(budget, T0, false)).toBe(patient);
      }
    });

    test("first attempts allow more retries, their success and failure do not", () => {
      const budget = createRetryBudget({ ...RATIO_BUDGET_DEFAULTS, ratio: 1, minPerSecond: 0 }, T0);
      recordBudgetSuccess(budget, 0, true);
      recordBudgetFailure(budget);
      expect(drain(budget)).toBe(0);
      countFirstAttempt(budget, T0);
      countFirstAttempt(budget, T0);
      expect(drain(budget)).toBe(2);
      expect(budgetRefillAt(budget, T0)).toBe(T0 + 11_000);
    });

    test("two destinations can share one budget", () => {
      const shared = createRetryBudget({ ...RATIO_BUDGET_DEFAULTS, minPerSecond: 0 }, T0);
      for (let n = 0; n < 5; n++) countFirstAttempt(shared, T0);
      expect(takeRetryToken(shared, T0, false)).toBeGreaterThan(0);
      expect(takeRetryToken(shared, T0, false)).toBe(0);
    });
  });

  test.each(ALL)(
    "$kind: returning a ticket restores what it took, and a refusal has no ticket",
    (options) => {
      const budget = createRetryBudget(options, T0);
      const before = saveRetryBudget(budget);
      returnRetryToken(budget, takeRetryToken(budget, T0, false));
      returnRetryToken(budget, takeRetryToken(budget, T0, true));
      returnRetryToken(budget, 0);
      expect(saveRetryBudget(budget)).toEqual(before);
    },
  );

  describe("a first attempt that was never sent", () => {
    test.each(ALL)("$kind: no longer counts", (options) => {
      const budget = createRetryBudget(options, T0);
      const before = saveRetryBudget(budget);
      uncountFirstAttempt(budget, countFirstAttempt(budget, T0));
      expect(saveRetryBudget(budget)).toEqual(before);
    });

    test("is removed only from the bucket in which it was counted", () => {
      const budget = createRetryBudget({ ...RATIO_BUDGET_DEFAULTS, ratio: 1, minPerSecond: 0 }, T0);
      const ticket = countFirstAttempt(budget, T0);
      countFirstAttempt(budget, T0 + 5000);
      uncountFirstAttempt(budget, ticket);
      uncountFirstAttempt(budget, ticket);
      expect(budgetAllows(budget, T0 + 5000, false)).toBe(true);
      expect(budgetAllows(budget, T0 + 14_999, false)).toBe(true);
    });
  });

  describe("trials of an empty budget", () => {
    const empty = () => {
      const budget = createRetryBudget(TOKEN_BUDGET_DEFAULTS, T0);
      drain(budget);
      return budget;
    };
    const take = (budget: RetryBudget, now: number) => takeRetryToken(budget, now, false, true);

    test("a patient caller gets one per second, a fail-fast caller gets none", () => {
      const budget = empty();
      expect(takeRetryToken(budget, T0, false)).toBe(0);
      expect(budgetReadyAt(budget, T0, false, false)).toBe(T0 + RECHECK_MS);
      expect(budgetReadyAt(budget, T0, false, true)).toBe(T0);
      expect(take(budget, T0)).toBeLessThan(0);
      expect(take(budget, T0 + TRIAL_EVERY_MS - 1)).toBe(0);
      expect(budgetReadyAt(budget, T0 + 1, false, true)).toBe(T0 + TRIAL_EVERY_MS);
      expect(take(budget, T0 + TRIAL_EVERY_MS)).toBeLessThan(0);
    });

    test("a returned trial may be granted again; returning an older one changes nothing", () => {
      const budget = empty();
      const older = take(budget, T0);
      const newer = take(budget, T0 + 1000);
      returnRetryToken(budget, older);
      expect(take(budget, T0 + 1001)).toBe(0);
      returnRetryToken(budget, newer);
      expect(take(budget, T0 + 1001)).toBeLessThan(0);
      expect(tokensOf(budget)).toBe(10);
    });

    test("a clock set back by an hour stops them for a second, not for an hour", () => {
      const budget = empty();
      take(budget, T0);
      const back = T0 - 3_600_000;
      expect(budgetReadyAt(budget, back, false, true)).toBe(back + 1000);
      expect(take(budget, back + 1000)).toBeLessThan(0);
    });

    test("the success of a trial refills like that of a first attempt", () => {
      const budget = empty();
      recordBudgetSuccess(budget, take(budget, T0), true);
      expect(tokensOf(budget)).toBe(11);
      const ratio = createRetryBudget({ ...RATIO_BUDGET_DEFAULTS, minPerSecond: 0 }, T0);
      const before = saveRetryBudget(ratio);
      recordBudgetSuccess(ratio, take(ratio, T0), true);
      expect(saveRetryBudget(ratio)).toEqual(before);
    });
  });

  describe("save and restore", () => {
    test.each(ALL)("$kind: a restored budget grants the same as the saved one", (options) => {
      const anyEvents = fc.array(fc.nat(5), { maxLength: 80 });
      fc.assert(
        fc.property(anyEvents, (events) => {
          const budget = createRetryBudget(options, T0);
          const run = (target: RetryBudget, from: number) =>
            events.map((event, n) => {
              const now = from + 90 * n;
              if (event === 0) countFirstAttempt(target, now);
              if (event === 1) recordBudgetFailure(target);
              if (event === 2) recordBudgetSuccess(target, 0, false);
              return event > 2 ? takeRetryToken(target, now, event === 5) : -1;
            });
          run(budget, T0);
          const saved = JSON.parse(JSON.stringify(saveRetryBudget(budget)));
          const restored = restoreRetryBudget(options, saved, T0 + 9000);
          expect(run(restored, T0 + 9000)).toEqual(run(budget, T0 + 9000));
        }),
      );
    });

    test("a budget saved as another kind starts fresh, a smaller bucket overflows", () => {
      const saved = saveRetryBudget(createRetryBudget(TOKEN_BUDGET_DEFAULTS, T0));
      expect(tokensOf(restoreRetryBudget(GRPC_BUDGET_DEFAULTS, saved, T0))).toBe(10_000);
      const smaller = { ...TOKEN_BUDGET_DEFAULTS, maxTokens: 99 };
      expect(tokensOf(restoreRetryBudget(smaller, saved, T0))).toBe(99);
      const full = saveRetryBudget(createRetryBudget(GRPC_BUDGET_DEFAULTS, T0));
      const smallest = { ...GRPC_BUDGET_DEFAULTS, maxTokens: 3 };
      expect(tokensOf(restoreRetryBudget(smallest, full, T0))).toBe(3000);
    });

    test("garbage is refused by name", () => {
      const saved = saveRetryBudget(createRetryBudget(RATIO_BUDGET_DEFAULTS, T0));
      expectGarbageRefused("retryBudget", saved, (value) =>
        restoreRetryBudget(RATIO_BUDGET_DEFAULTS, value, T0),
      );
    });
  });
});

describe("ratio budget", () => {
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
});
