/**
 * Call result: what a failed call resolves or rejects with. That is the operation's own error if
 * nothing was retried, else an error that has every attempt.
 */
import { RedriveError, type StopReason } from "@redrive/core";
import { type Call, destinationOf } from "./call.ts";
import { isNonRetryable } from "./classify-attempt.ts";
import type { AttemptResult } from "./options.ts";

/** True if the call resolves with its last value although that value is a failure. */
export function resolvesWithLast<T>(
  call: Call<T>,
  result: AttemptResult<T>,
): result is { readonly value: T } {
  return call.options.keepLast === true && "value" in result;
}

/** Settles the caller's promise after a failure. */
export function settleCall<T>(call: Call<T>, result: AttemptResult<T>, error: unknown): void {
  if (resolvesWithLast(call, result)) call.resolve(result.value);
  else call.reject(error);
}

/** True if the call rejects with what the operation threw: nothing was retried. */
export function isOriginalError<T>(
  call: Call<T>,
  reason: StopReason,
  result: AttemptResult<T>,
): boolean {
  if (!("error" in result)) return false;
  if (reason === "aborted" || isNonRetryable(result)) return true;
  const { error } = result;
  const isTimeout = error instanceof RedriveError && error.code === "ATTEMPT_TIMEOUT";
  return call.attempts === 1 && !isTimeout && !destinationOf(call)?.reports(reason);
}

/** What the call rejects with: the operation's own error, or one that has every attempt. */
export function rejectionFor<T>(
  call: Call<T>,
  reason: StopReason,
  result: AttemptResult<T>,
): unknown {
  const { config, options, attempts, retryState } = call;
  const cause = "error" in result ? result.error : undefined;
  const isLast = options.rejectWith === "last-error" && attempts > 0 && "error" in result;
  if (isLast || isOriginalError(call, reason, result)) return cause;
  const prefix = destinationOf(call) ? `${config.name}: ` : "";
  const count = `${attempts} attempt${attempts === 1 ? "" : "s"}`;
  const detail = cause instanceof Error && cause.message !== "" ? `: ${cause.message}` : "";
  const message = `${prefix}gave up after ${count} (${reason})${detail}`;
  return new RedriveError("GAVE_UP", message, {
    reason,
    attempts: retryState?.records ?? [],
    cause,
  });
}
