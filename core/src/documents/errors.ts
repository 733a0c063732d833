/**
 * Errors: the only error class of Redrive, and the checks of arguments that throw it. Programs read its
 * `code`, and people read its message. Expected outcomes are values, not errors.
 */

/** Every code that Redrive throws. Codes are never reused. A test compares them with `docs/errors.md`. */
export type ErrorCode =
  | "INVALID_ARGUMENT"
  | "INVALID_POLICY"
  | "INVALID_DESTINATION"
  | "INVALID_IMPORT"
  | "IDEMPOTENCY_KEY_REQUIRED"
  | "GAVE_UP"
  | "ATTEMPT_TIMEOUT"
  | "HEDGE_LOST"
  | "HAND_OFF_REFUSED"
  | "CONSUMER_STOPPED"
  | "BROKER_UNAVAILABLE"
  | "IDEMPOTENCY_CONFLICT"
  | "IDEMPOTENCY_KEY_INVALID"
  | "IDEMPOTENCY_IN_PROGRESS"
  | "IDEMPOTENCY_LEASE_LOST"
  | "IDEMPOTENCY_RESPONSE_NOT_STORED"
  | "IDEMPOTENCY_OUTCOME_UNKNOWN"
  | "NOT_EXECUTED"
  | "UNKNOWN_POLICY"
  | "POLICY_CONFLICT"
  | "TASK_NOT_FOUND"
  | "TASK_STATE_CONFLICT"
  | "DESTINATION_BUSY"
  | "BODY_NOT_FOUND"
  | "BODY_STORE_UNAVAILABLE"
  | "UPLOAD_IN_PROGRESS"
  | "STORE_FULL"
  | "STORE_UNAVAILABLE"
  | "STORE_IN_USE"
  | "STORE_DAMAGED"
  | "STORE_REFUSED"
  | "TRANSACTION_FAILED"
  | "TRANSACTION_OPEN"
  | "CLOCK_BEHIND"
  | "SERVICE_STOPPED"
  | "TARGET_DENIED"
  | "TARGET_DISABLED"
  | "SECRET_UNAVAILABLE"
  | "POLICY_IN_USE"
  | "NOT_FOUND"
  | "INVALID_REQUEST"
  | "UNAUTHENTICATED"
  | "FORBIDDEN"
  | "WRONG_HOST"
  | "CROSS_ORIGIN"
  | "METHOD_NOT_ALLOWED"
  | "REQUEST_TIMEOUT"
  | "BODY_TOO_LARGE"
  | "UNSUPPORTED_MEDIA_TYPE"
  | "TOO_MANY_REQUESTS"
  | "QUEUE_FULL"
  | "NOT_MEASURED"
  | "SIMULATION_TOO_LARGE"
  | "SERVER_OVERLOADED"
  | "DEADLINE_PASSED"
  | "LOOP_DETECTED"
  | "INTERNAL";

/** One failed attempt of a call, for reports. */
export interface AttemptRecord {
  /** From 1. */
  readonly attempt: number;
  /** The number of the hedged copy, from 1; absent for the original. */
  readonly copy?: number;
  /** Epoch ms. */
  readonly startedAt: number;
  readonly durationMs: number;
  /** The error that the attempt threw, if any. */
  readonly error?: unknown;
  /** The status of the response, if there was one. */
  readonly status?: number;
  /** How the outcome was classified. */
  readonly verdict: string;
  /** The wait that followed; absent after the last attempt. */
  readonly waitMs?: number;
  /** The id that the server gave to the request, if it sent one. */
  readonly requestId?: string;
}

export interface RedriveErrorDetails {
  readonly cause?: unknown;
  readonly reason?: StopReason;
  readonly attempts?: readonly AttemptRecord[];
  readonly status?: number | undefined;
  readonly retryAfterMs?: number | undefined;
}

export class RedriveError extends Error {
  override readonly name: string = "RedriveError";
  readonly code: ErrorCode;
  /** Why a call was given up; undefined for errors of incorrect use, such as a bad document. */
  readonly reason: StopReason | undefined;
  /** The attempts of the call that was given up; empty for errors of incorrect use. */
  readonly attempts: readonly AttemptRecord[];
  /** Of the response of a service that the error stands for, and the wait that it asked for. */
  declare readonly status?: number;
  declare readonly retryAfterMs?: number;

  constructor(code: ErrorCode, message: string, details: RedriveErrorDetails = {}) {
    super(message, details);
    this.code = code;
    this.reason = details.reason;
    this.attempts = details.attempts ?? [];
    const { status, retryAfterMs } = details;
    if (status !== undefined) Object.assign(this, { status, retryAfterMs });
  }
}

/**
 * The message of whatever was thrown. A refused connection to several addresses has its message in its
 * parts.
 */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0)
    return error.errors.map(messageOf).join("; ");
  return error instanceof Error ? error.message || error.name : String(error);
}

/**
 * An error with a cause. Linters look for the cause in the second argument of `new`, but our
 * constructor has the code there.
 */
export function causedError(code: ErrorCode, message: string, cause: unknown): RedriveError {
  return new RedriveError(code, message, { cause });
}

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

// Checks of the bounds of arguments, with messages that state the bounds. `document.ts` checks documents.

/** Throws unless `value` is a number with `min <= value <= max`. */
export function assertRange(name: string, value: number, min: number, max: number): void {
  if (typeof value === "number" && value >= min && value <= max) return;
  throw invalidArgument(`${name} must be ${min} to ${max}`, value);
}

/** An error for incorrect use. Its message is `text` and then the value, as `shown`. */
export function invalidArgument(
  text: string,
  value: unknown,
  shown: string = quote(value),
): RedriveError {
  return new RedriveError("INVALID_ARGUMENT", `${text}, got ${shown}`);
}

/** A value as it is shown in an error message, at most one line long. */
export function quote(value: unknown): string {
  let text: string = typeof value;
  try {
    text = text === "number" ? String(value) : (JSON.stringify(value) ?? text);
  } catch {
    // A value that is not JSON is shown by its type.
  }
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}
