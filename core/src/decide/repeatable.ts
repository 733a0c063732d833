/**
 * Repeatable: whether a call may be sent again without asking what the first one did. A timeout is
 * ambiguous; only the method, a key or the caller's word makes a second call harmless.
 */
import { RedriveError } from "../errors/errors.ts";
import type { Policy } from "../policy/policy.ts";
import type { Outcome } from "./outcome.ts";

/** How long a caller puts up with a shut gate: not at all, or as long as its budget lasts. */
export type Patience = "fail-fast" | "wait";

/** What is known of a call before it is made. */
export interface CallRequest {
  /** HTTP method in capitals. Without one, wrapping the call has asked for its repetition. */
  readonly method?: string | undefined;
  /** The caller's word; it wins over method and key. */
  readonly idempotent?: boolean | undefined;
  /** The same on every attempt, so that the other side can tell a repetition. */
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
  // An empty key tells no repetition from another call.
  if (request.idempotencyKey || request.method === undefined) return true;
  return IDEMPOTENT_METHODS.includes(request.method);
}

/** False only when it is certain that the other side saw nothing of the call. */
export function mayHaveTakenEffect(outcome: Outcome): boolean {
  return outcome.kind !== "error" || outcome.sent;
}

/** Throws `IDEMPOTENCY_KEY_REQUIRED` for a call without the key that its policy demands. */
export function assertKey(policy: Policy, request: CallRequest): void {
  if (!policy.requireIdempotencyKey || request.idempotencyKey) return;
  const name = policy.policyId === undefined ? "the policy" : `policy "${policy.policyId}"`;
  throw new RedriveError(
    "IDEMPOTENCY_KEY_REQUIRED",
    `${name} requires an idempotency key, got none: pass idempotencyKey`,
  );
}
