/** Stop reasons: why a call ended. Errors, decisions and metrics all use these values. */

/** Why a call ended. A closed union: library, service, simulator and metrics all use these values. */
export type StopReason =
  | "succeeded"
  /** All `maxAttempts` attempts were made. */
  | "attempts"
  /** The next attempt cannot end within `totalBudgetMs` or before `deadlineAt`. */
  | "budget"
  /** A guard held the call for all of its time, and no attempt was made. */
  | "held"
  /** Another attempt would have the same outcome. */
  | "not-retryable"
  /** The call may have taken effect, and nothing makes repeating it safe. */
  | "not-idempotent"
  /** The destination's retry budget is empty. */
  | "retry-budget"
  | "circuit-open"
  /** The destination's own limit (concurrency and its queue, or throttling) refused the call. */
  | "overload"
  /** The server asked for a wait that does not fit into the total budget. */
  | "retry-after"
  | "aborted"
  | ServiceReason;

/** Reasons that only durable tasks have. */
export type ServiceReason =
  | "abandoned"
  | "poison"
  | "body-unavailable"
  | "secret-unavailable"
  | "target-denied"
  /** The target responded 410 to an earlier request, and its destination disables such targets. */
  | "target-gone";
