/**
 * Decide: what happens after an attempt. The one place in Redrive where retrying is decided; it
 * never waits, stores or looks at a clock, so that three faces can carry out the same decision.
 */
import { curveOf } from "./curve.ts";
import type {
  Decision,
  DelaySource,
  EndStatus,
  HoldDecision,
  HoldReason,
  StopDecision,
  StopReason,
} from "./decision.ts";
import { pick } from "./jitter.ts";
import { judge, type Outcome } from "./outcome.ts";
import type { Policy } from "./policy.ts";
import type { Random } from "./random.ts";
import { type CallRequest, isRepeatable, mayHaveTakenEffect } from "./repeatable.ts";

/** What is remembered of a call between attempts. */
export interface CallHistory {
  /** Attempts made so far: after the first attempt, 1. */
  readonly attempt: number;
  /** When the total budget began to run; epoch ms. */
  readonly startedAt: number;
  /** The policy's own wait before this attempt, without hints; 0 before the first retry. */
  readonly previousDelayMs: number;
}

/** What the destination's guards say now. A gate that is absent is open. */
export interface Gates {
  /** The circuit lets nothing through before this instant. */
  readonly circuitOpenUntil?: number;
  /** The retry budget is empty; asking again earlier than this is vain. */
  readonly retryBudgetUntil?: number;
  /** The destination has asked everybody to stay away until then (Retry-After). */
  readonly retryAfterUntil?: number;
  /** The rate limit has no room before this instant. */
  readonly rateUntil?: number;
  /** Paused by a person; look again then. */
  readonly pausedUntil?: number;
  /** How long a call is likely to take: the destination's median. */
  readonly estimatedCallMs?: number;
}

export const OPEN_GATES: Gates = {};

/**
 * Decides what follows attempt number `history.attempt`. Draws once from `random` for a retry, not
 * at all where the policy leaves nothing to chance.
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
  const verdict = judge(policy, outcome);
  const { attempt, previousDelayMs } = history;
  if (verdict === "success") return stop("succeeded", "SUCCEEDED");
  if (verdict === "aborted") return stop("aborted", "CANCELLED");
  if (verdict === "terminal") return stop("not-retryable");
  if (!isRepeatable(request) && mayHaveTakenEffect(outcome)) return stop("not-idempotent");
  if (attempt >= policy.maxAttempts) return stop("attempts");
  const mostMs = leftMs(policy, request, history, gates, now);
  const askedMs = policy.respectRetryAfter ? outcome.retryAfterMs : undefined;
  const hintMs = Math.min(Math.max(0, askedMs ?? 0), policy.maxRetryAfterMs);
  if (askedMs !== undefined && hintMs > mostMs) return stop("retry-after");
  const throttled = verdict === "throttled";
  const curve = curveOf(policy);
  // Without jitter nothing is drawn, for a hint either: a stream is as long as its retries, or unused.
  const draw = curve.draws ? random.next() : 0;
  const ownDelayMs = curve.delayMs(attempt, previousDelayMs, draw, throttled);
  if (askedMs === undefined) {
    return passGates(request, gates, now, mostMs, ownDelayMs, ownDelayMs, "policy");
  }
  // Never earlier than asked and, unless jitter is NONE, never all at one instant: spread on top.
  const spreadMs = Math.max(curve.ceilingMs(attempt, throttled), Math.floor(hintMs / 10));
  const delayMs = hintMs + pick(0, spreadMs, draw);
  return passGates(request, gates, now, mostMs, ownDelayMs, delayMs, "retry-after");
}

function stop(reason: StopReason, status: EndStatus = "EXHAUSTED"): StopDecision {
  return { kind: "stop", status, reason };
}

/** Nothing sleeps past its budget, nor toward a closed door. */
function passGates(
  request: CallRequest,
  { circuitOpenUntil = 0, retryBudgetUntil }: Gates,
  now: number,
  mostMs: number,
  ownDelayMs: number,
  delayMs: number,
  source: DelaySource,
): Decision {
  if (delayMs > mostMs) return stop("budget");
  const at = now + delayMs;
  const isOpen = circuitOpenUntil > at;
  if (!isOpen && retryBudgetUntil === undefined)
    return { kind: "retry", delayMs, ownDelayMs, source };
  // A shut gate ends an impatient call and holds back a patient one, while its budget lasts.
  const by = isOpen ? "circuit-open" : "retry-budget";
  const until = isOpen ? circuitOpenUntil : Math.max(at, retryBudgetUntil ?? at);
  return request.patience === "wait" ? hold(by, until, ownDelayMs, now, mostMs) : stop(by);
}

function hold(
  by: HoldReason,
  until: number,
  ownDelayMs: number,
  now: number,
  mostMs: number,
): HoldDecision | StopDecision {
  return until - now > mostMs ? stop("budget") : { kind: "hold", by, until, ownDelayMs };
}

/** How long the next attempt may be put off if it is still to end in time. */
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

/** What is left of the total budget and before the deadline. A clock set back gives nothing extra. */
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

/** Nothing stands in the way of the next attempt. */
export interface GoDecision {
  readonly kind: "go";
}

/** What `admit` can answer: never a wait of the policy's own. */
export type Admission = GoDecision | HoldDecision | StopDecision;

const GO: GoDecision = { kind: "go" };

/**
 * Decides whether the attempt after `history.attempt` may start now. An open circuit ends an
 * impatient call; whatever else holds it back is waited for while the budget lasts.
 */
export function admit(
  policy: Policy,
  request: CallRequest,
  history: CallHistory,
  gates: Gates,
  now: number,
): Admission {
  if (history.attempt >= policy.maxAttempts) return stop("attempts");
  if (remainingMs(policy, request, history, now) <= 0) return stop("budget");
  const { circuitOpenUntil = now } = gates;
  if (circuitOpenUntil > now && request.patience !== "wait") return stop("circuit-open");
  const [by, until] = longestHold(gates, history.attempt > 0);
  if (by === undefined || until <= now) return GO;
  const mostMs = leftMs(policy, request, history, gates, now);
  return hold(by, until, history.previousDelayMs, now, mostMs);
}

function longestHold(gates: Gates, retrying: boolean): readonly [HoldReason | undefined, number] {
  let by: HoldReason | undefined;
  let until = 0;
  const consider = (reason: HoldReason, at: number | undefined) => {
    if (at === undefined || at <= until) return;
    by = reason;
    until = at;
  };
  consider("circuit-open", gates.circuitOpenUntil);
  consider("retry-after", gates.retryAfterUntil);
  consider("rate", gates.rateUntil);
  consider("pause", gates.pausedUntil);
  if (retrying) consider("retry-budget", gates.retryBudgetUntil);
  return [by, until];
}
