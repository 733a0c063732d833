/** Tests of the admission: what an attempt takes and what is returned. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { classifyOutcome, SUCCESS } from "../../decide/outcome.ts";
import { type Policy, resolvePolicy } from "../../policy/policy.ts";
import { createBreaker } from "../breaker.ts";
import { guardOptionsOf, resolveDestination } from "../destination.ts";
import { latencyCalls } from "../latency.ts";
import { RATIO_BUDGET_DEFAULTS } from "../ratio-budget.ts";
import {
  type RetryBudget,
  type RetryBudgetOptions,
  saveRetryBudget,
  TOKEN_BUDGET_DEFAULTS,
} from "../retry-budget.ts";
import { totalOf } from "../sliding-window.ts";
import { enterThrottle, rejectShare, restoreThrottle, saveThrottle } from "../throttle.ts";
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
import { type Admission, type Permit, THROTTLE_RECHECK_MS } from "./admission.ts";

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
        const expected = throttle && restoreThrottle(throttle.options, saveThrottle(throttle), now);
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
    const admission = admissionOf({ throttle: ALL_GUARDS.throttle, rate: RATE }, undefined, random);
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
    const admission = admissionOf({ breaker: breakerOptions, concurrency }, undefined, always(0.5));
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
