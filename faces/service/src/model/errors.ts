/**
 * Errors of the service: core's one error class, from whose closed list of codes every face takes
 * its own; `docs/errors.md` says what each means.
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

/** A hedge is a second request for one attempt, and here every request is counted (decision 10). */
export function hedgeRefused({ hedge }: DestinationDocument): Error {
  const message = "hedge is for the library: the service sends each attempt once; leave it out";
  return new DocumentError("INVALID_DESTINATION", [fieldProblem("hedge", hedge, message)]);
}

/** The store kept a stop waiting for too long. */
export function stopTimedOut(): Error {
  const text = "it did not answer in time while the service stopped: what runs is abandoned";
  return serviceError("STORE_UNAVAILABLE", `${text}, what the guards learnt last may be lost`);
}

/** Nothing is taken in any more. */
export function stopped(): Error {
  return serviceError("SERVICE_STOPPED", "the service is stopping or has stopped");
}
