/** Stop reasons: why a call ended. Errors, decisions and metrics all use these words. */

/** Why a call came to its end. A closed union: every face and every metric uses these words. */
export type StopReason =
  | "succeeded"
  /** `maxAttempts` calls were made. */
  | "attempts"
  /** The next attempt cannot end within `totalBudgetMs` or before `deadlineAt`. */
  | "budget"
  /** The same, before any attempt was made: a guard held the call for all of its time. */
  | "held"
  /** The outcome will not get better by repeating. */
  | "not-retryable"
  /** The call may have taken effect, and nothing makes repeating it safe. */
  | "not-idempotent"
  /** The destination's retry budget is empty. */
  | "retry-budget"
  | "circuit-open"
  /** The destination's own limit (concurrency and its queue, or throttling) refused the call. */
  | "overload"
  /** The other side asked for a wait that the total budget does not hold. */
  | "retry-after"
  | "aborted"
  | ServiceReason;

/** Ends that only a durable task can come to. */
export type ServiceReason =
  | "abandoned"
  | "poison"
  | "body-unavailable"
  | "secret-unavailable"
  | "target-denied";
