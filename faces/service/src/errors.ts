/**
 * Errors of the service: core's one error class, from whose closed list of codes every face takes
 * its own; `docs/errors.md` says what each means.
 */
import { type ErrorCode, RedriveError } from "@redrive/core";

export function serviceError(code: ErrorCode, message: string, cause?: unknown): RedriveError {
  return new RedriveError(code, message, cause === undefined ? {} : { cause });
}
