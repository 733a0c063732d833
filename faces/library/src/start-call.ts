/**
 * Start call: what is checked before the first attempt of a call: its signal, its deadline, its key
 * and the retrying layer around it.
 */
import { assertKey, assertRange, singleAttempt } from "@redrive/core";
import { Call, giveUp, proceed } from "./call.ts";
import { attemptMs, leftMs, requestOf, tell } from "./call-state.ts";
import { NO_ENDING } from "./judgement.ts";
import { keepCall } from "./kept-call.ts";
import { type Layer, layerAbove } from "./layer.ts";

/** Begins the first attempt, unless the call is refused or already aborted. */
export function start<T>(call: Call<T>): void {
  const { signal, deadlineAt, once } = call.options;
  const above = layerAbove(signal);
  const isBare = !(signal || above || once || call.setting.needsCheck) && deadlineAt === undefined;
  if (isBare || isAdmitted(call, above)) proceed(call);
}

/** Checks what few calls bring. False if the call has ended before it began. */
function isAdmitted<T>(call: Call<T>, above: Layer | undefined): boolean {
  const { signal, deadlineAt, once, nested } = call.options;
  if (signal?.aborted) {
    call.reject(signal.reason);
    return false;
  }
  if (deadlineAt !== undefined) assertRange("deadlineAt", deadlineAt, 0, Number.MAX_SAFE_INTEGER);
  call.outer = above;
  const { setting } = call;
  if (setting.needsCheck) {
    assertKey(call.policy, requestOf(call));
    setting.needsCheck = setting.policy.requireIdempotencyKey;
    keepCall(Call<unknown>, setting);
  }
  // Something beside its policy says when the call must end.
  if (above !== undefined || deadlineAt !== undefined) {
    if (leftMs(call) <= 0) {
      giveUp(call, "budget", NO_ENDING);
      return false;
    }
    call.timeoutMs = attemptMs(call);
  }
  signal?.addEventListener("abort", call);
  if (once) call.policy = singleAttempt(call.policy);
  // A layer that retries stands above: this one makes a single attempt, unless it is told not to.
  if (above?.retries && call.policy.maxAttempts > 1 && nested !== "retry") {
    call.policy = singleAttempt(call.policy);
    tell(call, { type: "yield", to: above.where });
  }
  // Who is told of that may have aborted it.
  return !call.over;
}
