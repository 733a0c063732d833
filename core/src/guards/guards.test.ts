/**
 * Tests of all guards of one destination together: they survive a restart.
 * Tests of the Retry-After gate: which responses hold every call, and for how long.
 */
import { describe, expect, test } from "vitest";
import type { Outcome } from "../decide/outcome.ts";
import { type PolicyDocument, resolvePolicy } from "../decide/policy.ts";
import { refusalOf } from "../documents/saved-state.testing.ts";
import { seededRandom } from "../time/virtual.ts";
import {
  ALL_GUARDS,
  admissionOf,
  askedFor,
  entered,
  FIRST,
  HEDGE,
  leave,
  patiently,
  RETRY,
  T0,
} from "./admission.testing.ts";
import { Admission, gateUntil, retryGates } from "./admission.ts";
import { enterBreaker, leaveBreaker } from "./breaker.ts";
import { createGuards, GATE_DEFAULTS, type Guards, restoreGuards, saveGuards } from "./guards.ts";
import { recordLatency } from "./latency.ts";
import { recordAdaptiveRateResponse, takeRate } from "./rate.ts";
import { createRetryBudget, TOKEN_BUDGET_DEFAULTS, takeRetryToken } from "./retry-budget.ts";
import { recordThrottleResponse, rejectShare } from "./throttle.ts";

function fail({ breaker }: Guards, now: number): void {
  if (breaker) leaveBreaker(breaker, now, enterBreaker(breaker, now), "failure", 1, () => 0.5);
}

function drain({ retryBudget }: Guards, now: number): void {
  while (retryBudget && takeRetryToken(retryBudget, now, false) > 0);
}

describe("save and restore", () => {
  function worn(): Guards {
    const guards = createGuards(ALL_GUARDS, T0);
    fail(guards, T0);
    drain(guards, T0);
    if (guards.rate) takeRate(guards.rate, T0);
    if (guards.adaptiveRate) recordAdaptiveRateResponse(guards.adaptiveRate, T0, true);
    if (guards.throttle) recordThrottleResponse(guards.throttle, T0, false);
    if (guards.concurrency) guards.concurrency.estimate.limit = 7;
    recordLatency(guards.latency, T0, 300);
    return guards;
  }

  const APPLICANTS = [FIRST, RETRY, patiently(FIRST), patiently(RETRY), patiently(HEDGE)];
  const NAMES = Object.keys(ALL_GUARDS) as (keyof typeof ALL_GUARDS)[];

  /** The guard that holds a due attempt the longest. */
  function entriesOf(guards: Guards, now: number): object[] {
    const admission = new Admission(guards, undefined, seededRandom(1));
    return APPLICANTS.map((applicant) => {
      const refusal = admission.check(applicant, guards.breaker, now);
      const { heldBy, heldUntil } = admission;
      return refusal === "hold" ? { refusal, heldBy, heldUntil } : { refusal };
    });
  }

  /** The guards at an instant, as `decide` and `admit` see them: all together, and each alone. */
  function gatesOf(guards: Guards, now: number): object {
    const none = createGuards({}, T0);
    const admission = new Admission(guards, undefined, seededRandom(1));
    return {
      retry: retryGates(admission, RETRY, guards.breaker, now),
      due: entriesOf(guards, now),
      alone: NAMES.map((name) => entriesOf({ ...none, [name]: guards[name] }, now)),
      rejectShare: guards.throttle && rejectShare(guards.throttle, now),
    };
  }

  test("restored guards agree with the saved ones at every later instant", () => {
    const guards = worn();
    const restored = restoreGuards(
      ALL_GUARDS,
      JSON.parse(JSON.stringify(saveGuards(guards))),
      T0 + 500,
    );
    expect(saveGuards(restored)).toEqual(saveGuards(guards));
    for (const ms of [500, 1999, 2000, 4999, 5000, 10_999, 11_000, 60_000]) {
      expect(gatesOf(restored, T0 + ms)).toEqual(gatesOf(guards, T0 + ms));
    }
  });

  test("a guard that was off starts fresh, one that is off now is omitted", () => {
    const bare = saveGuards(createGuards({}, T0));
    expect(saveGuards(restoreGuards(ALL_GUARDS, bare, T0))).toEqual(
      saveGuards(createGuards(ALL_GUARDS, T0)),
    );
    expect(restoreGuards({}, saveGuards(worn()), T0).breaker).toBeUndefined();
  });

  test("a shared budget comes from its owner, not from the saved state", () => {
    const shared = createRetryBudget(TOKEN_BUDGET_DEFAULTS, T0);
    expect(restoreGuards(ALL_GUARDS, saveGuards(worn()), T0, shared).retryBudget).toBe(shared);
  });

  test("garbage is refused with the name of its guard and field", () => {
    const saved = saveGuards(worn());
    const restore = (value: unknown) => refusalOf(() => restoreGuards(ALL_GUARDS, value, T0));
    expect(restore("x")).toBe('guards must be an object, got "x"');
    expect(restore({ ...saved, version: 2 })).toContain("guards.version");
    expect(restore({ ...saved, breaker: undefined })).toContain("guards.breaker must be present");
    expect(restore({ ...saved, breaker: { ...saved.breaker, openUntil: "soon" } })).toBe(
      'breaker.openUntil must be a whole number from 0 to 9007199254740991, got "soon"',
    );
    expect(restore({ ...saved, latency: 3 })).toBe("latency must be an object, got 3");
  });
});

const until = (outcome: Outcome, document: PolicyDocument = {}, maxGateMs = 300_000) =>
  gateUntil({ maxGateMs }, resolvePolicy(document), outcome, T0);

const status = (code: number, retryAfterMs?: number): Outcome => ({
  kind: "status",
  status: code,
  ...(retryAfterMs !== undefined && { retryAfterMs }),
});

describe("which responses close it", () => {
  test.each([429, 503])("a %d that asks for a wait holds every call for that long", (code) => {
    expect(until(status(code, 7000))).toBe(T0 + 7000);
  });

  test.each([
    ["a 429 that asks for nothing", status(429)],
    ["a 429 that asks for no time", status(429, 0)],
    ["a 429 that asks for less than none", status(429, -5)],
    ["any other status", status(500, 7000)],
    ["a redirect", status(301, 7000)],
    ["a success", { kind: "success", status: 200, retryAfterMs: 7000 }],
    ["gRPC pushback", { kind: "grpc", code: "RESOURCE_EXHAUSTED", retryAfterMs: 7000 }],
    ["a thrown error", { kind: "thrown", retryAfterMs: 7000 }],
  ] as const satisfies readonly (readonly [string, Outcome])[])("%s does not", (_, outcome) => {
    expect(until(outcome)).toBe(0);
  });

  test("a policy that does not respect Retry-After closes no gate", () => {
    expect(until(status(429, 7000), { respectRetryAfter: false })).toBe(0);
  });
});

describe("for how long", () => {
  test("at most maxGateMs, by default five minutes, and at most maxRetryAfterMs of the policy", () => {
    expect(GATE_DEFAULTS).toEqual({ maxGateMs: 300_000 });
    expect(until(status(503, 300_000))).toBe(T0 + 300_000);
    expect(until(status(503, 300_001))).toBe(T0 + 300_000);
    expect(until(status(503, 7000), {}, 1)).toBe(T0 + 1);
    expect(until(status(503, 7000), { maxRetryAfterMs: 2000 })).toBe(T0 + 2000);
  });

  test("a later response never opens it earlier", () => {
    const admission = admissionOf({}, GATE_DEFAULTS);
    const permits = [1, 2, 3].map(() => entered(admission, FIRST, T0));
    const hints = [5000, 1000, 7000];
    const shutUntil = permits.map((permit, n) => {
      leave(admission, permit, askedFor(hints[n] ?? 0), T0 + n);
      return admission.gateUntil - T0;
    });
    expect(shutUntil).toEqual([5000, 5000, 7002]);
  });

  test("a destination without a gate is never closed", () => {
    const admission = admissionOf({}, undefined);
    leave(admission, entered(admission, FIRST, T0), askedFor(5000), T0);
    expect(admission.check(FIRST, undefined, T0)).toBeUndefined();
  });
});
