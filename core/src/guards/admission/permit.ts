/**
 * Permit: the request for an attempt, the permit for it, and the reasons to refuse one. `admission.ts`
 * gives permits and takes them back.
 */
import type { Guards } from "../guards.ts";
import type { RetryTickets } from "./retry-tokens.ts";

/** A hedge is an attempt like a retry: it takes a slot, a rate token and a retry token. */
export type AttemptKind = "first" | "retry" | "hedge";

/** The right to make one attempt. Returned exactly once: with `leave`, or unused with `handBack`. */
export interface Permit extends RetryTickets {
  readonly kind: AttemptKind;
  /** As in the request. */
  readonly patient: boolean;
  /** The breaker's pass; 0 without a breaker. */
  readonly pass: number;
  /** When it was taken; the service sets it to the instant of the first byte. */
  at: number;
  /** When it was taken: `handBack` returns only what time has not refilled since then. */
  readonly takenAt: number;
  /** The guards that it was taken from. A guard that replaced one of them does not know the permit. */
  readonly guards: Guards;
  /** The throttle's draw; -1 if there was none. */
  readonly draw: number;
}

/** The kind of attempt that asks for a permit. One object serves all calls of a kind. */
export interface AdmissionRequest {
  readonly kind: AttemptKind;
  /** Waits for a guard instead of failing fast. */
  readonly patient: boolean;
  /** A retry after a throttling response, which may have another cost. */
  readonly throttled: boolean;
}

/** Why there is no permit: a guard holds the attempt, or refuses it for this reason. */
export type Refusal = "hold" | "circuit-open" | "retry-budget" | "overload";

/** Trial retries are for calls that would otherwise wait forever. No call waits for a hedge. */
export function maySendTrial({ kind, patient }: AdmissionRequest): boolean {
  return patient && kind !== "hedge";
}

const BOTH = [false, true];

/** One object for each kind of attempt, so a request for a permit allocates nothing. */
const REQUESTS: readonly AdmissionRequest[] = (["first", "retry"] as const).flatMap((kind) =>
  BOTH.flatMap((patient) => BOTH.map((throttled) => ({ kind, patient, throttled }))),
);

/** The request for a first attempt or a retry. `throttled` matters only for retries. */
export function admissionRequestOf(
  isRetry: boolean,
  patient: boolean,
  throttled: boolean,
): AdmissionRequest {
  return REQUESTS[+isRetry * 4 + +patient * 2 + +throttled] as AdmissionRequest;
}

/** A hedge never waits. */
export const HEDGE_REQUEST: AdmissionRequest = { kind: "hedge", patient: false, throttled: false };
