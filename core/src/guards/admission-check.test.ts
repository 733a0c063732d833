/** Tests of what holds or refuses a due attempt, and that `enter` and `admit` agree. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type AdmitDecision, admit, type HoldReason } from "../decide/decide.ts";
import {
  ALL_GUARDS,
  admissionOf,
  always,
  anyRequest,
  anySetup,
  askedFor,
  entered,
  FAILED,
  FIRST,
  HEDGE,
  leave,
  POLICY,
  patiently,
  play,
  RETRY,
  type Setup,
  T0,
} from "./admission.testing.ts";
import {
  type Admission,
  type AdmissionRequest,
  type Refusal,
  replaceGuards,
  THROTTLE_RECHECK_MS,
} from "./admission.ts";
import { adoptBreaker, breakerReadyAt } from "./breaker.ts";
import { CONCURRENCY_DEFAULTS, hasSlot, restartRamp, slotReadyAt } from "./concurrency.ts";
import type { GuardOptions } from "./guards.ts";
import { adaptiveRateReadyAt, rateReadyAt } from "./rate.ts";
import { TOKEN_BUDGET_DEFAULTS, takeRetryToken } from "./retry-budget.ts";
import { createThrottle, enterThrottle } from "./throttle.ts";

const RATE = { perSecond: 1, burst: 1 };
const ONE_SLOT = { ...CONCURRENCY_DEFAULTS, algorithm: "FIXED", max: 1 } as const;
const FOREVER = Number.POSITIVE_INFINITY;

/** The result for an attempt: nothing, a refusal, or the guard that holds it the longest. */
type Entry =
  | { readonly refusal: undefined }
  | { readonly refusal: Exclude<Refusal, "hold"> }
  | { readonly refusal: "hold"; readonly heldBy: HoldReason; readonly heldUntil: number };

const OPEN: Entry = { refusal: undefined };
const held = (heldBy: HoldReason, heldUntil: number): Entry => ({
  refusal: "hold",
  heldBy,
  heldUntil,
});

/** The result of the latest `check` or `enter`. */
function foundBy({ refusal, heldBy, heldUntil }: Admission): Entry {
  return refusal === "hold" ? { refusal, heldBy, heldUntil } : { refusal };
}

function checked(admission: Admission, request: AdmissionRequest, now: number): Entry {
  admission.check(request, admission.guards.breaker, now);
  return foundBy(admission);
}

/** Empties the bucket, and uses up the trial of patient calls. */
function emptied(admission: Admission, now: number): Admission {
  const { retryBudget } = admission.guards;
  while (retryBudget && takeRetryToken(retryBudget, now, false) > 0);
  if (retryBudget) takeRetryToken(retryBudget, now, false, true);
  return admission;
}

function opened({ guards }: Admission, until: number): void {
  const open = { state: "OPEN", openUntil: until, openCount: 1 } as const;
  if (guards.breaker) adoptBreaker(guards.breaker, T0, open);
}

describe("what holds or refuses an attempt", () => {
  test("nothing, if no guard holds it or the hold has just ended", () => {
    const admission = admissionOf({ breaker: ALL_GUARDS.breaker, rate: RATE });
    expect(checked(admission, FIRST, T0)).toEqual(OPEN);
    entered(admission, FIRST, T0 - 1);
    opened(admission, T0 + 1000);
    expect(checked(admission, FIRST, T0 + 999)).not.toEqual(OPEN);
    expect(checked(admission, FIRST, T0 + 1000)).toEqual(OPEN);
  });

  test("an open circuit ends a fail-fast call, and holds a patient one", () => {
    const admission = admissionOf({ breaker: ALL_GUARDS.breaker });
    opened(admission, T0 + 1000);
    expect(checked(admission, FIRST, T0)).toEqual({ refusal: "circuit-open" });
    expect(checked(admission, patiently(FIRST), T0)).toEqual(held("circuit-open", T0 + 1000));
    admission.pausedUntil = T0 + 4000;
    expect(checked(admission, FIRST, T0)).toEqual({ refusal: "circuit-open" });
    expect(checked(admission, patiently(FIRST), T0)).toEqual(held("pause", T0 + 4000));
  });

  test("an open circuit is the reason also if the retry budget is empty", () => {
    const { breaker } = ALL_GUARDS;
    const admission = emptied(admissionOf({ breaker, retryBudget: TOKEN_BUDGET_DEFAULTS }), T0);
    expect(checked(admission, RETRY, T0)).toEqual({ refusal: "retry-budget" });
    opened(admission, T0 + 1);
    expect(checked(admission, RETRY, T0)).toEqual({ refusal: "circuit-open" });
  });

  test("the longest of several holds is reported", () => {
    const options = { rate: RATE, retryBudget: TOKEN_BUDGET_DEFAULTS };
    const admission = admissionOf(options, { maxGateMs: 300_000 });
    entered(admission, FIRST, T0);
    emptied(admission, T0 + 500);
    expect(checked(admission, patiently(RETRY), T0 + 500)).toEqual(held("retry-budget", T0 + 1500));
    expect(checked(admission, FIRST, T0 + 500)).toEqual(held("rate", T0 + 1000));
    admission.gateUntil = T0 + 1200;
    expect(checked(admission, FIRST, T0 + 500)).toEqual(held("retry-after", T0 + 1200));
    admission.gateUntil = T0 + 900;
    expect(checked(admission, FIRST, T0 + 500)).toEqual(held("rate", T0 + 1000));
  });

  test("an empty retry budget ends a fail-fast retry and holds a patient one, never a first attempt", () => {
    const admission = emptied(admissionOf({ retryBudget: TOKEN_BUDGET_DEFAULTS }), T0);
    for (const first of [FIRST, patiently(FIRST)]) {
      expect(checked(admission, first, T0)).toEqual(OPEN);
    }
    for (const again of [RETRY, HEDGE]) {
      expect(checked(admission, again, T0)).toEqual({ refusal: "retry-budget" });
      expect(checked(admission, patiently(again), T0)).toEqual(held("retry-budget", T0 + 1000));
    }
  });

  test("of holds that end together, the first in the order is reported", () => {
    const order: HoldReason[] = [
      "pause",
      "retry-after",
      "circuit-open",
      "rate",
      "retry-budget",
      "throttle",
    ];
    const until = T0 + 1000;
    /** All of these hold until the same instant. */
    function tied(by: readonly HoldReason[]): Admission {
      const options: GuardOptions = {
        ...(by.includes("circuit-open") && { breaker: ALL_GUARDS.breaker }),
        ...(by.includes("rate") && { rate: RATE }),
        ...(by.includes("retry-budget") && { retryBudget: TOKEN_BUDGET_DEFAULTS }),
      };
      const admission = admissionOf(options);
      entered(admission, FIRST, T0);
      emptied(admission, T0);
      opened(admission, until);
      if (by.includes("pause")) admission.pausedUntil = until;
      if (by.includes("retry-after")) admission.gateUntil = until;
      if (by.includes("throttle")) admission.throttleUntil = until;
      return admission;
    }
    const results = order.map((_, n) => checked(tied(order.slice(n)), patiently(RETRY), T0));
    expect(results).toEqual(order.map((by) => held(by, until)));
    expect(checked(tied([]), patiently(RETRY), T0)).toEqual(OPEN);
  });

  test("a throttle that waits for its recheck holds only patient calls", () => {
    const admission = admissionOf({ throttle: ALL_GUARDS.throttle });
    admission.throttleUntil = T0 + 1000;
    expect(checked(admission, FIRST, T0)).toEqual(OPEN);
    expect(checked(admission, patiently(FIRST), T0)).toEqual(held("throttle", T0 + 1000));
  });

  test("without a free slot an attempt waits until something changes, unless another guard has an instant", () => {
    const admission = admissionOf({ concurrency: ONE_SLOT, rate: RATE });
    expect(checked(admission, FIRST, T0)).toEqual(OPEN);
    const permit = entered(admission, FIRST, T0);
    expect(checked(admission, FIRST, T0)).toEqual(held("rate", T0 + 1000));
    expect(checked(admission, FIRST, T0 + 1000)).toEqual(held("concurrency", FOREVER));
    admission.handBack(permit, undefined, T0 + 1000);
    expect(checked(admission, FIRST, T0 + 1000)).toEqual(OPEN);
  });

  test("an attempt waits for a pause without an end", () => {
    const admission = admissionOf({ rate: RATE });
    entered(admission, FIRST, T0);
    admission.pausedUntil = FOREVER;
    expect(checked(admission, FIRST, T0)).toEqual(held("pause", FOREVER));
  });

  test("a destination that allows no retries refuses them before anything else, and admits first attempts", () => {
    const { breaker } = ALL_GUARDS;
    const concurrency = { ...ONE_SLOT, maxRetries: 0 };
    const idle = admissionOf({ concurrency });
    expect(checked(idle, FIRST, T0)).toEqual(OPEN);
    const admission = admissionOf({ concurrency, breaker, rate: RATE });
    entered(admission, FIRST, T0);
    opened(admission, T0 + 9000);
    admission.pausedUntil = FOREVER;
    for (const again of [RETRY, HEDGE, patiently(RETRY), patiently(HEDGE)]) {
      expect(checked(admission, again, T0)).toEqual({ refusal: "overload" });
      expect(checked(idle, again, T0)).toEqual({ refusal: "overload" });
    }
  });
});

describe("agreement of enter, check and admit", () => {
  /** The guards, read one by one, without the throttle's draw. It may change them: pass it a copy. */
  function readGuards(admission: Admission, request: AdmissionRequest, now: number): Entry {
    const { kind, patient, throttled } = request;
    const { guards, tokens, pausedUntil, gateUntil, rampedGate, throttleUntil } = admission;
    const { breaker, rate, adaptiveRate, concurrency } = guards;
    const isRetry = kind !== "first";
    const mayTry = patient && kind === "retry";
    const circuitUntil = breaker ? breakerReadyAt(breaker, now) : 0;
    const tokensUntil = isRetry ? tokens.readyAt(now, throttled, mayTry) : 0;
    if (isRetry && concurrency?.options.maxRetries === 0) return { refusal: "overload" };
    if (!patient && circuitUntil > now) return { refusal: "circuit-open" };
    if (!patient && tokensUntil > now) return { refusal: "retry-budget" };
    const holds: [HoldReason, number][] = [
      ["pause", pausedUntil],
      ["retry-after", gateUntil],
      ["circuit-open", circuitUntil],
      ["rate", rate ? rateReadyAt(rate, now) : 0],
      ["rate", adaptiveRate ? adaptiveRateReadyAt(adaptiveRate, now) : 0],
      ["retry-budget", tokensUntil],
      ["throttle", patient ? throttleUntil : 0],
    ];
    const longest = Math.max(...holds.map(([, until]) => until));
    const [by] = holds.find(([, until]) => until === longest) ?? ["pause"];
    if (longest > now) return held(by, longest);
    if (concurrency === undefined) return OPEN;
    if (gateUntil > rampedGate) restartRamp(concurrency, now);
    if (hasSlot(concurrency, isRetry)) return OPEN;
    const readyAt = slotReadyAt(concurrency, isRetry, now, guards.latency);
    return readyAt > now ? held("concurrency", readyAt) : OPEN;
  }

  /** The same with the throttle's draw: the expected result of `enter`. */
  function readEntry(twins: () => Admission, setup: Setup, request: AdmissionRequest, now: number) {
    const read = readGuards(twins(), request, now);
    const { throttle } = twins().guards;
    if (read.refusal !== undefined || throttle === undefined) return read;
    if (enterThrottle(throttle, now, drawOf(twins(), setup, request, now))) return OPEN;
    const resting = held("throttle", now + THROTTLE_RECHECK_MS);
    return request.patient ? resting : ({ refusal: "overload" } as const);
  }

  /** The number that the throttle will draw: an idle throttle admits the call, and the permit has the number. */
  function drawOf(
    twin: Admission,
    { gate }: Setup,
    request: AdmissionRequest,
    now: number,
  ): number {
    const { guards } = twin;
    const { throttle } = ALL_GUARDS;
    replaceGuards(twin, { ...guards, throttle: createThrottle(throttle, now) }, gate);
    return entered(twin, request, now).draw;
  }

  function admitted(admission: Admission, request: AdmissionRequest, now: number): AdmitDecision {
    const callRequest = request.patient ? ({ patience: "wait" } as const) : {};
    const attempt = request.kind === "first" ? 0 : 1;
    const history = { attempt, startedAt: now, previousDelayMs: 0 };
    return admit(POLICY, callRequest, history, admission, now);
  }

  const anyUntil = fc.constantFrom(0, 0, 1, 1000, FOREVER);
  const anyGate = fc.constantFrom(0, 0, 1, 1000);

  test("enter holds or refuses exactly when the guards say so, and names the one that holds longest", () => {
    fc.assert(
      fc.property(
        anySetup,
        fc.nat(3000),
        anyUntil,
        anyGate,
        anyRequest,
        (setup, laterMs, pausedMs, gateMs, request) => {
          const now = play(setup).now + laterMs;
          const twins = () => {
            const { admission } = play(setup);
            if (pausedMs > 0) admission.pausedUntil = now + pausedMs;
            if (gateMs > 0) admission.gateUntil = Math.max(admission.gateUntil, now + gateMs);
            return admission;
          };
          const asked = twins();
          expect(checked(asked, request, now)).toEqual(readGuards(twins(), request, now));
          const admission = twins();
          const permit = admission.enter(request, admission.guards.breaker, now);
          const { refusal, heldBy, heldUntil } = admission;
          expect(foundBy(admission)).toEqual(readEntry(twins, setup, request, now));
          expect(permit !== undefined).toBe(refusal === undefined);
          if (refusal === "hold") expect(heldUntil).toBeGreaterThan(now);
          // An earlier query, with or without a draw, changes nothing for the next one.
          asked.enter(request, asked.guards.breaker, now);
          expect(foundBy(asked)).toEqual(foundBy(admission));
          // `admit` gets only holds: a refusal has ended the call.
          if (refusal === undefined) expect(admitted(admission, request, now).kind).toBe("go");
          if (refusal !== "hold") return;
          const hold = { kind: "hold", by: heldBy, until: heldUntil, ownDelayMs: 0 };
          expect(admitted(admission, request, now)).toEqual(hold);
        },
      ),
      { numRuns: 1000 },
    );
  });

  test("the ramp after a gate starts with the first query", () => {
    const { concurrency } = ALL_GUARDS;
    const ask = [
      checked,
      (admission: Admission, request: AdmissionRequest, now: number) => {
        expect(admission.enter(request, undefined, now)).toBeUndefined();
        expect(admitted(admission, request, now)).toMatchObject({
          kind: "hold",
          by: "concurrency",
        });
        return foundBy(admission);
      },
    ];
    for (const first of ask) {
      const admission = admissionOf({ concurrency }, { maxGateMs: 300_000 });
      const permits = [entered(admission, FIRST, T0), entered(admission, FIRST, T0)];
      for (const permit of permits.slice(0, 1)) leave(admission, permit, askedFor(1000), T0);
      // The other call is still in flight: the ramp takes its next step after a second.
      expect(first(admission, FIRST, T0 + 1000)).toEqual(held("concurrency", T0 + 2000));
    }
  });

  test("a probe in flight holds a patient attempt, and admit holds it as long", () => {
    const admission = admissionOf({ breaker: ALL_GUARDS.breaker }, undefined, always(0.5));
    leave(admission, entered(admission, FIRST, T0), FAILED, T0);
    entered(admission, FIRST, T0 + 5000);
    expect(admission.enter(patiently(FIRST), admission.guards.breaker, T0 + 5001)).toBeUndefined();
    expect(admitted(admission, patiently(FIRST), T0 + 5001)).toEqual({
      kind: "hold",
      by: "circuit-open",
      until: T0 + 10_000,
      ownDelayMs: 0,
    });
  });
});
