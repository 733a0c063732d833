/**
 * Admission changes: changes to a destination's guards from outside its calls: another document, the
 * end of a pause, and the check just before the first byte of an attempt that was claimed earlier.
 * Only the service needs these.
 */

import type { Breaker } from "../breaker.ts";
import { restartRamp } from "../concurrency.ts";
import type { Guards } from "../guards.ts";
import type { GateOptions } from "../retry-after-gate.ts";
import type { Admission } from "./admission.ts";
import { type AdmissionRequest, maySendTrial, type Permit } from "./permit.ts";

/** Replaces the guards after the document has changed. Attempts in flight keep their slots. */
export function replaceGuards(
  admission: Admission,
  guards: Guards,
  gate: GateOptions | undefined,
): void {
  admission.setGuards(guards, gate);
  if (guards.concurrency === undefined) return;
  guards.concurrency.inFlight = admission.inFlight;
  guards.concurrency.retriesInFlight = admission.retriesInFlight;
}

/** A pause ended, or another node closed the breaker: calls follow one by one. */
export function rampUp({ guards }: Admission): void {
  if (guards.concurrency !== undefined) restartRamp(guards.concurrency);
}

/** The gate that ended at that instant was already followed by a ramp, here or on another node. */
export function skipGateRamp(admission: Admission, liftedAt: number): void {
  admission.rampedGate = Math.max(admission.rampedGate, liftedAt);
}

/**
 * Checks a permit just before the first byte, some time after it was taken. False if the attempt must
 * not be sent: a gate has closed, the breaker has changed, or the retry tokens at the current cost are
 * gone. The caller must then hand the permit back.
 */
export function recheckPermit(
  admission: Admission,
  permit: Permit,
  breaker: Breaker | undefined,
  request: AdmissionRequest,
  now: number,
): boolean {
  const { tokens } = admission;
  const { kind, throttled } = request;
  const mayTry = maySendTrial(request);
  if (admission.pausedUntil > now || admission.gateUntil > now) return false;
  if (breaker !== undefined && breaker.generation !== permit.pass) return false;
  if (kind === "first" || (permit.at === now && !throttled)) return true;
  tokens.handBack(permit, true);
  permit.at = now;
  permit.ticket = 0;
  permit.serviceTicket = 0;
  permit.budget = undefined;
  if (tokens.readyAt(now, throttled, mayTry) > now) return false;
  tokens.take(permit, true, now, throttled, mayTry);
  return true;
}
