/** Tests of the shared budget: members get their parts, and the whole keeps its limit. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RATIO_BUDGET_DEFAULTS } from "./ratio-budget.ts";
import {
  createRetryBudget,
  GRPC_BUDGET_DEFAULTS,
  type RetryBudgetOptions,
  restoreRetryBudget,
  saveRetryBudget,
  TOKEN_BUDGET_DEFAULTS,
} from "./retry-budget.ts";
import { SharedBudget } from "./shared-budget.ts";

const T0 = 1_800_000_000_000;
const RATIO: RetryBudgetOptions = { ...RATIO_BUDGET_DEFAULTS, ratio: 0, minPerSecond: 10 };
const TOKENS: RetryBudgetOptions = { ...TOKEN_BUDGET_DEFAULTS, costPerRetry: 5 };

const shared = (options: RetryBudgetOptions) => new SharedBudget(createRetryBudget(options, T0));

/** Takes all that the member gets; returns how many retries. */
function drain(budget: SharedBudget, member: string, now = T0): number {
  let taken = 0;
  while (budget.take(member, true, now, false, false) !== 0) taken++;
  return taken;
}

describe("a retry budget that tenants share", () => {
  test.each([
    ["RATIO", RATIO],
    ["TOKENS", TOKENS],
  ])("is wholly available to the only tenant (%s)", (_, options) => {
    expect(drain(shared(options), "a")).toBe(100);
  });

  test("has tokens for a tenant that has taken none, although another one has used the limit", () => {
    const budget = shared(RATIO);
    expect([drain(budget, "a"), drain(budget, "b"), drain(budget, "c")]).toEqual([100, 13, 1]);
    expect([drain(budget, "d"), drain(budget, "e")]).toEqual([1, 0]);
  });

  test("is divided equally once the retries of the first tenant have left the window", () => {
    const budget = shared(RATIO);
    const taken = { a: 0, b: 0 };
    drain(budget, "a");
    for (let second = 1; second <= 60; second++) {
      for (let turn = 0; turn < 100; turn++) {
        for (const member of ["a", "b"] as const) {
          const ticket = budget.take(member, true, T0 + 1000 * second, false, false);
          if (ticket !== 0 && second > 20) taken[member]++;
        }
      }
    }
    expect(taken.a + taken.b).toBeGreaterThan(300);
    expect(Math.abs(taken.a - taken.b)).toBeLessThanOrEqual(taken.b / 10);
  });

  test("says when a tenant may retry again, and is right about it", () => {
    const budget = shared(RATIO);
    drain(budget, "a");
    const readyAt = budget.readyAt("a", T0, false, true);
    expect(readyAt).toBeGreaterThan(T0);
    expect(budget.allows("a", readyAt - 1, false)).toBe(false);
    expect(budget.allows("a", readyAt, false)).toBe(true);
  });

  test("never grants more than eight sevenths of the limit, and takes back what was not used", () => {
    const members = fc.constantFrom("a", "b", "c", "d");
    fc.assert(
      fc.property(fc.array(members, { maxLength: 300 }), (turns) => {
        const budget = shared(RATIO);
        const tickets = turns.map(
          (one) => [one, budget.take(one, true, T0, false, false)] as const,
        );
        expect(tickets.filter(([, ticket]) => ticket !== 0).length).toBeLessThanOrEqual(115);
        for (const [member, ticket] of tickets)
          if (ticket !== 0) budget.handBack(member, ticket, true);
        expect(drain(budget, "fresh")).toBe(100);
      }),
    );
  });

  test("is not emptied by the failures of another tenant if only successes refill it", () => {
    const grpc = shared(GRPC_BUDGET_DEFAULTS);
    for (let failures = 0; failures < 10; failures++) grpc.fail("a", T0);
    expect([grpc.allows("a", T0, false), grpc.allows("b", T0, false)]).toEqual([false, true]);
    const tokens = shared(TOKENS);
    expect([drain(tokens, "a"), drain(tokens, "b")]).toEqual([100, 100]);
    tokens.succeed("a", 0, true);
    expect(tokens.readyAt("a", T0, false, false)).toBeGreaterThan(T0);
  });

  test("counts what an earlier process saved for every tenant, until that is old", () => {
    const before = shared(RATIO);
    drain(before, "a");
    const saved = JSON.parse(JSON.stringify(saveRetryBudget(before.whole)));
    const budget = new SharedBudget(restoreRetryBudget(RATIO, saved, T0));
    expect([drain(budget, "a"), drain(budget, "b")]).toEqual([0, 0]);
    expect(drain(budget, "c", T0 + 11_000)).toBe(100);
  });

  test("grants each tenant one trial a second when nothing is left", () => {
    const budget = shared({ ...RATIO, minPerSecond: 0 });
    const isGranted = (member: string, now: number) =>
      budget.take(member, true, now, false, true) !== 0;
    expect([isGranted("a", T0), isGranted("b", T0)]).toEqual([true, true]);
    expect([isGranted("a", T0 + 999), isGranted("b", T0 + 999)]).toEqual([false, false]);
    expect([isGranted("a", T0 + 1000), isGranted("b", T0 + 1000)]).toEqual([true, true]);
  });

  test("keeps no counts of tenants that do not retry", () => {
    const budget = shared(RATIO);
    for (let n = 0; n < 5000; n++) budget.take(`t${n}`, true, T0 + 60_000 * n, false, false);
    expect((budget as unknown as { members: Map<string, object> }).members.size).toBeLessThan(2000);
  });
});
