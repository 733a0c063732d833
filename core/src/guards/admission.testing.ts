/**
 * Shared by the admission tests: guards of every kind, an admission with any history, and a view of its
 * state that shows only what matters for later calls.
 */
import fc from "fast-check";
import { classifyOutcome, type Outcome, SUCCESS } from "../decide/outcome.ts";
import { type Policy, resolvePolicy } from "../decide/policy.ts";
import type { Random } from "../time/clock.ts";
import { Admission, type AdmissionRequest, type Permit } from "./admission.ts";
import { BREAKER_DEFAULTS, type Breaker, breakerReadyAt, breakerState } from "./breaker.ts";
import { CONCURRENCY_DEFAULTS, type Concurrency } from "./concurrency.ts";
import { FleetAdmission } from "./fleet-admission.ts";
import { createGuards, type GateOptions, type GuardOptions, saveGuards } from "./guards.ts";
import {
  ADAPTIVE_RATE_DEFAULTS,
  type AdaptiveRate,
  adaptiveRateReadyAt,
  type Rate,
} from "./rate.ts";
import {
  BudgetShare,
  budgetAllows,
  createRetryBudget,
  GRPC_BUDGET_DEFAULTS,
  RATIO_BUDGET_DEFAULTS,
  type RetryBudget,
  type RetryBudgetOptions,
  SharedBudget,
  saveRetryBudget,
  TOKEN_BUDGET_DEFAULTS,
} from "./retry-budget.ts";
import { rejectShare, saveThrottle, THROTTLE_DEFAULTS, type Throttle } from "./throttle.ts";

export const T0 = 1_700_000_000_000;

/** Time for any hold: these tests are not about deadlines. */
export const POLICY: Policy = resolvePolicy({ totalBudgetMs: 86_400_000 });

export const FIRST: AdmissionRequest = { kind: "first", patient: false, throttled: false };
export const RETRY: AdmissionRequest = { kind: "retry", patient: false, throttled: false };
export const HEDGE: AdmissionRequest = { kind: "hedge", patient: false, throttled: false };

export const patiently = (request: AdmissionRequest): AdmissionRequest => ({
  ...request,
  patient: true,
});

export const FAILED: Outcome = { kind: "status", status: 500 };
const BUSY: Outcome = { kind: "status", status: 429 };
export const askedFor = (retryAfterMs: number): Outcome => ({ ...BUSY, retryAfterMs });

export const ALL_GUARDS: { [name in keyof GuardOptions]-?: NonNullable<GuardOptions[name]> } = {
  retryBudget: RATIO_BUDGET_DEFAULTS,
  breaker: { ...BREAKER_DEFAULTS, minCalls: 1 },
  concurrency: CONCURRENCY_DEFAULTS,
  rate: { perSecond: 10, burst: 1 },
  adaptiveRate: ADAPTIVE_RATE_DEFAULTS,
  throttle: THROTTLE_DEFAULTS,
};

/** Always the same number. 0.999999 passes any throttle; 0 passes none that refuses anything. */
export function always(draw: number): Random {
  const random: Random = { next: () => draw, fork: () => random };
  return random;
}

export const PASSES = 0.999999;

export function admissionOf(
  options: GuardOptions,
  gate?: GateOptions,
  random: Random = always(PASSES),
  serviceBudget?: RetryBudget | SharedBudget,
): Admission {
  return new Admission(createGuards(options, T0), gate, random, shareOf(serviceBudget));
}

/** The same for a node of a fleet that uses the whole limits. */
export function fleetAdmissionOf(
  options: GuardOptions,
  gate?: GateOptions,
  random: Random = always(PASSES),
  serviceBudget?: RetryBudget | SharedBudget,
): FleetAdmission {
  return new FleetAdmission(createGuards(options, T0), gate, random, shareOf(serviceBudget));
}

function shareOf(serviceBudget: RetryBudget | SharedBudget | undefined): BudgetShare | undefined {
  const isBudget = serviceBudget !== undefined && !(serviceBudget instanceof SharedBudget);
  const shared = isBudget ? new SharedBudget(serviceBudget) : serviceBudget;
  return shared && new BudgetShare(shared, "");
}

/** Enters, or fails the test. */
export function entered(admission: Admission, request: AdmissionRequest, now: number): Permit {
  const permit = admission.enter(request, admission.guards.breaker, now);
  if (permit === undefined) throw new Error(`no permit: ${admission.refusal}`);
  return permit;
}

export function leave(
  admission: Admission,
  permit: Permit,
  outcome: Outcome,
  now: number,
  durationMs = 1,
): void {
  const verdict = classifyOutcome(POLICY, outcome);
  admission.leave(permit, admission.guards.breaker, POLICY, outcome, verdict, durationMs, now);
}

/** How many may enter at one instant, up to `max`. */
export function drain(
  admission: Admission,
  request: AdmissionRequest,
  now: number,
  max = 200,
): number {
  let count = 0;
  while (count < max && admission.enter(request, admission.guards.breaker, now)) count++;
  return count;
}

const anyBudget: fc.Arbitrary<RetryBudgetOptions> = fc.constantFrom<RetryBudgetOptions>(
  RATIO_BUDGET_DEFAULTS,
  { ...RATIO_BUDGET_DEFAULTS, minPerSecond: 0, ratio: 0.5 },
  { ...TOKEN_BUDGET_DEFAULTS, maxTokens: 30 },
  { ...GRPC_BUDGET_DEFAULTS, maxTokens: 4 },
);

export const anyRequest: fc.Arbitrary<AdmissionRequest> = fc.record({
  kind: fc.constantFrom("first", "retry", "hedge"),
  patient: fc.boolean(),
  throttled: fc.boolean(),
});

/** Small guards, so each of them often holds. Each of them may be off. */
const anyOptions: fc.Arbitrary<GuardOptions> = fc.record(
  {
    retryBudget: anyBudget,
    breaker: fc.record({
      ...unchanged(BREAKER_DEFAULTS),
      minCalls: fc.constantFrom(2, 5),
      halfOpenProbes: fc.constantFrom(1, 2),
    }),
    concurrency: fc.record({
      ...unchanged(CONCURRENCY_DEFAULTS),
      max: fc.constantFrom(2, 8),
      maxRetries: fc.constantFrom(0, 1, 8),
    }),
    rate: fc.record({ perSecond: fc.constantFrom(1, 3, 40), burst: fc.constantFrom(1, 5) }),
    adaptiveRate: fc.constant(ADAPTIVE_RATE_DEFAULTS),
    throttle: fc.constant(THROTTLE_DEFAULTS),
  },
  { requiredKeys: [] },
);

function unchanged<T extends object>(options: T): { [field in keyof T]: fc.Arbitrary<T[field]> } {
  const fields = Object.entries(options).map(([name, value]) => [name, fc.constant(value)]);
  return Object.fromEntries(fields);
}

export interface Setup {
  readonly options: GuardOptions;
  readonly gate: GateOptions | undefined;
  readonly serviceBudget: RetryBudgetOptions | undefined;
  readonly draws: readonly number[];
  readonly steps: readonly Step[];
}

interface Step {
  readonly gapMs: number;
  readonly request: AdmissionRequest;
  /** What happens to an older permit at the same instant. */
  readonly end: Outcome | "give back" | "nothing";
}

export const anySetup: fc.Arbitrary<Setup> = fc.record({
  options: anyOptions,
  gate: fc.option(fc.constant({ maxGateMs: 4000 }), { nil: undefined }),
  serviceBudget: fc.option(anyBudget, { nil: undefined }),
  draws: fc.array(fc.constantFrom(0, 0.3, PASSES), { minLength: 1, maxLength: 5 }),
  steps: fc.array(
    fc.record({
      gapMs: fc.constantFrom(0, 1, 40, 700, 6000),
      request: anyRequest,
      end: fc.constantFrom<Step["end"]>(
        SUCCESS,
        FAILED,
        FAILED,
        BUSY,
        askedFor(2000),
        { kind: "aborted" },
        "give back",
        "nothing",
      ),
    }),
    { maxLength: 40 },
  ),
});

interface Played<A extends Admission = Admission> {
  readonly admission: A;
  readonly serviceBudget: RetryBudget | undefined;
  readonly random: { draws: number };
  readonly now: number;
}

/** The admission after the steps. The same setup gives the same state. */
export function play(setup: Setup): Played {
  return playOn(admissionOf, setup);
}

export function playFleet(setup: Setup): Played<FleetAdmission> {
  return playOn(fleetAdmissionOf, setup);
}

function playOn<A extends Admission>(
  create: (...parts: Parameters<typeof admissionOf>) => A,
  { options, gate, serviceBudget: budgetOptions, draws, steps }: Setup,
): Played<A> {
  const random = {
    draws: 0,
    next: () => draws[random.draws++ % draws.length] ?? 0,
    fork: () => random,
  };
  const serviceBudget = budgetOptions && createRetryBudget(budgetOptions, T0);
  const admission = create(options, gate, random, serviceBudget);
  const permits: Permit[] = [];
  let now = T0;
  for (const { gapMs, request, end } of steps) {
    now += gapMs;
    const permit = admission.enter(request, admission.guards.breaker, now);
    if (permit !== undefined) permits.push(permit);
    const ended = end === "nothing" ? undefined : permits.shift();
    if (ended === undefined) continue;
    if (end === "give back") admission.handBack(ended, admission.guards.breaker, now);
    else if (end !== "nothing") leave(admission, ended, end, now);
  }
  return { admission, serviceBudget, random, now };
}

/** All state that a permit can take from. */
export function stateOf({
  admission,
  serviceBudget,
}: Pick<Played, "admission" | "serviceBudget">): object {
  const { guards, gateUntil } = admission;
  const { concurrency, retryBudget } = guards;
  return {
    saved: saveGuards(guards),
    inFlight: [concurrency?.inFlight, concurrency?.retriesInFlight],
    serviceBudget: serviceBudget && saveRetryBudget(serviceBudget),
    trials: [retryBudget?.trialAt, serviceBudget?.trialAt],
    gateUntil,
  };
}

/** The same as of `now`: two states that admit the same calls from then on are equal. */
export function viewAt({ admission, serviceBudget }: Played, now: number): object {
  const { guards } = admission;
  const { retryBudget, breaker, concurrency, rate, adaptiveRate, throttle, latency } = guards;
  return {
    ...saveGuards({ ...guards, latency }),
    retryBudget: retryBudget && budgetView(retryBudget, now),
    serviceBudget: serviceBudget && budgetView(serviceBudget, now),
    breaker: breaker && breakerView(breaker, now),
    concurrency: concurrency && concurrencyView(concurrency),
    rate: rate && aheadOf(rate, now),
    adaptiveRate: adaptiveRate && adaptiveView(adaptiveRate, now),
    throttle: throttle && throttleView(throttle, now),
  };
}

/** If a trial is ready, it does not matter when the last one was. */
function budgetView(budget: RetryBudget, now: number): object {
  budgetAllows(budget, now, false);
  return { ...saveRetryBudget(budget), trialAt: Math.max(budget.trialAt, now - 1000) };
}

/** OPEN is HALF_OPEN from `openUntil` on. */
function breakerView(breaker: Breaker, now: number): object {
  const { openCount, successes, openUntil } = breaker;
  const readyAt = breakerReadyAt(breaker, now);
  return { state: breakerState(breaker, now), readyAt, openCount, successes, openUntil };
}

function concurrencyView({ estimate, ramp, inFlight, retriesInFlight }: Concurrency): object {
  return { ...estimate, ramp, inFlight, retriesInFlight };
}

function aheadOf({ options, at, ahead }: Rate, now: number): number {
  return rounded(Math.max(0, ahead - ((now - at) * options.perSecond) / 1000));
}

function adaptiveView(rate: AdaptiveRate, now: number): object {
  adaptiveRateReadyAt(rate, now);
  return { ...rate, tokens: rounded(rate.tokens) };
}

function throttleView(throttle: Throttle, now: number): object {
  rejectShare(throttle, now);
  return saveThrottle(throttle);
}

/** 1.1 - 1 is not 0.1. */
function rounded(value: number): number {
  return Math.round(value * 1e6) / 1e6 + 0;
}
