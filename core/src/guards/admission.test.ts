/**
 * Tests of the admission: what an attempt takes and what is returned.
 * Tests of admission changes: rechecks, replaced guards, ramps of other nodes.
 * Tests of the gates: what `decide` sees of a future retry, and `admit` of a due attempt.
 * Tests of the retry tokens: both budgets or neither, and the trials of an empty one.
 * Tests of what outcomes say about the destination's health.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Gates } from "../decide/decide.ts";
import { classifyOutcome, type Outcome, SUCCESS } from "../decide/outcome.ts";
import { type Policy, resolvePolicy } from "../decide/policy.ts";
import {
  ALL_GUARDS,
  admissionOf,
  always,
  anyRequest,
  anySetup,
  askedFor,
  drain,
  entered,
  FAILED,
  FIRST,
  HEDGE,
  leave,
  PASSES,
  POLICY,
  patiently,
  play,
  RETRY,
  stateOf,
  T0,
  viewAt,
} from "./admission.testing.ts";
import {
  type Admission,
  breakerOutcomeOf,
  concurrencyOutcomeOf,
  isAccepted,
  type Permit,
  type RetryTickets,
  RetryTokens,
  rampUp,
  recheckPermit,
  replaceGuards,
  retryGates,
  skipGateRamp,
  THROTTLE_RECHECK_MS,
} from "./admission.ts";
import { adoptBreaker, createBreaker } from "./breaker.ts";
import { CONCURRENCY_DEFAULTS } from "./concurrency.ts";
import { guardOptionsOf, resolveDestination } from "./destination.ts";
import { createGuards, type GuardOptions } from "./guards.ts";
import { latencyCalls } from "./latency.ts";
import { recordAdaptiveRateResponse } from "./rate.ts";
import {
  BudgetShare,
  createRetryBudget,
  GRPC_BUDGET_DEFAULTS,
  RATIO_BUDGET_DEFAULTS,
  type RetryBudget,
  type RetryBudgetOptions,
  SharedBudget,
  saveRetryBudget,
  TOKEN_BUDGET_DEFAULTS,
  takeRetryToken,
} from "./retry-budget.ts";
import { totalOf } from "./sliding-window.ts";
import { enterThrottle, rejectShare, restoreThrottle, saveThrottle } from "./throttle.ts";

describe("admission", () => {
  const RATE = { perSecond: 1, burst: 1 };
  const TOKENS: RetryBudgetOptions = { ...TOKEN_BUDGET_DEFAULTS, maxTokens: 28 };
  const tokensOf = (budget: RetryBudget | undefined) => budget && saveRetryBudget(budget).tokens;

  /** Four requests have failed: the throttle refuses four of five. */
  function throttled(admission: Admission, now: number): Admission {
    const permits = Array.from({ length: 4 }, () => entered(admission, FIRST, now));
    for (const permit of permits) leave(admission, permit, { kind: "status", status: 503 }, now);
    return admission;
  }

  describe("a refused or held attempt", () => {
    test("spends nothing, except that the throttle counts one that it refuses", () => {
      fc.assert(
        fc.property(anySetup, fc.nat(3000), anyRequest, (setup, laterMs, request) => {
          const played = play(setup);
          const { admission, random } = played;
          const { breaker, throttle } = admission.guards;
          const now = played.now + laterMs;
          // Time passes first in every guard, so only what is spent can differ.
          admission.check(request, breaker, now);
          viewAt(played, now);
          const before = stateOf(played);
          const drawsBefore = random.draws;
          const isResting = admission.throttleUntil > now;
          const expected =
            throttle && restoreThrottle(throttle.options, saveThrottle(throttle), now);
          const permit = admission.enter(request, breaker, now);
          fc.pre(permit === undefined);
          const { refusal, heldBy } = admission;
          const isByThrottle = refusal === "hold" && heldBy === "throttle" && !isResting;
          const isOverload = refusal === "overload" && setup.options.concurrency?.maxRetries !== 0;
          if (expected && (isByThrottle || isOverload || random.draws > drawsBefore)) {
            expect(enterThrottle(expected, now, 0)).toBe(false);
            expect(throttle && saveThrottle(throttle)).toEqual(saveThrottle(expected));
            expect(withoutThrottle(stateOf(played))).toEqual(withoutThrottle(before));
          } else expect(stateOf(played)).toEqual(before);
        }),
      );
    });

    function withoutThrottle(state: object): object {
      const { saved, ...rest } = state as { saved: object };
      return { ...rest, saved: { ...saved, throttle: null } };
    }

    test("does not change the permits of others: check is as free as enter", () => {
      const admission = admissionOf({ ...ALL_GUARDS, rate: RATE });
      entered(admission, FIRST, T0);
      const before = stateOf({ admission, serviceBudget: undefined });
      for (let n = 0; n < 10; n++) {
        expect(admission.check(RETRY, undefined, T0)).toBe("hold");
        expect(admission.enter(patiently(RETRY), undefined, T0)).toBeUndefined();
      }
      expect(stateOf({ admission, serviceBudget: undefined })).toEqual(before);
      expect([admission.heldBy, admission.heldUntil]).toEqual(["rate", T0 + 1000]);
    });

    test("draws nothing while another guard holds it", () => {
      const random = { draws: 0, next: () => ++random.draws && 0, fork: () => random };
      const admission = admissionOf(
        { throttle: ALL_GUARDS.throttle, rate: RATE },
        undefined,
        random,
      );
      entered(admission, FIRST, T0);
      expect(random.draws).toBe(1);
      expect(admission.enter(FIRST, undefined, T0)).toBeUndefined();
      expect(random.draws).toBe(1);
    });

    test("a patient one waits for a second after the throttle has refused it; a fail-fast one ends", () => {
      const admission = throttled(
        admissionOf({ throttle: ALL_GUARDS.throttle }, undefined, always(0)),
        T0,
      );
      expect(admission.enter(FIRST, undefined, T0)).toBeUndefined();
      expect(admission.refusal).toBe("overload");
      expect(admission.enter(patiently(FIRST), undefined, T0)).toBeUndefined();
      expect([admission.refusal, admission.heldBy]).toEqual(["hold", "throttle"]);
      expect(admission.heldUntil).toBe(T0 + THROTTLE_RECHECK_MS);
      // The throttle decides once, not for every patient call.
      const share = rejectShare(admission.guards.throttle as never, T0);
      expect(admission.enter(patiently(FIRST), undefined, T0 + 999)).toBeUndefined();
      expect(rejectShare(admission.guards.throttle as never, T0 + 999)).toBe(share);
      expect(admission.check(FIRST, undefined, T0 + 999)).toBeUndefined();
      expect(admission.check(patiently(FIRST), undefined, T0 + 1000)).toBeUndefined();
    });
  });

  describe("handing back", () => {
    test("at the same instant restores every guard exactly", () => {
      fc.assert(
        fc.property(anySetup, fc.nat(3000), anyRequest, (setup, laterMs, request) => {
          const played = play(setup);
          const { admission, random } = played;
          const { breaker } = admission.guards;
          const now = played.now + laterMs;
          admission.check(request, breaker, now);
          const before = viewAt(played, now);
          const permit = admission.enter(request, breaker, now);
          fc.pre(permit !== undefined);
          admission.handBack(permit as Permit, breaker, now);
          expect(viewAt(played, now)).toEqual(before);
          // The next attempt gets the same draw, so a seed gives one result.
          const draws = random.draws;
          const again = admission.enter(request, breaker, now);
          expect(again?.draw).toBe(permit?.draw);
          expect(random.draws).toBe(draws);
        }),
      );
    });

    test("later never leaves more capacity than if the permit had not been taken", () => {
      // Shorter than the open duration: a probe that takes longer loses its slot to the next.
      // The others fail fast: a trial instead of a token would make a temporary difference.
      const anyOther = anyRequest.map((request) => ({ ...request, patient: false }));
      const anyOthers = fc.array(fc.tuple(fc.nat(300), anyOther), { maxLength: 8 });
      fc.assert(
        fc.property(anySetup, anyRequest, anyOthers, anyRequest, (setup, one, others, last) => {
          const steady = { ...setup, draws: [PASSES] };
          const [taken, untouched] = [play(steady), play(steady)];
          let now = taken.now;
          const permit = taken.admission.enter(one, taken.admission.guards.breaker, now);
          fc.pre(permit !== undefined);
          for (const [gapMs, request] of others) {
            now += gapMs;
            const worlds = [taken.admission, untouched.admission];
            const refusals = worlds.map((it) => it.check(request, it.guards.breaker, now));
            if (refusals.some((refusal) => refusal !== undefined)) continue;
            for (const admission of worlds) entered(admission, request, now);
          }
          taken.admission.handBack(permit as Permit, taken.admission.guards.breaker, now);
          const room = drain(taken.admission, last, now);
          expect(room).toBeLessThanOrEqual(drain(untouched.admission, last, now));
        }),
      );
    });

    test("returned draws are used again, the latest first", () => {
      let next = 0;
      const random = { next: () => ++next / 10, fork: () => random };
      const admission = admissionOf({ throttle: ALL_GUARDS.throttle }, undefined, random);
      const permits = [1, 2, 3].map(() => entered(admission, FIRST, T0));
      expect(permits.map(({ draw }) => draw)).toEqual([0.1, 0.2, 0.3]);
      for (const permit of permits.reverse()) admission.handBack(permit, undefined, T0);
      const again = [1, 2, 3, 4].map(() => entered(admission, FIRST, T0).draw);
      expect(again).toEqual([0.1, 0.2, 0.3, 0.4]);
    });
  });

  describe("hedges", () => {
    test("take a rate token, a slot, a draw and a retry token", () => {
      const admission = admissionOf({ ...ALL_GUARDS, retryBudget: TOKENS });
      const permit = entered(admission, HEDGE, T0);
      const { rate, concurrency, retryBudget } = admission.guards;
      expect(rate?.ahead).toBe(1);
      expect(concurrency).toMatchObject({ inFlight: 1, retriesInFlight: 1 });
      expect(permit.draw).toBe(PASSES);
      expect(tokensOf(retryBudget)).toBe(14);
    });

    test("the token of a winning hedge is not returned, that of a winning retry is", () => {
      const budgets: RetryBudgetOptions[] = [
        { ...TOKENS, refillPerSuccess: 0 },
        { ...RATIO_BUDGET_DEFAULTS, ratio: 0, minPerSecond: 0.2 },
      ];
      for (const retryBudget of budgets) {
        for (const [request, room] of [
          [HEDGE, 1],
          [patiently(HEDGE), 1],
          [patiently(RETRY), 2],
        ] as const) {
          const admission = admissionOf({ retryBudget });
          leave(admission, entered(admission, request, T0), SUCCESS, T0);
          expect(drain(admission, RETRY, T0)).toBe(room);
        }
      }
    });

    test("a bucket for two hedges pays for two hedges, however many of them win", () => {
      for (const request of [HEDGE, patiently(HEDGE)]) {
        const admission = admissionOf({ retryBudget: { ...TOKENS, refillPerSuccess: 0 } });
        let sent = 0;
        for (let ms = 0; ms < 60_000; ms += 500) {
          const first = entered(admission, FIRST, T0 + ms);
          const hedge = admission.enter(request, undefined, T0 + ms);
          if (hedge !== undefined) {
            sent++;
            leave(admission, hedge, SUCCESS, T0 + ms);
          }
          leave(admission, first, hedge ? { kind: "aborted" } : SUCCESS, T0 + ms);
        }
        expect(sent).toBe(2);
      }
    });
  });

  test("a cold throttle sends 100 parallel first calls to a healthy server, and after two silent minutes again", () => {
    const admission = admissionOf({ throttle: { k: 2, windowMs: 120_000 } }, undefined, always(0));
    for (const now of [T0, T0 + 120_050]) {
      const permits = Array.from({ length: 100 }, () => entered(admission, FIRST, now));
      for (const permit of permits) leave(admission, permit, SUCCESS, now + 50);
    }
  });

  describe("after a gate ends", () => {
    /** Calls in flight at each step, if every admitted call starts and the oldest then succeeds. */
    function ramped(admission: Admission, from: number): number[] {
      const permits: Permit[] = [];
      const sizes: number[] = [];
      for (let now = from; sizes.length < 6; now++) {
        for (let n = 0; n < 50; n++) {
          const permit = admission.enter(FIRST, admission.guards.breaker, now);
          if (permit !== undefined) permits.push(permit);
        }
        sizes.push(permits.length);
        leave(admission, permits.shift() as Permit, SUCCESS, now);
      }
      return sizes;
    }

    const documents = [
      { retryAfterGate: {} },
      { retryAfterGate: {}, concurrency: { algorithm: "FIXED", max: 5 } },
    ] as const;

    test.each(documents)("one call starts and the others follow one by one: %j", (document) => {
      const destination = resolveDestination(document);
      const admission = admissionOf(guardOptionsOf(destination), destination.retryAfterGate);
      leave(admission, entered(admission, FIRST, T0), askedFor(2000), T0);
      expect(admission.check(FIRST, undefined, T0 + 1999)).toBe("hold");
      expect([admission.heldBy, admission.heldUntil]).toEqual(["retry-after", T0 + 2000]);
      const limit = destination.concurrency?.max ?? 100;
      const grown = [1, 2, 3, 4, 5, 6].map((size) => Math.min(size, limit));
      expect(ramped(admission, T0 + 2000)).toEqual(grown);
    });

    test("a clock set back by an hour holds nothing for an hour", () => {
      const admission = throttled(
        admissionOf({ throttle: ALL_GUARDS.throttle }, { maxGateMs: 5000 }, always(0)),
        T0,
      );
      const permit = entered(admissionOf({}), FIRST, T0);
      admission.enter(patiently(FIRST), undefined, T0);
      leave(admission, permit, askedFor(2000), T0);
      const back = T0 - 3_600_000;
      expect(admission.check(FIRST, undefined, back)).toBe("hold");
      expect([admission.heldBy, admission.heldUntil]).toEqual(["retry-after", back + 2000]);
      expect(admission.throttleUntil).toBe(back + 1000);
    });
  });

  describe("leaving", () => {
    test("a breaker that closes starts a ramp; the breaker of one key does not", () => {
      const { breaker: breakerOptions, concurrency } = ALL_GUARDS;
      const admission = admissionOf(
        { breaker: breakerOptions, concurrency },
        undefined,
        always(0.5),
      );
      const keyed = createBreaker(breakerOptions, T0);
      for (const breaker of [keyed, admission.guards.breaker]) {
        for (const [outcome, now] of [
          [FAILED, T0],
          [SUCCESS, T0 + 5000],
        ] as const) {
          const permit = admission.enter(FIRST, breaker, now) as Permit;
          const verdict = outcome === SUCCESS ? "success" : "transient";
          admission.leave(permit, breaker, POLICY, outcome, verdict, 1, now);
        }
        expect(breaker?.state).toBe("CLOSED");
        expect(admission.guards.concurrency?.ramp).toBe(breaker === keyed ? 0 : 1);
      }
    });

    test("an aborted attempt frees its slot and says nothing about the server", () => {
      const admission = admissionOf({ ...ALL_GUARDS, retryBudget: TOKENS }, { maxGateMs: 5000 });
      const permit = entered(admission, RETRY, T0);
      const { throttle, breaker, latency, concurrency } = admission.guards;
      leave(admission, permit, { kind: "aborted", retryAfterMs: 1000 }, T0);
      expect(concurrency).toMatchObject({ inFlight: 0, retriesInFlight: 0 });
      expect(throttle && totalOf(throttle.window, 0)).toBe(0);
      expect(breaker && totalOf(breaker.window, 0)).toBe(0);
      expect(latencyCalls(latency, T0)).toBe(0);
      expect(admission.gateUntil).toBe(0);
      expect(tokensOf(admission.guards.retryBudget)).toBe(14);
    });

    test("a Retry-After on a response that is not retried holds no call", () => {
      const admission = admissionOf({}, { maxGateMs: 5000 });
      const policy = resolvePolicy({ retryableStatusCodes: [503] });
      const outcome = askedFor(2000);
      const end = (by: Policy) => {
        const permit = entered(admission, FIRST, T0);
        admission.leave(permit, undefined, by, outcome, classifyOutcome(by, outcome), 1, T0);
      };
      expect(classifyOutcome(policy, outcome)).toBe("terminal");
      end(policy);
      expect(admission.gateUntil).toBe(0);
      expect(admission.check(FIRST, undefined, T0)).toBeUndefined();
      end(POLICY);
      expect(admission.gateUntil).toBe(T0 + 2000);
      expect(admission.check(FIRST, undefined, T0)).toBe("hold");
    });

    test("a draw is made for a breaker only when it opens", () => {
      let draws = 0;
      const random = { next: () => ++draws && 0.5, fork: () => random };
      const breaker = { ...ALL_GUARDS.breaker, minCalls: 2 };
      const admission = admissionOf({ breaker }, undefined, random);
      leave(admission, entered(admission, FIRST, T0), FAILED, T0);
      expect(draws).toBe(0);
      leave(admission, entered(admission, FIRST, T0), FAILED, T0);
      expect(draws).toBe(1);
    });
  });
});

describe("admission changes", () => {
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
      rampUp(admission, T0);
      expect(admission.guards.concurrency?.ramp).toBe(1);
    });
  });
});

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

describe("retry tokens", () => {
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
});

const policy = resolvePolicy({});

test.each([
  [{ kind: "success" }, "success", "success", true],
  [{ kind: "status", status: 503 }, "failure", "dropped", false],
  [{ kind: "status", status: 500 }, "failure", "ignored", true],
  [{ kind: "status", status: 429 }, "failure", "dropped", false],
  [{ kind: "status", status: 409, retryAfterMs: 1000 }, "success", "ignored", true],
  [{ kind: "status", status: 404 }, "success", "ignored", true],
  [{ kind: "status", status: 501 }, "failure", "ignored", true],
  [{ kind: "grpc", code: "RESOURCE_EXHAUSTED" }, "failure", "dropped", false],
  [{ kind: "grpc", code: "NOT_FOUND" }, "success", "ignored", true],
  [{ kind: "error", errorClass: "timeout", sent: true }, "failure", "dropped", false],
  [{ kind: "error", errorClass: "connect", sent: false }, "failure", "ignored", false],
  [{ kind: "error", errorClass: "tls", sent: false }, "failure", "ignored", false],
  [{ kind: "thrown" }, "ignored", "ignored", false],
  [{ kind: "thrown", verdict: "transient" }, "failure", "ignored", false],
  [{ kind: "thrown", verdict: "terminal" }, "ignored", "ignored", false],
  [{ kind: "fault" }, "ignored", "ignored", false],
  [{ kind: "aborted" }, "ignored", "ignored", false],
] as const satisfies readonly (readonly [Outcome, string, string, boolean])[])(
  "%o counts as %s for the breaker, %s for the limit, and as accepted: %s",
  (outcome, health, load, accepted) => {
    const verdict = classifyOutcome(policy, outcome);
    expect(breakerOutcomeOf(outcome, verdict)).toBe(health);
    expect(concurrencyOutcomeOf(outcome, verdict)).toBe(load);
    expect(isAccepted(outcome, verdict)).toBe(accepted);
  },
);
