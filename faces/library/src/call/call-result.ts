/**
 * Call result: what a failed call resolves or rejects with. That is the operation's own error if
 * nothing was retried, else an error that has every attempt.
 */
import { type AttemptRecord, RedriveError, type StopReason } from "@redrive/core";
import type { Call } from "./call.ts";
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

export function rejectionFor<T>(
  call: Call<T>,
  reason: StopReason,
  result: AttemptResult<T>,
): unknown {
  const isLast = call.options.rejectWith === "last-error" && call.attempts > 0;
  if (isLast && "error" in result) return result.error;
  return giveUpError(
    call.config.name,
    call.attempts,
    reason,
    result,
    call.retryState?.records ?? [],
  );
}

/** Reasons that the caller must learn even if nothing was retried. */
const REPORTED_REASONS: readonly StopReason[] = ["circuit-open", "retry-budget", "overload"];

/** True if the call rejects with what the operation threw: nothing was retried. */
export function isOriginalError<T>(
  attempts: number,
  reason: StopReason,
  result: AttemptResult<T>,
): boolean {
  if (!("error" in result)) return false;
  if (reason === "aborted" || result.isNonRetryable) return true;
  const { error } = result;
  const isTimeout = error instanceof RedriveError && error.code === "ATTEMPT_TIMEOUT";
  return attempts === 1 && !isTimeout && !REPORTED_REASONS.includes(reason);
}

function giveUpError<T>(
  name: string | undefined,
  attempts: number,
  reason: StopReason,
  result: AttemptResult<T>,
  records: readonly AttemptRecord[],
): unknown {
  const cause = "error" in result ? result.error : undefined;
  if (isOriginalError(attempts, reason, result)) return cause;
  const prefix = name === undefined ? "" : `${name}: `;
  const count = `${attempts} attempt${attempts === 1 ? "" : "s"}`;
  const detail = cause instanceof Error && cause.message !== "" ? `: ${cause.message}` : "";
  const message = `${prefix}gave up after ${count} (${reason})${detail}`;
  return new RedriveError("GAVE_UP", message, { reason, attempts: records, cause });
}
