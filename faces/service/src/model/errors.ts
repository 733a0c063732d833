/**
 * Errors of the service. They use core's error class and its closed list of codes; `docs/errors.md`
 * explains each code.
 */
import { type ErrorCode, RedriveError } from "@redrive/core";

export function serviceError(code: ErrorCode, message: string, cause?: unknown): RedriveError {
  return new RedriveError(code, message, cause === undefined ? {} : { cause });
}

export function taskNotFound(taskId: string): RedriveError {
  return serviceError("TASK_NOT_FOUND", `there is no task ${JSON.stringify(taskId)}`);
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
