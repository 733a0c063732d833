/** Tests of the retry tokens: both budgets or neither, and the trials of an empty one. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SUCCESS } from "../../decide/outcome.ts";
import { RATIO_BUDGET_DEFAULTS } from "../ratio-budget.ts";
import {
  createRetryBudget,
  GRPC_BUDGET_DEFAULTS,
  type RetryBudget,
  type RetryBudgetOptions,
  saveRetryBudget,
  TOKEN_BUDGET_DEFAULTS,
} from "../retry-budget.ts";
import { BudgetShare, SharedBudget } from "../shared-budget.ts";
import {
  admissionOf,
  always,
  entered,
  FAILED,
  leave,
  patiently,
  RETRY,
  T0,
} from "./admission.testing.ts";
import type { Admission, Permit } from "./admission.ts";
import { type RetryTickets, RetryTokens } from "./retry-tokens.ts";

const TOKENS: RetryBudgetOptions = { ...TOKEN_BUDGET_DEFAULTS, maxTokens: 28 };
const SMALL: RetryBudgetOptions = { ...TOKENS, maxTokens: 14 };
const tokensOf = (budget: RetryBudget | undefined) => budget && saveRetryBudget(budget).tokens;
const holder = (): RetryTickets => ({ ticket: 0, serviceTicket: 0, budget: undefined });

describe("two budgets", () => {
  const both = (own: RetryBudgetOptions, serviceBudget: RetryBudgetOptions) =>
    new RetryTokens(
      createRetryBudget(own, T0),
      new BudgetShare(new SharedBudget(createRetryBudget(serviceBudget, T0)), "tenant"),
    );
  const counts = ({ budget: own, serviceBudget }: RetryTokens) => [
    tokensOf(own),
    tokensOf(serviceBudget?.shared.whole),
  ];

  test("without a budget every retry may be sent, and takes nothing", () => {
    const tokens = new RetryTokens(undefined, undefined);
    const held = holder();
    expect(tokens.readyAt(T0, false, false)).toBe(T0);
    tokens.take(held, true, T0, false, false);
    expect(held).toEqual(holder());
    tokens.handBack(held, true);
    tokens.succeed(held, true, true);
    tokens.fail(T0);
  });

  test("a retry is ready when the later of them is", () => {
    const tokens = both(TOKENS, { ...RATIO_BUDGET_DEFAULTS, ratio: 0, minPerSecond: 0.1 });
    tokens.take(holder(), true, T0, false, false);
    expect(tokens.readyAt(T0, false, false)).toBe(T0 + 11_000);
    const other = both({ ...RATIO_BUDGET_DEFAULTS, ratio: 0, minPerSecond: 0.1 }, TOKENS);
    other.take(holder(), true, T0, false, false);
    expect(other.readyAt(T0, false, false)).toBe(T0 + 11_000);
  });

  test("an attempt that was never sent is returned to both; a first attempt no longer counts in either", () => {
    const tokens = both(TOKENS, SMALL);
    const held = holder();
    tokens.take(held, true, T0, false, false);
    expect(counts(tokens)).toEqual([14, 0]);
    tokens.handBack(held, true);
    expect(counts(tokens)).toEqual([28, 14]);
    const ratio = { ...RATIO_BUDGET_DEFAULTS, ratio: 1, minPerSecond: 0 };
    const counted = both(ratio, ratio);
    counted.take(held, false, T0, false, false);
    expect(counted.readyAt(T0, false, false)).toBe(T0);
    counted.handBack(held, false);
    expect(counted.readyAt(T0, false, false)).toBeGreaterThan(T0);
  });

  test("a successful retry returns its tokens to both, a successful hedge only refills", () => {
    for (const [isRefunded, left] of [
      [true, [28, 14]],
      [false, [15, 1]],
    ] as const) {
      const tokens = both(TOKENS, SMALL);
      const held = holder();
      tokens.take(held, true, T0, false, true);
      tokens.succeed(held, isRefunded, true);
      expect(counts(tokens)).toEqual(left);
    }
  });

  test("a failure costs both budgets a token if failures cost one", () => {
    const tokens = both(GRPC_BUDGET_DEFAULTS, { ...GRPC_BUDGET_DEFAULTS, maxTokens: 2 });
    tokens.fail(T0);
    expect(counts(tokens)).toEqual([9000, 1000]);
    expect(tokens.serviceBudget?.shared.allows("tenant", T0, false)).toBe(false);
  });

  test("a new budget ignores the tickets of the old one", () => {
    const tokens = both(TOKENS, { ...TOKENS, maxTokens: 100 });
    const [sent, unsent] = [holder(), holder()];
    tokens.take(sent, true, T0, false, false);
    tokens.take(unsent, true, T0, false, false);
    tokens.budget = createRetryBudget(SMALL, T0);
    tokens.take(holder(), true, T0, true, false);
    tokens.succeed(sent, true, false);
    tokens.handBack(unsent, true);
    expect(counts(tokens)).toEqual([9, 95]);
  });
});

describe("trial retries", () => {
  const BUDGETS: readonly (readonly [string, RetryBudgetOptions])[] = [
    ["TOKENS", TOKENS],
    ["GRPC", { ...GRPC_BUDGET_DEFAULTS, maxTokens: 2 }],
    ["RATIO without a floor", { ...RATIO_BUDGET_DEFAULTS, minPerSecond: 0 }],
    ["RATIO with a floor below one retry", { ...RATIO_BUDGET_DEFAULTS, minPerSecond: 0.09 }],
  ];
  const CASES = BUDGETS.flatMap(([name, options]) => [
    [`${name} of a destination`, options, false] as const,
    [`${name} of the whole service`, options, true] as const,
  ]);

  /** Failed retries have used up the budget. */
  function emptied(options: RetryBudgetOptions, isWhole: boolean): Admission {
    const serviceBudget = createRetryBudget(options, T0);
    const admission = isWhole
      ? admissionOf({}, undefined, always(0), serviceBudget)
      : admissionOf({ retryBudget: options });
    for (let n = 0; n < 9; n++) {
      const permit = admission.enter(RETRY, undefined, T0);
      if (permit !== undefined) leave(admission, permit, FAILED, T0);
    }
    expect(admission.check(RETRY, undefined, T0)).toBe("retry-budget");
    return admission;
  }

  const anyGaps = fc.array(fc.constantFrom(0, 1, 250, 999, 1000, 1700), { maxLength: 60 });

  test.each(CASES)(
    "%s: at most one per second, and one in each second with a patient caller",
    (_, options, isWhole) => {
      fc.assert(
        fc.property(anyGaps, fc.infiniteStream(fc.nat(3)), (gaps, choices) => {
          const admission = emptied(options, isWhole);
          const sent: number[] = [];
          const unsent: Permit[] = [];
          let now = T0;
          let readyAt = T0;
          for (const gap of gaps) {
            now += gap;
            expect(admission.enter(RETRY, undefined, now)).toBeUndefined();
            const permit = admission.enter(patiently(RETRY), undefined, now);
            // If no trial is handed back, it is granted exactly when it is due.
            if (unsent.length === 0) expect(permit !== undefined).toBe(now >= readyAt);
            if (permit === undefined) {
              expect(admission.heldBy).toBe("retry-budget");
              expect(admission.heldUntil).toBeGreaterThan(now);
              expect(admission.heldUntil).toBeLessThanOrEqual(now + 1000);
            } else if (choices.next().value > 0) {
              sent.push(now);
              leave(admission, permit, FAILED, now);
              readyAt = now + 1000;
            } else unsent.push(permit);
            const back = choices.next().value > 1 ? unsent.shift() : undefined;
            if (back === undefined) continue;
            admission.handBack(back, undefined, now);
            readyAt = (sent.at(-1) ?? T0 - 1000) + 1000;
          }
          for (const [n, at] of sent.entries()) {
            expect(at - (sent[n - 1] ?? 0)).toBeGreaterThanOrEqual(1000);
          }
        }),
        { numRuns: 40 },
      );
    },
  );

  test("a budget that time refills grants no trials", () => {
    const admission = emptied({ ...RATIO_BUDGET_DEFAULTS, minPerSecond: 0.1 }, false);
    expect(admission.enter(patiently(RETRY), undefined, T0)).toBeUndefined();
    expect([admission.heldBy, admission.heldUntil]).toEqual(["retry-budget", T0 + 11_000]);
  });

  test("a successful trial returns nothing, and refills like any success", () => {
    const admission = emptied({ ...TOKENS, refillPerSuccess: 3 }, false);
    leave(admission, entered(admission, patiently(RETRY), T0), SUCCESS, T0);
    expect(tokensOf(admission.guards.retryBudget)).toBe(3);
  });

  test("both budgets pay, or neither", () => {
    const serviceBudget = createRetryBudget({ ...TOKENS, maxTokens: 14 }, T0);
    const admission = admissionOf({ retryBudget: TOKENS }, undefined, always(0), serviceBudget);
    entered(admission, RETRY, T0);
    expect([tokensOf(admission.guards.retryBudget), tokensOf(serviceBudget)]).toEqual([14, 0]);
    expect(admission.enter(RETRY, undefined, T0)).toBeUndefined();
    expect(admission.refusal).toBe("retry-budget");
    expect([tokensOf(admission.guards.retryBudget), tokensOf(serviceBudget)]).toEqual([14, 0]);
  });
});
