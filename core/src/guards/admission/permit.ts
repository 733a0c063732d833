/**
 * Permit: who may ask for an attempt, what it is given and why it is given nothing. Apart from
 * `admission.ts`, which hands permits out and takes them back.
 */
import type { Guards } from "../guards.ts";
import type { RetryTickets } from "./retry-tokens.ts";

/** A hedge is an attempt like a retry: it takes a slot, a rate token and a retry token. */
export type AttemptKind = "first" | "retry" | "hedge";

/** The right to make one attempt. Handed back exactly once: to `leave`, or unused to `giveBack`. */
export interface Permit extends RetryTickets {
  readonly kind: AttemptKind;
  /** The applicant's. */
  readonly patient: boolean;
  /** The breaker's pass; 0 without a breaker. */
  readonly pass: number;
  /** When it was taken; the service moves it to the first byte. */
  at: number;
  /** When it was taken: `giveBack` returns what time has not returned since then. */
  readonly takenAt: number;
  /** The guards it was taken from. A guard that replaced one of them knows nothing of it. */
  readonly guards: Guards;
  /** What the throttle drew; -1 if it did not. */
  readonly draw: number;
}

/** The kind of attempt that asks for a permit. One object serves all calls of a kind. */
export interface AdmissionRequest {
  readonly kind: AttemptKind;
  /** Waits behind a guard instead of failing fast. */
  readonly patient: boolean;
  /** A retry after a throttling response, which may have another price. */
  readonly throttled: boolean;
}

/** Why no permit was given: a guard holds the attempt, or refuses it for this reason. */
export type Refusal = "hold" | "circuit-open" | "retry-budget" | "overload";

/** Trial retries are for calls that would otherwise wait forever. No call waits for a hedge. */
export function maySendTrial({ kind, patient }: AdmissionRequest): boolean {
  return patient && kind !== "hedge";
}

const BOTH = [false, true];

/** One object for each kind of attempt, so that asking for a permit allocates nothing. */
const REQUESTS: readonly AdmissionRequest[] = (["first", "retry"] as const).flatMap((kind) =>
  BOTH.flatMap((patient) => BOTH.map((throttled) => ({ kind, patient, throttled }))),
);

/** The applicant for a first attempt or a retry. `throttled` matters for retries only. */
export function admissionRequestOf(
  isRetry: boolean,
  patient: boolean,
  throttled: boolean,
): AdmissionRequest {
  return REQUESTS[+isRetry * 4 + +patient * 2 + +throttled] as AdmissionRequest;
}

/** A hedge never waits. */
export const HEDGE_REQUEST: AdmissionRequest = { kind: "hedge", patient: false, throttled: false };
