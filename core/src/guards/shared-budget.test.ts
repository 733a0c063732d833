/**
 * Tests of the shared budget: members get their parts, and the whole keeps its limit.
 * Tests that the parts of a retry budget that several nodes use allow no more than the whole.
 * Tests of the fair share: equal parts, nothing above the limit, and room for the next member.
 */
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import {
  type BudgetPlace,
  budgetAllows,
  createRetryBudget,
  fairRoom,
  GRPC_BUDGET_DEFAULTS,
  RATIO_BUDGET_DEFAULTS,
  type RetryBudgetOptions,
  reservedRetries,
  restoreRetryBudget,
  SharedBudget,
  saveRetryBudget,
  shareBudget,
  TOKEN_BUDGET_DEFAULTS,
  takeRetryToken,
} from "./retry-budget.ts";

describe("shared budget", () => {
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
      expect((budget as unknown as { members: Map<string, object> }).members.size).toBeLessThan(
        2000,
      );
    });
  });
});

describe("fleet budget", () => {
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
});

/** Members take turns, one unit each, until no member may take more. */
function divide(limit: number, members: number): readonly number[] {
  const own = new Array<number>(members).fill(0);
  const sum = () => own.reduce((total, one) => total + one, 0);
  for (let isChanged = true; isChanged; ) {
    isChanged = false;
    for (let member = 0; member < members; member++) {
      if (fairRoom(limit, sum(), own[member] as number) < 1) continue;
      own[member] = (own[member] as number) + 1;
      isChanged = true;
    }
  }
  return own;
}

describe("a shared limit", () => {
  test("is divided equally, and a part of it stays free for the next member", () => {
    expect(divide(1000, 1)).toEqual([875]);
    expect(divide(1000, 2)).toEqual([467, 466]);
    expect(divide(1000, 4)).toEqual([242, 241, 241, 241]);
    expect(divide(3, 1)).toEqual([2]);
    expect(divide(1, 1)).toEqual([1]);
  });

  test("gives a new member something at once, whatever one member has taken", () => {
    for (const limit of [2, 3, 8, 20, 256, 1000]) {
      const [taken = 0] = divide(limit, 1);
      expect(fairRoom(limit, taken, 0)).toBeGreaterThanOrEqual(Math.max(1, Math.floor(limit / 10)));
    }
  });

  test("is never exceeded, and the room is what may be taken one by one", () => {
    fc.assert(
      fc.property(fc.nat(2000), fc.nat(2000), fc.nat(2000), (limit, others, own) => {
        const used = others + own;
        const room = fairRoom(limit, used, own);
        expect(room).toBeLessThanOrEqual(Math.max(0, limit - used));
        let taken = 0;
        while (fairRoom(limit, used + taken, own + taken) > 0) taken++;
        expect(room).toBe(taken);
      }),
    );
  });
});
