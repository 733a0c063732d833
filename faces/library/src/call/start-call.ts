/**
 * Start call: checks the signal, the deadline, the key and the outer retrying layer of a call, then
 * starts its first attempt.
 */
import { assertKey, invalidArgument, singleAttempt } from "@redrive/core";
import type { Call } from "./call.ts";
import { leftMs, nextTimeoutMs, requestOf } from "./call-deadline.ts";
import { CallExecution, giveUp, startNextAttempt } from "./call-execution.ts";
import { NO_RESULT } from "./classify-attempt.ts";
import { emit } from "./emit-event.ts";
import { retainCall } from "./retained-call.ts";
import { outerLayer, type RetryLayer } from "./retry-layer.ts";

/** About 32 years: no caller's deadline passed so long ago, but a duration or epoch seconds seem to have. */
const LONG_AGO_MS = 1e12;

/** Starts the first attempt, unless the call is refused or already aborted. */
export function startCall<T>(call: Call<T>): void {
  const { signal, deadlineAt, once } = call.options;
  const outer = outerLayer(signal);
  const isBare = !(signal || outer || once || call.config.needsCheck) && deadlineAt === undefined;
  if (isBare || mayStart(call, outer)) startNextAttempt(call);
}

/** Checks what few calls have. False if the call has ended before its first attempt. */
function mayStart<T>(call: Call<T>, outer: RetryLayer | undefined): boolean {
  const { signal, deadlineAt, once, nested } = call.options;
  if (signal?.aborted) {
    call.reject(signal.reason);
    return false;
  }
  call.outer = outer;
  const { config } = call;
  if (config.needsCheck) {
    assertKey(call.policy, requestOf(call));
    config.needsCheck = config.policy.requireIdempotencyKey;
    retainCall(CallExecution<unknown>, config);
  }
  // The policy is not the only limit on the call's time.
  if (outer !== undefined || deadlineAt !== undefined) {
    const now = config.clock.now();
    const instant = deadlineAt ?? now;
    if (!(instant > now - LONG_AGO_MS && instant <= Number.MAX_SAFE_INTEGER)) {
      throw invalidArgument("deadlineAt must be epoch ms, not decades ago", instant);
    }
    if (leftMs(call, now) <= 0) {
      giveUp(call, "budget", NO_RESULT);
      return false;
    }
    call.latest.timeoutMs = nextTimeoutMs(call);
  }
  signal?.addEventListener("abort", call);
  if (once) call.policy = singleAttempt(call.policy);
  // An outer layer already retries, so this call makes a single attempt unless its options say not to.
  if (outer?.retries && call.policy.maxAttempts > 1 && nested !== "retry") {
    call.policy = singleAttempt(call.policy);
    emit(call, { type: "yield", to: outer.location });
  }
  // The listener may have aborted the call.
  return !call.over;
}
