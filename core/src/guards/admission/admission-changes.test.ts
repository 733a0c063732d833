/** Tests of admission changes: rechecks, replaced guards, ramps of other nodes. */
import { describe, expect, test } from "vitest";
import { SUCCESS } from "../../decide/outcome.ts";
import { adoptBreaker } from "../breaker.ts";
import { CONCURRENCY_DEFAULTS } from "../concurrency.ts";
import { createGuards, type GuardOptions } from "../guards.ts";
import { RATIO_BUDGET_DEFAULTS } from "../ratio-budget.ts";
import {
  type RetryBudget,
  type RetryBudgetOptions,
  saveRetryBudget,
  TOKEN_BUDGET_DEFAULTS,
} from "../retry-budget.ts";
import {
  ALL_GUARDS,
  admissionOf,
  drain,
  entered,
  FIRST,
  leave,
  RETRY,
  T0,
} from "./admission.testing.ts";
import type { Admission } from "./admission.ts";
import { rampUp, recheckPermit, replaceGuards, skipGateRamp } from "./admission-changes.ts";

const RATE = { perSecond: 1, burst: 1 };
const TOKENS: RetryBudgetOptions = { ...TOKEN_BUDGET_DEFAULTS, maxTokens: 28 };
const tokensOf = (budget: RetryBudget | undefined) => budget && saveRetryBudget(budget).tokens;

describe("a recheck before the first byte", () => {
  const refused = (change: (admission: Admission) => void, request = FIRST) => {
    const admission = admissionOf({ ...ALL_GUARDS, retryBudget: TOKENS }, { maxGateMs: 1000 });
    const permit = entered(admission, request, T0);
    const { breaker } = admission.guards;
    expect(recheckPermit(admission, permit, breaker, request, T0 + 1)).toBe(true);
    change(admission);
    const isSent = recheckPermit(admission, permit, breaker, request, T0 + 2);
    admission.handBack(permit, breaker, T0 + 2);
    expect(tokensOf(admission.guards.retryBudget)).toBe(28);
    expect(admission.guards.concurrency).toMatchObject({ inFlight: 0, retriesInFlight: 0 });
    return !isSent;
  };

  test("stops an attempt if a gate was closed, the destination was paused or the breaker has changed", () => {
    for (const request of [FIRST, RETRY]) {
      expect(
        refused((admission) => {
          admission.gateUntil = T0 + 500;
        }, request),
      ).toBe(true);
      expect(
        refused((admission) => {
          admission.pausedUntil = T0 + 500;
        }, request),
      ).toBe(true);
      const open = { state: "OPEN", openUntil: T0 + 500, openCount: 1 } as const;
      expect(
        refused(
          ({ guards }) => guards.breaker && adoptBreaker(guards.breaker, T0 + 1, open),
          request,
        ),
      ).toBe(true);
    }
  });

  test("takes the current cost, and stops a retry whose tokens are gone", () => {
    const admission = admissionOf({ retryBudget: { ...TOKENS, maxTokens: 14 } });
    const { retryBudget } = admission.guards;
    const permit = entered(admission, RETRY, T0);
    expect(tokensOf(retryBudget)).toBe(0);
    const cheaper = { ...RETRY, throttled: true };
    expect(recheckPermit(admission, permit, undefined, cheaper, T0)).toBe(true);
    expect(tokensOf(retryBudget)).toBe(9);
    expect(recheckPermit(admission, permit, undefined, RETRY, T0 + 1)).toBe(true);
    expect(tokensOf(retryBudget)).toBe(0);
    admission.handBack(permit, undefined, T0 + 1);
    expect(tokensOf(retryBudget)).toBe(14);
  });

  test("a retry with tokens at a lower cost stops if the budget cannot pay the higher cost", () => {
    const admission = admissionOf({ retryBudget: { ...TOKENS, maxTokens: 14 } });
    const cheap = { ...RETRY, throttled: true };
    const [one, other] = [entered(admission, cheap, T0), entered(admission, cheap, T0)];
    expect(recheckPermit(admission, one, undefined, RETRY, T0 + 1)).toBe(false);
    admission.handBack(one, undefined, T0 + 1);
    admission.handBack(other, undefined, T0 + 1);
    expect(tokensOf(admission.guards.retryBudget)).toBe(14);
  });

  test("moves a RATIO retry into the bucket of its first byte", () => {
    const options = { ...RATIO_BUDGET_DEFAULTS, ratio: 0, minPerSecond: 0.1 };
    const admission = admissionOf({ retryBudget: options });
    const permit = entered(admission, RETRY, T0);
    expect(recheckPermit(admission, permit, undefined, RETRY, T0 + 5000)).toBe(true);
    expect(admission.check(RETRY, undefined, T0 + 15_999)).toBe("retry-budget");
    expect(admission.check(RETRY, undefined, T0 + 16_000)).toBeUndefined();
  });

  test("then handBack returns only what time has not refilled since the permit was taken", () => {
    const options = { rate: { perSecond: 1, burst: 2 }, retryBudget: TOKENS };
    const admission = admissionOf(options);
    const permit = entered(admission, RETRY, T0);
    entered(admission, FIRST, T0 + 1000);
    expect(recheckPermit(admission, permit, undefined, RETRY, T0 + 1000)).toBe(true);
    expect(permit.at).toBe(T0 + 1000);
    admission.handBack(permit, undefined, T0 + 1000);
    expect(drain(admission, FIRST, T0 + 1000)).toBe(1);
  });
});

describe("replaced guards", () => {
  const options = (max: number): GuardOptions => ({
    concurrency: { ...CONCURRENCY_DEFAULTS, algorithm: "FIXED", max },
  });

  test("keep the attempts in flight, also those that started without a limit", () => {
    const admission = admissionOf({});
    const permits = [FIRST, FIRST, RETRY].map((request) => entered(admission, request, T0));
    replaceGuards(admission, createGuards(options(4), T0), undefined);
    expect(admission.guards.concurrency).toMatchObject({ inFlight: 3, retriesInFlight: 1 });
    expect(drain(admission, FIRST, T0)).toBe(1);
    replaceGuards(admission, createGuards(options(2), T0), undefined);
    expect(admission.guards.concurrency).toMatchObject({ inFlight: 4, retriesInFlight: 1 });
    for (const permit of permits) leave(admission, permit, SUCCESS, T0);
    expect(admission.guards.concurrency).toMatchObject({ inFlight: 1, retriesInFlight: 0 });
    expect(drain(admission, FIRST, T0)).toBe(1);
  });

  test("a new budget gets no tickets of the old one", () => {
    const admission = admissionOf({ retryBudget: TOKENS });
    const [sent, unsent] = [entered(admission, RETRY, T0), entered(admission, RETRY, T0)];
    replaceGuards(
      admission,
      createGuards({ retryBudget: { ...TOKENS, maxTokens: 14 } }, T0),
      undefined,
    );
    entered(admission, RETRY, T0);
    leave(admission, sent, SUCCESS, T0);
    admission.handBack(unsent, undefined, T0);
    expect(tokensOf(admission.guards.retryBudget)).toBe(0);
  });

  test("a new rate gets no tokens of the old one", () => {
    const admission = admissionOf({ rate: RATE });
    const permit = entered(admission, FIRST, T0);
    replaceGuards(admission, createGuards({ rate: RATE }, T0), undefined);
    entered(admission, FIRST, T0);
    admission.handBack(permit, undefined, T0);
    expect(drain(admission, FIRST, T0)).toBe(0);
  });
});

describe("ramps", () => {
  test("a ramp that another node has started is not started again", () => {
    const { concurrency } = ALL_GUARDS;
    const admission = admissionOf({ concurrency }, { maxGateMs: 5000 });
    admission.gateUntil = T0 + 1000;
    skipGateRamp(admission, T0 + 1000);
    expect(drain(admission, FIRST, T0 + 1000)).toBeGreaterThan(1);
    rampUp(admission);
    expect(admission.guards.concurrency?.ramp).toBe(1);
  });
});
