/** Tests that the parts of a retry budget that several nodes use allow no more than the whole. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type BudgetPlace, reservedRetries, shareBudget } from "./fleet-budget.ts";
import { budgetAllows, createRetryBudget, takeRetryToken } from "./retry-budget.ts";
import { SharedBudget } from "./shared-budget.ts";

const RATIO = { kind: "RATIO", ratio: 0.1, minPerSecond: 1, windowMs: 10_000 } as const;
const TOKENS = {
  kind: "TOKENS",
  maxTokens: 500,
  costPerRetry: 14,
  costPerThrottle: 5,
  refillPerSuccess: 1,
} as const;
const GRPC = { kind: "GRPC", maxTokens: 10, tokenRatio: 0.1 } as const;

const T0 = 1_000_000;

const place = (fields: Partial<BudgetPlace> = {}): BudgetPlace => ({
  nodes: 1,
  maxNodes: fields.nodes ?? 1,
  isNew: false,
  reserved: 0,
  ...fields,
});

/** The retries that a budget allows at one instant. */
function retries(budget: ReturnType<typeof createRetryBudget>): number {
  let count = 0;
  while (budgetAllows(budget, T0, false) && takeRetryToken(budget, T0, false) !== 0) {
    if (++count > 10_000) throw new Error("no limit");
  }
  return count;
}

describe("a retry budget of several nodes", () => {
  it.each([
    [RATIO, 10],
    [TOKENS, 35],
  ] as const)("allows no more on all nodes than on one: %j", (options, whole) => {
    const budget = () => createRetryBudget(options, T0);
    expect(retries(budget())).toBe(whole);
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10 }), (nodes) => {
        const own = budget();
        shareBudget(own, options, place({ nodes }));
        const part = retries(own);
        expect(part * nodes).toBeLessThanOrEqual(whole);
        expect(part).toBeGreaterThan(0);
      }),
    );
  });

  it("uses reserved retries if the minimum is smaller than the number of nodes", () => {
    const scarce = { ...RATIO, minPerSecond: 0.3 };
    expect(reservedRetries(scarce, 5)).toEqual({ perSecond: 0.3, burst: 1 });
    expect(reservedRetries(scarce, 3)).toBeUndefined();
    expect(reservedRetries(scarce, 1)).toBeUndefined();
    expect(reservedRetries({ ...RATIO, minPerSecond: 0 }, 5)).toBeUndefined();
    expect(reservedRetries(TOKENS, 5)).toBeUndefined();
    const budget = createRetryBudget(scarce, T0);
    shareBudget(budget, scarce, place({ nodes: 5, reserved: 1 }));
    expect(retries(budget)).toBe(1);
  });

  it("grows only a window after nodes have left, and is empty on a new node", () => {
    const budget = createRetryBudget(RATIO, T0);
    shareBudget(budget, RATIO, place({ nodes: 1, maxNodes: 2 }));
    expect(budget).toMatchObject({ floor: 5 });
    shareBudget(budget, RATIO, place({ nodes: 2, isNew: true }));
    expect(budget).toMatchObject({ floor: 0 });
    shareBudget(budget, RATIO, place());
    expect(budget).toMatchObject({ floor: 10 });
  });

  it("keeps its state, and returns to the whole budget", () => {
    const budget = createRetryBudget(TOKENS, T0);
    if (budget.kind === "TOKENS") budget.tokens = 250;
    shareBudget(budget, TOKENS, place({ nodes: 2 }));
    expect(budget).toMatchObject({ tokens: 125, options: { maxTokens: 250 } });
    shareBudget(budget, TOKENS, place());
    expect(budget).toMatchObject({ tokens: 250, options: TOKENS });
    const grpc = createRetryBudget(GRPC, T0);
    shareBudget(grpc, GRPC, place({ nodes: 2 }));
    expect(grpc).toMatchObject({ milliTokens: 5000, options: { maxTokens: 5 } });
  });

  it("limits all tenants of a service", () => {
    const shared = new SharedBudget(createRetryBudget(RATIO, T0));
    const take = () => shared.take("a", true, T0, false, false);
    shared.setPlace(RATIO, place({ nodes: 5 }));
    let taken = 0;
    while (take() !== 0) taken++;
    expect(taken).toBe(2);
  });
});
