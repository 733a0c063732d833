/**
 * Guard outcomes: what an outcome says about the destination's health. A refused request is not a
 * sign of a failing destination, and a bug in the caller's program says nothing at all.
 */

import type { Outcome, Verdict } from "../decide/outcome.ts";
import type { BreakerOutcome } from "./breaker.ts";
import type { ConcurrencyOutcome } from "./concurrency.ts";

/** How the breaker counts an outcome. */
export function breakerOutcomeOf(outcome: Outcome, verdict: Verdict): BreakerOutcome {
  if (verdict === "success") return "success";
  if (verdict === "transient" || verdict === "throttled") return "failure";
  if (verdict === "aborted") return "ignored";
  return finalHealth(outcome);
}

/** Among outcomes that are not retried, a response below 500 shows that the destination works. */
function finalHealth(outcome: Outcome): BreakerOutcome {
  switch (outcome.kind) {
    case "status":
      return outcome.status >= 500 ? "failure" : "success";
    case "grpc":
      return "success";
    case "error":
      return "failure";
    default:
      return "ignored";
  }
}

/** How the concurrency limit counts an outcome: only overload and timeouts are signs of too many calls. */
export function concurrencyOutcomeOf(outcome: Outcome, verdict: Verdict): ConcurrencyOutcome {
  if (verdict === "success") return "success";
  if (verdict === "throttled") return "dropped";
  if (outcome.kind === "status") return outcome.status === 503 ? "dropped" : "ignored";
  return outcome.kind === "error" && outcome.errorClass === "timeout" ? "dropped" : "ignored";
}

/** Whether the throttle counts a call as accepted: any response, even a failed one, except a refusal for overload. */
export function isAccepted(outcome: Outcome, verdict: Verdict): boolean {
  if (breakerOutcomeOf(outcome, verdict) === "success") return true;
  return outcome.kind === "status" && concurrencyOutcomeOf(outcome, verdict) === "ignored";
}
