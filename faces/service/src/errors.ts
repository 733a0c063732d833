/**
 * Errors of the service: core's one error class with the codes that only a durable service needs.
 */
import { type ErrorCode, RedriveError } from "@redrive/core";

export type ServiceErrorCode = Extract<
  ErrorCode,
  /** The key is known with another payload. */
  | "IDEMPOTENCY_CONFLICT"
  | "UNKNOWN_POLICY"
  | "POLICY_CONFLICT"
  | "POLICY_IN_USE"
  | "TASK_NOT_FOUND"
  /** The task has ended otherwise, or is not waiting. */
  | "TASK_STATE_CONFLICT"
  /** The operator does not let tasks go there. */
  | "TARGET_DENIED"
  /** The disk is full: nothing was stored. */
  | "STORE_FULL"
  /** It is not known whether anything was stored; ask again with the same key. */
  | "STORE_UNAVAILABLE"
  | "SERVICE_STOPPED"
  // Of the HTTP front.
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
  | "INTERNAL"
>;

export function serviceError(
  code: ServiceErrorCode,
  message: string,
  cause?: unknown,
): RedriveError {
  return new RedriveError(code, message, cause === undefined ? {} : { cause });
}
