/**
 * Decide: what happens after an attempt. Only this file decides about retries. It never waits, stores
 * or reads a clock, so library, service and simulator can carry out the same decision.
 */
import type { StopReason } from "../documents/errors.ts";
import type { Random } from "../time/clock.ts";
import { ceilingMsOf } from "./backoff.ts";
import { ownDelayMsOf, uniformInteger, usesDraws } from "./jitter.ts";
import { classifyOutcome, type Outcome } from "./outcome.ts";
import type { Policy } from "./policy.ts";
import { type CallRequest, isRepeatable, mayHaveTakenEffect } from "./repeatable.ts";

/** The state of a call between attempts. */
export interface CallHistory {
  /** Attempts made so far; 1 after the first attempt. */
  readonly attempt: number;
  /** When the total budget started; epoch ms. */
  readonly startedAt: number;
  /** The policy's own wait before this attempt, without hints; 0 before the first retry. */
  readonly previousDelayMs: number;
  /** The guard that has held the attempt since it was due. Default: none. */
  readonly heldBy?: HoldReason | undefined;
}

/** The current state of the destination's guards. An absent gate is open. */
export interface Gates {
  /** The circuit refuses calls before this instant. */
  readonly circuitOpenUntil?: number;
  /** The retry budget is empty; an earlier check is useless. */
  readonly retryBudgetUntil?: number;
  /** The destination asked all callers to wait until then (Retry-After). */
  readonly retryAfterUntil?: number;
  /** Paused by a person. Infinity: until a person resumes it. */
  readonly pausedUntil?: number;
  /** The destination allows no retries at all (`maxRetries` 0). */
  readonly refusesRetries?: boolean;
  /** Expected duration of a call: the destination's median. */
  readonly estimatedCallMs?: number;
}

/** The guard that holds a due attempt the longest. */
export interface EntryGate {
  readonly heldBy: HoldReason;
  /** Infinity: until something changes. If it is not after now, nothing holds the attempt. */
  readonly heldUntil: number;
  /** The attempt is held at least until then, whatever happens. The rest of the hold may end at any time. */
  readonly heldAtLeastUntil: number;
}

export const OPEN_GATES: Gates = {};

/**
 * Decides what follows attempt number `history.attempt`. Draws once from `random` for a retry, and not
 * at all if the policy uses no random numbers.
 */
export function decide(
  policy: Policy,
  request: CallRequest,
  history: CallHistory,
  outcome: Outcome,
  gates: Gates,
  now: number,
  random: Random,
): Decision {
  const decision = decideUnguarded(policy, request, history, outcome, now, random, gates);
  if (decision.kind === "stop") return decision;
  return passGates(decision, request, gates, now, leftMs(policy, request, history, gates, now));
}

/**
 * The same for a call without a destination, where no guard holds a retry. A program without
 * destinations does not include the code for holds.
 */
export function decideUnguarded(
  policy: Policy,
  request: CallRequest,
  history: CallHistory,
  outcome: Outcome,
  now: number,
  random: Random,
  gates: Gates = OPEN_GATES,
): RetryDecision | StopDecision {
  const verdict = classifyOutcome(policy, outcome);
  const { attempt, previousDelayMs } = history;
  if (verdict === "success") return stop("succeeded", "SUCCEEDED");
  if (verdict === "aborted") return stop("aborted", "CANCELLED");
  if (verdict === "terminal") return stop("not-retryable");
  if (!isRepeatable(request) && mayHaveTakenEffect(outcome)) return stop("not-idempotent");
  if (attempt >= policy.maxAttempts) return stop("attempts");
  if (gates.refusesRetries) return stop("overload");
  const maxWaitMs = leftMs(policy, request, history, gates, now);
  const askedMs = policy.respectRetryAfter ? outcome.retryAfterMs : undefined;
  const hintMs = Math.min(Math.max(0, askedMs ?? 0), policy.maxRetryAfterMs);
  if (askedMs !== undefined && hintMs > maxWaitMs) return stop("retry-after");
  const throttled = verdict === "throttled";
  // Without jitter nothing is drawn, not even for a hint. So the stream depends only on the retries.
  const draw = usesDraws(policy) ? random.next() : 0;
  const ownDelayMs = ownDelayMsOf(policy, attempt, previousDelayMs, draw, throttled);
  // Never earlier than asked and, unless jitter is NONE, not all at one instant: the spread is added.
  const spreadMs = Math.max(ceilingMsOf(policy, attempt, throttled), Math.floor(hintMs / 10));
  const isAsked = askedMs !== undefined;
  const delayMs = isAsked ? hintMs + uniformInteger(0, spreadMs, draw) : ownDelayMs;
  if (delayMs > maxWaitMs) return stop("budget");
  return { kind: "retry", delayMs, ownDelayMs, source: isAsked ? "retry-after" : "policy" };
}

function stop(reason: StopReason, status: EndStatus = "EXHAUSTED"): StopDecision {
  return { kind: "stop", status, reason };
}

/** No call waits longer than its budget, or for an attempt that its guards would refuse. */
function passGates(
  retry: RetryDecision,
  request: CallRequest,
  gates: Gates,
  now: number,
  maxWaitMs: number,
): Decision {
  const { delayMs, ownDelayMs } = retry;
  let latestUntil = now + delayMs;
  if (request.patience !== "wait") {
    if ((gates.circuitOpenUntil ?? 0) > latestUntil) return stop("circuit-open");
    if (gates.retryBudgetUntil !== undefined) return stop("retry-budget");
  }
  let decision: Decision = retry;
  // The guard that holds longest; among equals the first in the admission's order.
  for (const [by, until = 0] of holdsOf(gates)) {
    if (until > latestUntil) decision = { kind: "hold", by, until, ownDelayMs };
    latestUntil = Math.max(latestUntil, until);
  }
  return latestUntil - now > maxWaitMs ? stop("budget") : decision;
}

/** In the admission's order. */
function holdsOf(gates: Gates): readonly (readonly [HoldReason, number | undefined])[] {
  return [
    // It is unknown when a person resumes it, so the retry keeps its time.
    ["pause", gates.pausedUntil === Number.POSITIVE_INFINITY ? 0 : gates.pausedUntil],
    ["retry-after", gates.retryAfterUntil],
    ["circuit-open", gates.circuitOpenUntil],
    ["retry-budget", gates.retryBudgetUntil],
  ];
}

/** How long the next attempt can be delayed and still end in time. */
function leftMs(
  policy: Policy,
  request: CallRequest,
  history: CallHistory,
  gates: Gates,
  now: number,
): number {
  const callMs = Math.max(policy.minCallMs, gates.estimatedCallMs ?? 0);
  return remainingMs(policy, request, history, now) - callMs;
}

/** The rest of the total budget and of the time before the deadline. A clock set back adds nothing. */
export function remainingMs(
  policy: Policy,
  request: CallRequest,
  history: CallHistory,
  now: number,
): number {
  const budgetMs = policy.totalBudgetMs - Math.max(0, now - history.startedAt);
  const { deadlineAt } = request;
  return deadlineAt === undefined ? budgetMs : Math.min(budgetMs, deadlineAt - now);
}

/** The next attempt may start. */
interface GoDecision {
  readonly kind: "go";
}

/** The results of `admit`: never a wait of the policy itself. */
export type AdmitDecision = GoDecision | HoldDecision | StopDecision;

const GO: GoDecision = { kind: "go" };

/**
 * Decides whether the attempt after `history.attempt` may start now or waits for the guard that holds
 * it. A call does not wait for a guard that holds it longer than its remaining time. A call that was held
 * does not start without the time that calls usually take: after an overload, all calls that waited would
 * start just before their end and time out, and the destination would work for nobody.
 */
export function admit(
  policy: Policy,
  request: CallRequest,
  history: CallHistory,
  { heldBy, heldUntil, heldAtLeastUntil }: EntryGate,
  now: number,
  usualCallMs = 0,
): AdmitDecision {
  if (history.attempt >= policy.maxAttempts) return stop("attempts");
  const restMs = remainingMs(policy, request, history, now);
  const isLate = history.heldBy !== undefined && restMs < Math.max(policy.minCallMs, usualCallMs);
  if (restMs <= 0 || isLate) return outOfTime(history, history.heldBy);
  if (heldUntil <= now) return GO;
  if (heldAtLeastUntil - now >= restMs) return outOfTime(history, heldBy);
  return { kind: "hold", by: heldBy, until: heldUntil, ownDelayMs: history.previousDelayMs };
}

/** The gate when nothing holds an attempt. */
export const OPEN_ENTRY: EntryGate = { heldBy: "pause", heldUntil: 0, heldAtLeastUntil: 0 };

function outOfTime({ attempt }: CallHistory, by: HoldReason | undefined): StopDecision {
  if (attempt > 0 || by === undefined) return stop("budget");
  return { ...stop("held"), by };
}

// The possible decisions, as plain values. The library awaits them, the service writes them to a row, and
// the simulator puts them on its event queue.

/** The state a task ends in. */
export type EndStatus = "SUCCEEDED" | "EXHAUSTED" | "CANCELLED";

/** Which guard holds an attempt. */
export type HoldReason =
  | "circuit-open"
  | "retry-budget"
  | "retry-after"
  | "rate"
  | "pause"
  | "throttle"
  | "concurrency";

/** Where a wait comes from: the policy's own curve, or the server's hint. */
export type DelaySource = "policy" | "retry-after";

export interface RetryDecision {
  readonly kind: "retry";
  /** How long to wait before the next attempt; whole ms. */
  readonly delayMs: number;
  /** The policy's own wait without any hint: the next call's `previousDelayMs`. */
  readonly ownDelayMs: number;
  readonly source: DelaySource;
}

/** A gate is closed and the caller is patient: wait without using an attempt, then check again. */
export interface HoldDecision {
  readonly kind: "hold";
  readonly by: HoldReason;
  /**
   * Epoch ms; never earlier than the policy's own wait. Infinity: until something changes (a slot
   * becomes free, a person resumes the destination).
   */
  readonly until: number;
  /** As in a retry: the policy's own wait. */
  readonly ownDelayMs: number;
}

export interface StopDecision {
  readonly kind: "stop";
  readonly status: EndStatus;
  readonly reason: StopReason;
  /** The guard that held the call; only with the reason `held`. */
  readonly by?: HoldReason;
}

export type Decision = RetryDecision | HoldDecision | StopDecision;
