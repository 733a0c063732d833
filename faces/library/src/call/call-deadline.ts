/**
 * Call deadline: how long a call has run, how much time it has left, and what core needs to know
 * about it to decide.
 */
import type { CallHistory, CallRequest } from "@redrive/core";
import type { Call } from "./call.ts";

/** The request that core decides on. Its deadline is the call's or the outer layer's, if earlier. */
export function requestOf<T>(call: Call<T>): CallRequest {
  const { options, outer, destination } = call;
  const { method, idempotent = destination?.idempotent, idempotencyKey, patience } = options;
  const outerAt = outer?.deadlineAt;
  const deadlineAt =
    outerAt === undefined ? options.deadlineAt : Math.min(outerAt, options.deadlineAt ?? outerAt);
  return { method, idempotent, idempotencyKey, patience, deadlineAt };
}

export function historyOf<T>(call: Call<T>, now: number): CallHistory {
  const previousDelayMs = call.retryState?.previousDelayMs ?? 0;
  return { attempt: call.attempts, startedAt: now - elapsedMs(call), previousDelayMs };
}

export function elapsedMs<T>({ config, started, queuedSince = started }: Call<T>): number {
  return Math.floor(config.timer.clock.monotonicMs() - queuedSince.monotonicMs);
}

/** When the whole call must have ended; epoch ms. */
export function deadlineOf<T>(call: Call<T>): number {
  const budgetAt = call.config.clock.now() - elapsedMs(call) + call.policy.totalBudgetMs;
  return Math.min(budgetAt, requestOf(call).deadlineAt ?? budgetAt);
}

/** The time that the whole call has left. */
export function remainingMs<T>(call: Call<T>): number {
  return deadlineOf(call) - call.config.clock.now();
}

/** The timeout of an attempt that starts now. */
export function nextTimeoutMs<T>(call: Call<T>): number {
  const timeoutMs = Math.min(call.policy.attemptTimeoutMs, Math.floor(remainingMs(call)));
  return Math.max(1, timeoutMs);
}
