/**
 * Errors: the one error class of Redrive. Its `code` says what kind of trouble it is, for programs;
 * its message says what was wrong, for people. Expected ends are values, not errors.
 */
import type { StopReason } from "./stop-reason.ts";

/** Every code any face may throw. Never reused, and kept equal to `docs/errors.md` by a test. */
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
  | "IDEMPOTENCY_CONFLICT"
  | "UNKNOWN_POLICY"
  | "POLICY_CONFLICT"
  | "TASK_NOT_FOUND"
  | "TASK_STATE_CONFLICT"
  | "DESTINATION_BUSY"
  | "STORE_FULL"
  | "STORE_UNAVAILABLE"
  | "SERVICE_STOPPED"
  | "TARGET_DENIED"
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
  | "LOOP_DETECTED"
  | "INTERNAL";

/** One attempt of a call that failed, as it is told to people. */
export interface AttemptRecord {
  /** From 1. */
  readonly attempt: number;
  /** Which hedged copy of it, from 1; absent for the original. */
  readonly copy?: number;
  /** Epoch ms. */
  readonly startedAt: number;
  readonly durationMs: number;
  /** What the attempt threw, if it threw. */
  readonly error?: unknown;
  /** What the other side answered, if it answered. */
  readonly status?: number;
  /** How the outcome was judged. */
  readonly verdict: string;
  /** The wait that followed; absent after the last attempt. */
  readonly waitMs?: number;
  /** The id the other side gave its own side of the request, if it told. */
  readonly requestId?: string;
}

export interface RedriveErrorDetails {
  readonly cause?: unknown;
  readonly reason?: StopReason;
  readonly attempts?: readonly AttemptRecord[];
}

export class RedriveError extends Error {
  override readonly name: string = "RedriveError";
  readonly code: ErrorCode;
  /** Why a call was given up; undefined on errors of use, such as a bad document. */
  readonly reason: StopReason | undefined;
  /** The attempts of the call that was given up; empty on errors of use. */
  readonly attempts: readonly AttemptRecord[];

  constructor(code: ErrorCode, message: string, details: RedriveErrorDetails = {}) {
    super(message, details);
    this.code = code;
    this.reason = details.reason;
    this.attempts = details.attempts ?? [];
  }
}

/**
 * An error with the one behind it, for who catches one and throws another: linters look for a cause
 * in the second argument of `new`, and ours has its code there.
 */
export function causedError(code: ErrorCode, message: string, cause: unknown): RedriveError {
  return new RedriveError(code, message, { cause });
}
