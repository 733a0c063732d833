/**
 * Health: what an outcome says about the destination rather than about the call. A refused request
 * is no sign of sickness, a mistake in the caller's program no sign at all.
 */

import type { Outcome, Verdict } from "../decide/outcome.ts";
import type { BreakerOutcome } from "./breaker.ts";
import type { ConcurrencyOutcome } from "./concurrency.ts";

/** What the breaker counts an outcome as. */
export function breakerOutcomeOf(outcome: Outcome, verdict: Verdict): BreakerOutcome {
  if (verdict === "success") return "success";
  if (verdict === "transient" || verdict === "throttled") return "failure";
  if (verdict === "aborted") return "ignored";
  return finalHealth(outcome);
}

/** Of what is not worth repeating, an answer below 500 shows a destination that is well. */
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

/** What a limit on calls under way learns: only overload and silence are signs of too many. */
export function concurrencyOutcomeOf(outcome: Outcome, verdict: Verdict): ConcurrencyOutcome {
  if (verdict === "success") return "success";
  if (verdict === "throttled") return "dropped";
  if (outcome.kind === "status") return outcome.status === 503 ? "dropped" : "ignored";
  return outcome.kind === "error" && outcome.errorClass === "timeout" ? "dropped" : "ignored";
}

/** What a throttle counts as accepted: an answer, even a failed one, that is no refusal for overload. */
export function isAccepted(outcome: Outcome, verdict: Verdict): boolean {
  if (breakerOutcomeOf(outcome, verdict) === "success") return true;
  return outcome.kind === "status" && concurrencyOutcomeOf(outcome, verdict) === "ignored";
}
