/**
 * Failure records: what a call records about each failed attempt and each scheduled retry. Listeners
 * and the final error get the same details.
 */
import type { AttemptRecord, Outcome, StopDecision, Verdict } from "@redrive/core";
import type { Attempt, Call, NextStep } from "./call.ts";
import { attemptNumbers, emit } from "./emit-event.ts";
import type { AttemptResult } from "./options.ts";
import { createRetryState, type RetryState } from "./retry-state.ts";

/** The call's retry state; created at the first failure. */
export function retryStateOf<T>(call: Call<T>): RetryState<T> {
  call.retryState ??= createRetryState(call.config.random, call.options.idempotencyKey);
  return call.retryState;
}

/** Records a failed attempt and emits it. `waitMs` is the wait that follows; undefined at the end. */
export function recordFailure<T>(
  attempt: Attempt<T>,
  result: AttemptResult<T>,
  outcome: Outcome,
  verdict: Verdict,
  waitMs: number | undefined,
  now: number,
): void {
  const { call, started } = attempt;
  const durationMs = Math.floor(call.config.timer.clock.monotonicMs() - started.monotonicMs);
  const details = {
    ...attemptNumbers(attempt),
    durationMs,
    ...failureDetails(result, outcome, verdict),
  };
  const state = retryStateOf(call);
  state.lastResult = result;
  state.records.push({
    startedAt: now - durationMs,
    ...details,
    ...(waitMs !== undefined && { waitMs }),
  });
  emit(call, { type: "attempt-failed", ...details });
}

function failureDetails<T>(
  result: AttemptResult<T>,
  outcome: Outcome,
  verdict: Verdict,
): Pick<AttemptRecord, "error" | "status" | "requestId"> & { readonly verdict: Verdict } {
  const status = "status" in outcome ? outcome.status : undefined;
  const { requestId } = outcome;
  return {
    verdict,
    ...("error" in result && { error: result.error }),
    ...(status !== undefined && { status }),
    ...(requestId !== undefined && { requestId }),
  };
}

/** Records that another attempt follows, and emits it. */
export function recordRetry<T>(call: Call<T>, step: Exclude<NextStep, StopDecision>): void {
  const { delayMs, ownDelayMs, source } = step;
  retryStateOf(call).previousDelayMs = ownDelayMs;
  emit(call, { type: "retry", attempt: call.attempts + 1, delayMs, source });
}
