/**
 * Retry gates: the state of a destination's guards as `decide` reads it, for a retry that is not due
 * yet. `admit` reads the admission itself. Reading spends nothing.
 */

import type { Gates } from "../../decide/decide.ts";
import { type Breaker, openUntil } from "../breaker.ts";
import { medianMs } from "../latency.ts";
import type { Admission } from "./admission.ts";
import { type AdmissionRequest, maySendTrial } from "./permit.ts";

export function retryGates(
  admission: Admission,
  request: AdmissionRequest,
  breaker: Breaker | undefined,
  now: number,
): Gates {
  const { guards, tokens, gateUntil, pausedUntil } = admission;
  const { concurrency, latency } = guards;
  const gates: { -readonly [gate in keyof Gates]: Gates[gate] } = {};
  const circuitOpenUntil = breaker && openUntil(breaker, now);
  if (circuitOpenUntil !== undefined) gates.circuitOpenUntil = circuitOpenUntil;
  const retryBudgetUntil = tokens.readyAt(now, request.throttled, maySendTrial(request));
  if (retryBudgetUntil > now) gates.retryBudgetUntil = retryBudgetUntil;
  if (gateUntil > now) gates.retryAfterUntil = gateUntil;
  if (pausedUntil > now) gates.pausedUntil = pausedUntil;
  if (concurrency?.options.maxRetries === 0) gates.refusesRetries = true;
  const estimatedCallMs = medianMs(latency, now);
  if (estimatedCallMs !== undefined) gates.estimatedCallMs = estimatedCallMs;
  return gates;
}
