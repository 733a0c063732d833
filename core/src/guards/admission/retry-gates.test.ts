/** Tests of the gates: what `decide` sees of a future retry, and `admit` of a due attempt. */
import { describe, expect, test } from "vitest";
import type { Gates } from "../../decide/decide.ts";
import { SUCCESS } from "../../decide/outcome.ts";
import { recordAdaptiveRateResponse } from "../adaptive-rate.ts";
import { RATIO_BUDGET_DEFAULTS } from "../ratio-budget.ts";
import { createRetryBudget, TOKEN_BUDGET_DEFAULTS, takeRetryToken } from "../retry-budget.ts";
import { SharedBudget } from "../shared-budget.ts";
import {
  ALL_GUARDS,
  admissionOf,
  always,
  askedFor,
  drain,
  entered,
  FAILED,
  FIRST,
  HEDGE,
  leave,
  patiently,
  RETRY,
  T0,
} from "./admission.testing.ts";
import type { Admission } from "./admission.ts";
import { retryGates } from "./retry-gates.ts";

const retrying = (admission: Admission, now: number, request = RETRY): Gates =>
  retryGates(admission, request, admission.guards.breaker, now);

/** The result for a due attempt: nothing, a refusal, or the guard that holds it. */
function entering(admission: Admission, now: number, request = RETRY): object {
  const refusal = admission.check(request, admission.guards.breaker, now);
  const { heldBy, heldUntil } = admission;
  if (refusal === undefined) return {};
  return refusal === "hold" ? { heldBy, heldUntil } : { refusal };
}

/** Waits for a token, unlike a fail-fast retry, and gets no trial. */
const WAITING = patiently(HEDGE);

function emptied(admission: Admission, now: number): Admission {
  const { retryBudget } = admission.guards;
  while (retryBudget && takeRetryToken(retryBudget, now, false) > 0);
  return admission;
}

describe("gates", () => {
  test("guards that are off or idle leave every gate open", () => {
    expect(retrying(admissionOf({}), T0)).toEqual({});
    expect(entering(admissionOf({}), T0)).toEqual({});
    expect(retrying(admissionOf(ALL_GUARDS), T0)).toEqual({});
    expect(entering(admissionOf(ALL_GUARDS), T0)).toEqual({});
  });

  test("an open breaker closes the gate until it is half open", () => {
    const admission = admissionOf({ breaker: ALL_GUARDS.breaker }, undefined, always(0.5));
    leave(admission, entered(admission, FIRST, T0), FAILED, T0);
    const held = { heldBy: "circuit-open", heldUntil: T0 + 5000 };
    expect(retrying(admission, T0)).toEqual({ circuitOpenUntil: T0 + 5000 });
    expect(entering(admission, T0)).toEqual({ refusal: "circuit-open" });
    expect(entering(admission, T0, patiently(RETRY))).toEqual(held);
    expect(retrying(admission, T0 + 5000)).toEqual({});
    expect(entering(admission, T0 + 5000)).toEqual({});
    expect(entering(admission, T0 + 5000, patiently(RETRY))).toEqual({});
  });

  test("a due attempt also waits for a probe in flight", () => {
    const admission = admissionOf({ breaker: ALL_GUARDS.breaker }, undefined, always(0.5));
    leave(admission, entered(admission, FIRST, T0), FAILED, T0);
    entered(admission, FIRST, T0 + 5000);
    expect(retrying(admission, T0 + 5001)).toEqual({});
    expect(entering(admission, T0 + 5001)).toEqual({ refusal: "circuit-open" });
    expect(entering(admission, T0 + 5001, patiently(RETRY))).toEqual({
      heldBy: "circuit-open",
      heldUntil: T0 + 10_000,
    });
  });

  test("an empty budget has an instant to check again, for the cost of the retry", () => {
    const ratio = emptied(admissionOf({ retryBudget: RATIO_BUDGET_DEFAULTS }), T0);
    const tokens = emptied(admissionOf({ retryBudget: TOKEN_BUDGET_DEFAULTS }), T0);
    for (const [admission, until] of [
      [ratio, T0 + 11_000],
      [tokens, T0 + 1000],
    ] as const) {
      const held = { heldBy: "retry-budget", heldUntil: until };
      expect(retrying(admission, T0)).toEqual({ retryBudgetUntil: until });
      expect(entering(admission, T0)).toEqual({ refusal: "retry-budget" });
      expect(entering(admission, T0, WAITING)).toEqual(held);
    }
    for (const request of [RETRY, WAITING]) {
      expect(retrying(tokens, T0, { ...request, throttled: true })).toEqual({});
      expect(entering(tokens, T0, { ...request, throttled: true })).toEqual({});
    }
  });

  test("an empty bucket is open to a patient retry while a trial is ready, never to a hedge", () => {
    const admission = emptied(admissionOf({ retryBudget: TOKEN_BUDGET_DEFAULTS }), T0);
    const held = (heldUntil: number) => ({ heldBy: "retry-budget", heldUntil });
    expect(retrying(admission, T0, patiently(RETRY))).toEqual({});
    expect(entering(admission, T0, patiently(RETRY))).toEqual({});
    expect(retrying(admission, T0, patiently(HEDGE))).toEqual({ retryBudgetUntil: T0 + 1000 });
    expect(entering(admission, T0, patiently(HEDGE))).toEqual(held(T0 + 1000));
    entered(admission, patiently(RETRY), T0 + 300);
    const later = T0 + 900;
    expect(retrying(admission, later, patiently(RETRY))).toEqual({ retryBudgetUntil: T0 + 1300 });
    expect(entering(admission, later, patiently(RETRY))).toEqual(held(T0 + 1300));
  });

  test("a shared budget that one destination empties is empty for the other", () => {
    const shared = new SharedBudget(createRetryBudget(RATIO_BUDGET_DEFAULTS, T0));
    const [one, other] = [
      admissionOf({}, undefined, always(0), shared),
      admissionOf(ALL_GUARDS, undefined, always(0), shared),
    ];
    drain(one, RETRY, T0);
    expect(retrying(other, T0)).toHaveProperty("retryBudgetUntil");
    expect(entering(other, T0)).toEqual({ refusal: "retry-budget" });
    expect(entering(other, T0, WAITING)).toMatchObject({ heldBy: "retry-budget" });
  });

  test("the later of the two rates counts for a due attempt", () => {
    const admission = admissionOf({ ...ALL_GUARDS, concurrency: { ...ALL_GUARDS.concurrency } });
    entered(admission, FIRST, T0);
    expect(retrying(admission, T0)).toEqual({});
    expect(entering(admission, T0)).toEqual({ heldBy: "rate", heldUntil: T0 + 100 });
    if (admission.guards.adaptiveRate)
      recordAdaptiveRateResponse(admission.guards.adaptiveRate, T0, true);
    expect(entering(admission, T0)).toEqual({ heldBy: "rate", heldUntil: T0 + 2000 });
  });

  test("a pause, a Retry-After and the throttle's recheck are reported while they last", () => {
    const admission = admissionOf({}, { maxGateMs: 300_000 });
    leave(admission, entered(admission, FIRST, T0), askedFor(7000), T0);
    admission.pausedUntil = T0 + 9000;
    admission.throttleUntil = T0 + 1000;
    expect(retrying(admission, T0)).toEqual({
      retryAfterUntil: T0 + 7000,
      pausedUntil: T0 + 9000,
    });
    const patient = patiently(RETRY);
    for (const request of [RETRY, patient]) {
      const paused = { heldBy: "pause", heldUntil: T0 + 9000 };
      expect(entering(admission, T0, request)).toEqual(paused);
      expect(entering(admission, T0 + 8999, request)).toEqual(paused);
      expect(entering(admission, T0 + 9000, request)).toEqual({});
    }
    expect(retrying(admission, T0 + 9000)).toEqual({});
  });

  test("during a pause, the Retry-After and the throttle's recheck still apply", () => {
    const admission = admissionOf({}, { maxGateMs: 300_000 });
    leave(admission, entered(admission, FIRST, T0), askedFor(700), T0);
    admission.throttleUntil = T0 + 1000;
    const asked = { heldBy: "retry-after", heldUntil: T0 + 700 };
    const resting = { heldBy: "throttle", heldUntil: T0 + 1000 };
    expect(entering(admission, T0 + 699)).toEqual(asked);
    expect(entering(admission, T0 + 699, patiently(RETRY))).toEqual(resting);
    expect(entering(admission, T0 + 700)).toEqual({});
    expect(entering(admission, T0 + 999, patiently(RETRY))).toEqual(resting);
    expect(entering(admission, T0 + 1000, patiently(RETRY))).toEqual({});
  });

  test("the median is the estimated duration of a call, and holds no due attempt", () => {
    const admission = admissionOf({});
    for (const ms of [10, 20, 30]) leave(admission, entered(admission, FIRST, T0), SUCCESS, T0, ms);
    expect(retrying(admission, T0)).toEqual({ estimatedCallMs: 20 });
    expect(entering(admission, T0)).toEqual({});
  });

  test("a destination that allows no retries says so to decide and admit", () => {
    const concurrency = { ...ALL_GUARDS.concurrency, max: 1, maxRetries: 0 };
    const admission = admissionOf({ concurrency });
    expect(retrying(admission, T0)).toEqual({ refusesRetries: true });
    for (const request of [RETRY, HEDGE, patiently(RETRY), patiently(HEDGE)]) {
      expect(entering(admission, T0, request)).toEqual({ refusal: "overload" });
    }
    expect(entering(admission, T0, FIRST)).toEqual({});
    entered(admission, FIRST, T0);
    expect(entering(admission, T0, FIRST)).toMatchObject({ heldBy: "concurrency" });
  });
});
