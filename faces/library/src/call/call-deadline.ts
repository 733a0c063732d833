/**
 * Call deadline: how long a call has run, how much time it has left, and what core needs to know
 * about it to decide.
 */
import { type CallHistory, type CallRequest, remainingMs } from "@redrive/core";
import { type Call, destinationOf } from "./call.ts";

/** The request that core decides on. Its deadline is the call's or the outer layer's, if earlier. */
export function requestOf<T>(call: Call<T>): CallRequest {
  const { options, outer } = call;
  const { method, idempotent = destinationOf(call)?.idempotent, idempotencyKey } = options;
  const outerAt = outer?.deadlineAt;
  const deadlineAt =
    outerAt === undefined ? options.deadlineAt : Math.min(outerAt, options.deadlineAt ?? outerAt);
  return { method, idempotent, idempotencyKey, deadlineAt };
}

export function historyOf<T>(call: Call<T>, now: number): CallHistory {
  const previousDelayMs = call.retryState?.previousDelayMs ?? 0;
  return { attempt: call.attempts, startedAt: now - elapsedMs(call), previousDelayMs };
}

export function elapsedMs<T>({ config, started, queuedSince = started }: Call<T>): number {
  return Math.floor(config.timer.clock.monotonicMs() - queuedSince.monotonicMs);
}

/** The time that the whole call has left. */
export function leftMs<T>(call: Call<T>, now: number = call.config.clock.now()): number {
  return remainingMs(call.policy, requestOf(call), historyOf(call, now), now);
}

/** When the whole call must have ended; epoch ms. */
export function deadlineOf<T>(call: Call<T>): number {
  const now = call.config.clock.now();
  return now + leftMs(call, now);
}

/** The timeout of an attempt that starts now. */
export function nextTimeoutMs<T>(call: Call<T>): number {
  const timeoutMs = Math.min(call.policy.attemptTimeoutMs, Math.floor(leftMs(call)));
  return Math.max(1, timeoutMs);
}
