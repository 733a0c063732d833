/**
 * Schedule: the waits of one call whose every attempt fails at once, attempt by attempt: what the
 * policy allows (ceiling and range) and what chance makes of it under one seed.
 */
import {
  assertRange,
  type CallHistory,
  compiledPolicyOf,
  type Decision,
  decideUnguarded,
  type Policy,
  type PolicyDocument,
  type PresetName,
  type Random,
  seededRandom,
  statusOutcome,
} from "@redrive/core";
import { policyOf } from "./policy-of.ts";

export interface ScheduleOptions {
  /** Default: 1. */
  readonly seed?: number | string;
  /** The call's own stream, as the faces fork it; left out: the seed's. */
  readonly callId?: string;
  /** Every answer asks to be left alone this long (Retry-After). 0 to 365 days. Default: 0, none does. */
  readonly retryAfterMs?: number;
}

/** The wait that follows one failed attempt. */
export interface ScheduledWait {
  /** The attempt that failed, from 1. */
  readonly attempt: number;
  readonly ceilingMs: number;
  /** Chance picks from here to there. */
  readonly lowMs: number;
  readonly highMs: number;
  readonly delayMs: number;
  /** All waits up to and including this one: when the next attempt starts. */
  readonly sumMs: number;
}

export interface Schedule {
  readonly waits: readonly ScheduledWait[];
  readonly sumMs: number;
  readonly attempts: number;
  /** Why it ends: no attempts are left, the total budget is spent, or the hint lies beyond it. */
  readonly endedBy: "attempts" | "budget" | "retry-after";
}

const LAST_DRAW = 1 - 2 ** -53;

export function schedule(
  policy: PolicyDocument | PresetName,
  options: ScheduleOptions = {},
): Schedule {
  const resolved = policyOf(policy);
  const kernel = compiledPolicyOf(resolved);
  const { seed = 1, callId, retryAfterMs = 0 } = options;
  assertRange("retryAfterMs", retryAfterMs, 0, 31_536_000_000);
  const random = callId === undefined ? seededRandom(seed) : seededRandom(seed).fork(callId);
  if (retryAfterMs > 0) return hintedSchedule(resolved, random, retryAfterMs);
  const waits: ScheduledWait[] = [];
  let sumMs = 0;
  let previousMs = 0;
  for (let attempt = 1; attempt < resolved.maxAttempts; attempt++) {
    const draw = kernel.draws ? random.next() : 0;
    const delayMs = kernel.next(attempt, sumMs, previousMs, draw);
    if (delayMs < 0) return { waits, sumMs, attempts: attempt, endedBy: "budget" };
    sumMs += delayMs;
    waits.push({
      attempt,
      ceilingMs: kernel.ceilingMs(attempt),
      lowMs: kernel.delayMs(attempt, previousMs, 0),
      highMs: kernel.delayMs(attempt, previousMs, LAST_DRAW),
      delayMs,
      sumMs,
    });
    previousMs = delayMs;
  }
  return { waits, sumMs, attempts: resolved.maxAttempts, endedBy: "attempts" };
}

/** As `schedule`, asking `decide` itself, because the kernel knows no hints. */
function hintedSchedule(policy: Policy, random: Random, retryAfterMs: number): Schedule {
  // Ranges are told without regard to the budget, as they are without a hint.
  const patient = { ...policy, totalBudgetMs: MAX_BUDGET_MS };
  const waits: ScheduledWait[] = [];
  let sumMs = 0;
  let previousDelayMs = 0;
  for (let attempt = 1; ; attempt++) {
    const history = { attempt, startedAt: 0, previousDelayMs };
    const decision = afterHint(policy, history, retryAfterMs, sumMs, random);
    if (decision.kind !== "retry") {
      return { waits, sumMs, attempts: attempt, endedBy: endOf(decision) };
    }
    const { delayMs, ownDelayMs } = decision;
    const range = (draw: number) =>
      delayOf(afterHint(patient, history, retryAfterMs, sumMs, constantRandom(draw)));
    const [lowMs, highMs] = [range(0), range(LAST_DRAW)];
    const ceilingMs = compiledPolicyOf(policy).ceilingMs(attempt);
    waits.push({ attempt, ceilingMs, lowMs, highMs, delayMs, sumMs: sumMs + delayMs });
    sumMs += delayMs;
    previousDelayMs = ownDelayMs;
  }
}

const MAX_BUDGET_MS = 365 * 86_400_000;

/** What follows a refusal with a hint; worth repeating whatever the policy lists. */
function afterHint(
  policy: Policy,
  history: CallHistory,
  retryAfterMs: number,
  now: number,
  random: Random,
): Decision {
  const outcome = { ...statusOutcome(503, retryAfterMs), verdict: "transient" } as const;
  return decideUnguarded(policy, { idempotent: true }, history, outcome, now, random);
}

function delayOf(decision: Decision): number {
  return decision.kind === "retry" ? decision.delayMs : 0;
}

function endOf(decision: Decision): Schedule["endedBy"] {
  const reason = decision.kind === "stop" ? decision.reason : "attempts";
  return reason === "budget" || reason === "retry-after" ? reason : "attempts";
}

function constantRandom(draw: number): Random {
  return { next: () => draw, fork: () => constantRandom(draw) };
}
