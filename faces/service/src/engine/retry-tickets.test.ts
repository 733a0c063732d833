/** Tests that a retry needs both budgets, its destination's and the service's, or takes from neither. */
import { createRetryBudget, seededRandom } from "@redrive/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { GuardedDestination } from "./guarded-destination.ts";
import { createWholeBudget, RetryBudgets, wholeBudgetOptions } from "./retry-tickets.ts";

const AT = 1_800_000_000_000;
const tokens = (maxTokens: number) =>
  createRetryBudget(
    { kind: "TOKENS", maxTokens, costPerRetry: 2, costPerThrottle: 1, refillPerSuccess: 0 },
    AT,
  );
const left = (budget: ReturnType<typeof tokens>) => (budget.kind === "TOKENS" ? budget.tokens : 0);

const wholeBudget = () => createWholeBudget(wholeBudgetOptions(), AT);

describe("a retry's tickets", () => {
  it("come from both budgets or from neither, and all go back", () => {
    fc.assert(
      fc.property(fc.nat(30), fc.nat(30), fc.array(fc.boolean()), (own, whole, asks) => {
        const first = tokens(own + 1);
        const second = tokens(whole + 1);
        const budgets = new RetryBudgets(first, second);
        // Of one instant, one leaves without its destination's ticket.
        let mayFindOut = true;
        const got = asks.map((throttled) => {
          const before = [left(first), left(second)] as const;
          const price = throttled ? 1 : 2;
          const isPaid = before[0] >= price;
          const isGiven = before[1] >= price && (isPaid || mayFindOut);
          if (isGiven && !isPaid) mayFindOut = false;
          const tickets = budgets.take(AT, throttled);
          expect(tickets !== undefined).toBe(isGiven);
          expect(left(first)).toBe(before[0] - (isGiven && isPaid ? price : 0));
          expect(left(second)).toBe(before[1] - (isGiven ? price : 0));
          return tickets;
        });
        for (const tickets of got) if (tickets) budgets.giveBack(tickets);
        expect([left(first), left(second)]).toEqual([own + 1, whole + 1]);
      }),
    );
  });

  it("are not waited for without end at an empty bucket: one a second finds out", () => {
    const bucket = tokens(2);
    const budgets = new RetryBudgets(bucket, undefined);
    const takenAt = (ms: number) => budgets.take(AT + ms, false);
    expect([takenAt(0), takenAt(0), takenAt(999)].map((one) => one?.own)).toEqual([
      2,
      0,
      undefined,
    ]);
    expect(budgets.readyAt(AT + 999, false)).toBe(AT + 1000);
    const second = takenAt(1000);
    expect(second?.own).toBe(0);
    if (second) budgets.giveBack(second);
    expect(takenAt(1001)?.own).toBe(0);
    expect(takenAt(1002)).toBeUndefined();
    expect(left(bucket)).toBe(0);
  });

  it("go back to the budget they came from, and to none that a later document brought", () => {
    const budgets = new RetryBudgets(wholeBudget(), undefined);
    const tickets = budgets.take(AT, false);
    const later = tokens(10);
    budgets.own = later;
    const spent = budgets.take(AT, false);
    if (tickets) budgets.giveBack(tickets);
    if (tickets) budgets.noteSuccess(tickets);
    expect(left(later)).toBe(8);
    if (spent) budgets.giveBack(spent);
    expect(left(later)).toBe(10);
  });

  it("are refused to every destination once the service's budget is spent", () => {
    const whole = createWholeBudget(wholeBudgetOptions({ ratio: 0, minPerSecond: 0.3 }), AT);
    const make = (name: string) =>
      new GuardedDestination(seededRandom(name), { tenantId: "t", name }, AT, whole);
    const [one, other] = [make("one"), make("other")];
    const permits = [one, other, one].map((destination) => destination.take(true, AT));
    expect(permits.every((permit) => permit !== undefined)).toBe(true);
    expect(other.take(true, AT)).toBeUndefined();
    expect(other.readyAt).toBeGreaterThan(AT);
    expect(other.take(false, AT)).toBeDefined();
    expect(other.gates(AT, false).retryBudgetUntil).toBeGreaterThan(AT);
    const [permit] = permits;
    if (permit) one.giveBack(permit, AT);
    expect(other.take(true, AT)).toBeDefined();
  });

  it("and places are counted while a document limits none, for the next one that does", () => {
    const random = seededRandom("places");
    const shop = new GuardedDestination(random, { tenantId: "t", name: "shop" }, AT, undefined);
    const put = (version: number, document: object) =>
      shop.adopt({ ...shop.row, version, document: JSON.stringify(document) }, AT);
    put(1, { concurrency: false });
    const permits = [false, true, false].map((isRetry) => shop.take(isRetry, AT));
    put(2, { concurrency: { max: 2, algorithm: "FIXED" } });
    const [first, second] = permits;
    expect(shop.take(false, AT)).toBeUndefined();
    if (first) shop.giveBack(first, AT);
    expect(shop.take(false, AT)).toBeUndefined();
    if (second) shop.giveBack(second, AT);
    expect(shop.take(false, AT)).toBeDefined();
  });

  it("have sane bounds by default, may be turned off, and are refused if they make no sense", () => {
    expect(wholeBudgetOptions()).toEqual({
      kind: "RATIO",
      ratio: 0.2,
      minPerSecond: 100,
      windowMs: 10_000,
    });
    expect(wholeBudgetOptions({ kind: "GRPC" })).toMatchObject({ kind: "GRPC", maxTokens: 10 });
    expect(wholeBudgetOptions(false)).toBeUndefined();
    expect(() => wholeBudgetOptions({ ratio: -1 })).toThrow(/retryBudget\.ratio/);
  });
});
