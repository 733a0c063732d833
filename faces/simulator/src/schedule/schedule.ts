/**
 * Schedule: the waits of one call whose attempts all fail at once. For each attempt it gives the
 * ceiling and range that the policy allows, and the wait drawn with one seed.
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
import { policyOf } from "./waits.ts";

export interface ScheduleOptions {
  /** Default: 1. */
  readonly seed?: number | string;
  /** The call's own random stream, as the faces fork it. Default: the stream of the seed. */
  readonly callId?: string;
  /** The Retry-After of every response. 0 to 365 days. Default: 0, no Retry-After. */
  readonly retryAfterMs?: number;
}

/** The wait that follows one failed attempt. */
export interface ScheduledWait {
  /** The attempt that failed, from 1. */
  readonly attempt: number;
  readonly ceilingMs: number;
  /** The range from which the wait is drawn. */
  readonly lowMs: number;
  readonly highMs: number;
  readonly delayMs: number;
  /** The sum of all waits up to and including this one, which is when the next attempt starts. */
  readonly sumMs: number;
}

export interface Schedule {
  readonly waits: readonly ScheduledWait[];
  readonly sumMs: number;
  readonly attempts: number;
  /**
   * Why the schedule ends: no attempts are left, the total budget is used up, or the hint exceeds
   * it.
   */
  readonly endedBy: "attempts" | "budget" | "retry-after";
}

const LAST_DRAW = 1 - 2 ** -53;

export function schedule(
  policy: PolicyDocument | PresetName,
  options: ScheduleOptions = {},
): Schedule {
  const resolved = policyOf(policy);
  const compiled = compiledPolicyOf(resolved);
  const { seed = 1, callId, retryAfterMs = 0 } = options;
  assertRange("retryAfterMs", retryAfterMs, 0, 31_536_000_000);
  const random = callId === undefined ? seededRandom(seed) : seededRandom(seed).fork(callId);
  if (retryAfterMs > 0) return hintedSchedule(resolved, random, retryAfterMs);
  const waits: ScheduledWait[] = [];
  let sumMs = 0;
  let previousMs = 0;
  for (let attempt = 1; attempt < resolved.maxAttempts; attempt++) {
    const draw = compiled.draws ? random.next() : 0;
    const delayMs = compiled.next(attempt, sumMs, previousMs, draw);
    if (delayMs < 0) return { waits, sumMs, attempts: attempt, endedBy: "budget" };
    sumMs += delayMs;
    waits.push({
      attempt,
      ceilingMs: compiled.ceilingMs(attempt),
      lowMs: compiled.delayMs(attempt, previousMs, 0),
      highMs: compiled.delayMs(attempt, previousMs, LAST_DRAW),
      delayMs,
      sumMs,
    });
    previousMs = delayMs;
  }
  return { waits, sumMs, attempts: resolved.maxAttempts, endedBy: "attempts" };
}

/** As `schedule`, but with `decide`, because the compiled policy does not support hints. */
function hintedSchedule(policy: Policy, random: Random, retryAfterMs: number): Schedule {
  // Ranges ignore the total budget, as they do without a hint.
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

/**
 * The decision after a refusal with a hint. The refusal counts as transient, whatever statuses the
 * policy lists.
 */
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
