/**
 * Repeatable: whether a call may be sent again although the first one may have taken effect. A timeout
 * is ambiguous; only the method, an idempotency key or a declaration by the caller makes a second call safe.
 */
import { RedriveError } from "../documents/errors.ts";
import type { Outcome } from "./outcome.ts";
import type { Policy } from "./policy.ts";

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

/** RFC 9110 section 9.2.2, and QUERY of RFC 10008. */
const IDEMPOTENT_METHODS = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "QUERY"];

/** True if the call may be repeated although an earlier one may have taken effect. */
export function isRepeatable(request: CallRequest): boolean {
  const { idempotent, idempotencyKey, method } = request;
  // Without a method, the caller wrapped the call to retry it. An empty key does not identify a call.
  if (idempotent === undefined && !idempotencyKey && method === undefined) return true;
  return mayRunTwice(request);
}

/**
 * True if two copies of the call may take effect. A hedge sends a second one while the first one runs, so
 * it needs more than a wish to retry: a safe or idempotent method, a key, or a declaration.
 */
export function mayRunTwice({ idempotent, idempotencyKey, method }: CallRequest): boolean {
  if (idempotent !== undefined) return idempotent;
  return Boolean(idempotencyKey) || IDEMPOTENT_METHODS.includes(method ?? "");
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

// The header `Idempotency-Key`. The IETF draft makes it a string in quotes (RFC 9651); most clients send
// the bare key. Both forms of one key mean the same.

export interface KeyHeader {
  readonly key: string;
  /** The key was in quotes, as the draft demands. */
  readonly isQuoted: boolean;
}

/** Printable ASCII in quotes, where a backslash stands before a quote or a backslash; then parameters. */
const QUOTED = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])+)"(.*)$/;

/** The draft defines no parameters. Unknown ones are ignored, as in every structured field. */
const PARAMETERS =
  /^(?:; *[a-z*][a-z0-9_.*-]*(?:=(?:"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"|[^\s;",]+))?)*$/;

/** Visible ASCII. A comma may come from two headers, which the server has joined. */
const BARE = /^[\x21\x23-\x2b\x2d-\x7e][\x21\x23-\x7e]*$/;

/** Undefined if the value is neither a string in quotes nor a bare key. */
export function parseKeyHeader(value: string): KeyHeader | undefined {
  const text = value.trim();
  const [, quoted, parameters = ""] = QUOTED.exec(text) ?? [];
  if (quoted !== undefined) {
    if (!PARAMETERS.test(parameters)) return undefined;
    return { key: quoted.replace(/\\(["\\])/g, "$1"), isQuoted: true };
  }
  return BARE.test(text) ? { key: text, isQuoted: false } : undefined;
}
