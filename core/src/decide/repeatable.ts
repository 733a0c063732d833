/**
 * Repeatable: whether a call may be sent again although the first one may have taken effect. A timeout
 * is ambiguous; only the method, a key or a declaration by the caller makes a second call safe.
 */
import { RedriveError } from "../errors/errors.ts";
import type { Policy } from "../policy/policy.ts";
import type { Outcome } from "./outcome.ts";

/** Whether a caller waits at a closed gate: not at all, or as long as its budget lasts. */
export type Patience = "fail-fast" | "wait";

/** What is known about a call before it is made. */
export interface CallRequest {
  /** HTTP method in capitals. Without a method, the caller wrapped the call to retry it. */
  readonly method?: string | undefined;
  /** Declared by the caller; overrides method and key. */
  readonly idempotent?: boolean | undefined;
  /** The same on every attempt, so the server can recognize a repetition. */
  readonly idempotencyKey?: string | undefined;
  /** Default: `fail-fast`. */
  readonly patience?: Patience | undefined;
  /** No attempt may end after this instant; epoch ms. */
  readonly deadlineAt?: number | undefined;
}

/** RFC 9110 section 9.2.2. */
const IDEMPOTENT_METHODS = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];

/** True if the call may be repeated although an earlier one may have taken effect. */
export function isRepeatable(request: CallRequest): boolean {
  if (request.idempotent !== undefined) return request.idempotent;
  // An empty key does not identify a call.
  if (request.idempotencyKey || request.method === undefined) return true;
  return IDEMPOTENT_METHODS.includes(request.method);
}

/** False only if it is certain that the server received nothing of the call. */
export function mayHaveTakenEffect(outcome: Outcome): boolean {
  return outcome.kind !== "error" || outcome.sent;
}

/** Throws `IDEMPOTENCY_KEY_REQUIRED` for a call without the key that its policy requires. */
export function assertKey(policy: Policy, request: CallRequest): void {
  if (!policy.requireIdempotencyKey || request.idempotencyKey) return;
  const name = policy.policyId === undefined ? "the policy" : `policy "${policy.policyId}"`;
  throw new RedriveError(
    "IDEMPOTENCY_KEY_REQUIRED",
    `${name} requires an idempotency key, got none: pass idempotencyKey`,
  );
}
