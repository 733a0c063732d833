/**
 * Errors of the service. They use core's error class and its closed list of codes; `docs/errors.md`
 * explains each code.
 */
import {
  type DestinationDocument,
  DocumentError,
  type ErrorCode,
  fieldProblem,
  RedriveError,
} from "@redrive/core";

export function serviceError(code: ErrorCode, message: string, cause?: unknown): RedriveError {
  return new RedriveError(code, message, cause === undefined ? {} : { cause });
}

export function taskNotFound(taskId: string): RedriveError {
  return serviceError("TASK_NOT_FOUND", `there is no task ${JSON.stringify(taskId)}`);
}

/** A hedge is a second request for one attempt; the service counts every request (decision 10). */
export function hedgeRefused({ hedge }: DestinationDocument): Error {
  const message = "hedge works only in the library: the service sends each attempt once; remove it";
  return new DocumentError("INVALID_DESTINATION", [fieldProblem("hedge", hedge, message)]);
}

/** The store did not respond in time while the service stopped. */
export function stopTimedOut(): Error {
  const text =
    "it did not answer in time while the service stopped: running attempts are abandoned";
  return serviceError("STORE_UNAVAILABLE", `${text}, and recent guard state may be lost`);
}

/** The service accepts no more work. */
export function stopped(): Error {
  return serviceError("SERVICE_STOPPED", "the service is stopping or has stopped");
}
