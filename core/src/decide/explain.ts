/**
 * Explain: describes a decision in one sentence, for logs, dashboards and the question "why was this
 * not retried?".
 */

import type { ServiceReason, StopReason } from "../documents/errors.ts";
import { formatDuration } from "../documents/format.ts";
import type { CallHistory, Decision, HoldReason } from "./decide.ts";
import type { Outcome } from "./outcome.ts";
import type { Policy } from "./policy.ts";

/** The facts that the decision was based on. */
export interface ExplainedDecision {
  readonly policy: Policy;
  readonly history: CallHistory;
  readonly outcome: Outcome;
  readonly decision: Decision;
  /** When it was decided; epoch ms. */
  readonly now: number;
}

/** One sentence: how the attempt ended, and what follows. */
export function explain(explained: ExplainedDecision): string {
  const { policy, history, outcome } = explained;
  const which = `Attempt ${history.attempt} of ${policy.maxAttempts}`;
  return `${which} ${describeOutcome(outcome)}: ${describeDecision(explained)}.`;
}

function describeOutcome(outcome: Outcome): string {
  switch (outcome.kind) {
    case "success":
      return "succeeded";
    case "status":
      return `was answered with status ${outcome.status}`;
    case "grpc":
      return `was answered with ${outcome.code}`;
    case "error":
      return `failed (${outcome.errorClass}${outcome.sent ? "" : ", nothing was sent"})`;
    case "thrown":
      return "threw an error";
    case "fault":
      return "threw an error that is not a transient failure";
    case "aborted":
      return "was aborted";
    case "abandoned":
      return "was lost in a crash";
  }
}

function describeDecision({ policy, history, decision, outcome, now }: ExplainedDecision): string {
  switch (decision.kind) {
    case "retry": {
      const asked =
        decision.source === "retry-after"
          ? ` (it asked for ${formatDuration(outcome.retryAfterMs ?? 0)})`
          : "";
      return `the next one starts in ${formatDuration(decision.delayMs)}${asked}`;
    }
    case "hold": {
      const isKnown = decision.until < Number.POSITIVE_INFINITY;
      const forMs = isKnown ? ` ${formatDuration(Math.max(0, decision.until - now))}` : "";
      return `held back${forMs} by ${holdDescriptions[decision.by]}`;
    }
    case "stop":
      return describeStop(decision.reason, policy, Math.max(0, now - history.startedAt));
  }
}

/** A description of each guard that can hold an attempt. */
export const holdDescriptions: Readonly<Record<HoldReason, string>> = {
  "circuit-open": "the open circuit",
  "retry-budget": "the empty retry budget",
  "retry-after": "the wait that the destination asked of everybody",
  rate: "the rate limit",
  pause: "a pause",
  throttle: "the throttle",
  concurrency: "the concurrency limit",
};

function describeStop(reason: StopReason, policy: Policy, elapsedMs: number): string {
  const clause = explainReason(reason);
  if (reason === "attempts") return `${clause} (maxAttempts ${policy.maxAttempts})`;
  const timely = reason === "budget" || reason === "held" || reason === "retry-after";
  const figures = ` (${formatDuration(elapsedMs)} of the ${formatDuration(policy.totalBudgetMs)} in totalBudgetMs have passed)`;
  return timely ? clause + figures : clause;
}

/** Reasons that any call can have. Separate, so a program without tasks does not include the others. */
export const callReasonTexts: Readonly<Record<Exclude<StopReason, ServiceReason>, string>> = {
  succeeded: "the call is done",
  attempts: "no attempts are left",
  budget: "another attempt cannot end in time",
  held: "its guards held it until its time was over, before any attempt",
  "not-retryable": "repeating it would not help, so it is not retried",
  "not-idempotent":
    "it may have taken effect and the call is not known to be idempotent, so it is not repeated",
  "retry-budget": "the destination's retry budget is empty",
  "circuit-open": "the destination's circuit is open",
  overload: "the destination's own limit lets no more calls through",
  "retry-after": "the wait it asks for does not fit",
  aborted: "the caller aborted it",
};

const taskReasonTexts: Readonly<Record<ServiceReason, string>> = {
  abandoned: "its outcome was lost and no attempts are left",
  poison: "it was lost in three crashes and is set aside",
  "body-unavailable": "its stored body cannot be read",
  "secret-unavailable": "a stored secret cannot be read",
  "target-denied": "its target is not allowed",
  "target-gone": "its target responded 410 Gone and is disabled",
};

/** Why a call ended, if only the reason is known: a clause without figures. */
export function explainReason(reason: StopReason): string {
  const texts: Readonly<Partial<Record<StopReason, string>>> =
    reason in callReasonTexts ? callReasonTexts : taskReasonTexts;
  return texts[reason] as string;
}
