/** Tests of the guards of one destination together: what they say, and that they survive a restart. */
import { describe, expect, test } from "vitest";
import { ADAPTIVE_RATE_DEFAULTS, noteAnswer } from "./adaptive-rate.ts";
import { BREAKER_DEFAULTS, enterBreaker, leaveBreaker } from "./breaker.ts";
import { CONCURRENCY_DEFAULTS } from "./concurrency.ts";
import {
  createGuards,
  type GuardOptions,
  type Guards,
  gatesOf,
  restoreGuards,
  saveGuards,
} from "./guards.ts";
import { recordLatency } from "./latency.ts";
import { takeRate } from "./rate.ts";
import { RATIO_BUDGET_DEFAULTS } from "./ratio-budget.ts";
import { createRetryBudget, TOKEN_BUDGET_DEFAULTS, takeRetry } from "./retry-budget.ts";
import { refusalOf } from "./saved.testing.ts";
import { enterThrottle, THROTTLE_DEFAULTS } from "./throttle.ts";

const T0 = 1_700_000_000_000;

const ALL: Required<GuardOptions> = {
  retryBudget: RATIO_BUDGET_DEFAULTS,
  breaker: { ...BREAKER_DEFAULTS, minCalls: 1 },
  concurrency: CONCURRENCY_DEFAULTS,
  rate: { perSecond: 10, burst: 1 },
  adaptiveRate: ADAPTIVE_RATE_DEFAULTS,
  throttle: THROTTLE_DEFAULTS,
};

function fail({ breaker }: Guards, now: number): void {
  if (breaker) leaveBreaker(breaker, now, enterBreaker(breaker, now), "failure", 1, 0.5);
}

function drain({ retryBudget }: Guards, now: number): void {
  while (retryBudget && takeRetry(retryBudget, now, false) > 0);
}

describe("gates", () => {
  test("guards that are off, and guards at rest, leave every gate open", () => {
    expect(gatesOf(createGuards({}, T0), T0, false)).toEqual({});
    expect(gatesOf(createGuards(ALL, T0), T0, false)).toEqual({});
  });

  test("an open breaker shuts the circuit until it half opens", () => {
    const guards = createGuards(ALL, T0);
    fail(guards, T0);
    expect(gatesOf(guards, T0, false)).toEqual({ circuitOpenUntil: T0 + 5000 });
    expect(gatesOf(guards, T0 + 5000, false)).toEqual({});
  });

  test("an empty budget names when to ask again", () => {
    const guards = createGuards(ALL, T0);
    drain(guards, T0);
    expect(gatesOf(guards, T0, false)).toEqual({ retryBudgetUntil: T0 + 11_000 });
  });

  test("a throttled retry is asked for at its own price", () => {
    const guards = createGuards({ retryBudget: TOKEN_BUDGET_DEFAULTS }, T0);
    drain(guards, T0);
    expect(gatesOf(guards, T0, false)).toEqual({ retryBudgetUntil: T0 + 1000 });
    expect(gatesOf(guards, T0, true)).toEqual({});
  });

  test("the later of the two rates counts", () => {
    const guards = createGuards(ALL, T0);
    if (guards.rate) takeRate(guards.rate, T0);
    expect(gatesOf(guards, T0, false)).toEqual({ rateUntil: T0 + 100 });
    if (guards.adaptiveRate) noteAnswer(guards.adaptiveRate, T0, true);
    expect(gatesOf(guards, T0, false)).toEqual({ rateUntil: T0 + 2000 });
  });

  test("the median is the estimated call", () => {
    const guards = createGuards({}, T0);
    for (const ms of [10, 20, 30]) recordLatency(guards.latency, T0, ms);
    expect(gatesOf(guards, T0, false)).toEqual({ estimatedCallMs: 20 });
  });

  test("a shared budget that one destination empties is empty for the other", () => {
    const shared = createRetryBudget(RATIO_BUDGET_DEFAULTS, T0);
    const [one, other] = [createGuards({}, T0, shared), createGuards(ALL, T0, shared)];
    drain(one, T0);
    expect(gatesOf(other, T0, false)).toHaveProperty("retryBudgetUntil");
  });
});

describe("save and restore", () => {
  function worn(): Guards {
    const guards = createGuards(ALL, T0);
    fail(guards, T0);
    drain(guards, T0);
    if (guards.rate) takeRate(guards.rate, T0);
    if (guards.adaptiveRate) noteAnswer(guards.adaptiveRate, T0, true);
    if (guards.throttle) enterThrottle(guards.throttle, T0, 0.5);
    if (guards.concurrency) guards.concurrency.estimate.limit = 7;
    recordLatency(guards.latency, T0, 300);
    return guards;
  }

  test("restored guards say what the saved ones would have, at every later instant", () => {
    const guards = worn();
    const restored = restoreGuards(ALL, JSON.parse(JSON.stringify(saveGuards(guards))), T0 + 500);
    expect(saveGuards(restored)).toEqual(saveGuards(guards));
    for (const ms of [500, 1999, 2000, 4999, 5000, 10_999, 11_000, 60_000]) {
      expect(gatesOf(restored, T0 + ms, false)).toEqual(gatesOf(guards, T0 + ms, false));
    }
  });

  test("a guard that was off starts fresh, one that is off now is left out", () => {
    const bare = saveGuards(createGuards({}, T0));
    expect(saveGuards(restoreGuards(ALL, bare, T0))).toEqual(saveGuards(createGuards(ALL, T0)));
    expect(restoreGuards({}, saveGuards(worn()), T0).breaker).toBeUndefined();
  });

  test("a shared budget comes from its owner, not from what was saved", () => {
    const shared = createRetryBudget(TOKEN_BUDGET_DEFAULTS, T0);
    expect(restoreGuards(ALL, saveGuards(worn()), T0, shared).retryBudget).toBe(shared);
  });

  test("garbage is refused by the guard and field it is in", () => {
    const saved = saveGuards(worn());
    const restore = (value: unknown) => refusalOf(() => restoreGuards(ALL, value, T0));
    expect(restore("x")).toBe('guards must be an object, got "x"');
    expect(restore({ ...saved, version: 2 })).toContain("guards.version");
    expect(restore({ ...saved, breaker: undefined })).toContain("guards.breaker must be present");
    expect(restore({ ...saved, breaker: { ...saved.breaker, openUntil: "soon" } })).toBe(
      'breaker.openUntil must be a whole number from 0 to 9007199254740991, got "soon"',
    );
    expect(restore({ ...saved, latency: 3 })).toBe("latency must be an object, got 3");
  });
});
