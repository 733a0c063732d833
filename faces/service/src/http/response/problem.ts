/**
 * Problem: the only place that maps an error to a response: its code to a status, its message to an
 * `application/problem+json` document (RFC 9457). An error without a code is a 500 without details.
 */
import { DocumentError, type ErrorCode, RedriveError } from "@redrive/core";

export const PROBLEM_TYPE = "application/problem+json; charset=utf-8";

export interface ProblemDocument {
  /** A link to the code on the service's `/docs` page, which agrees with `docs/errors.md`. */
  readonly type: string;
  readonly title: string;
  readonly status: number;
  /** Stable, for programs. */
  readonly code: ErrorCode;
  /** For people: what was wrong and how to fix it. */
  readonly detail: string;
  /** The invalid fields; absent if no field is invalid. */
  readonly errors?: readonly FieldError[];
}

export interface FieldError {
  /** Path of the field, e.g. `policy.maxAttempts`. */
  readonly field: string;
  readonly message: string;
}

/** Seconds after which a retry is useful, by status. */
export const RETRY_AFTER_SECONDS: Readonly<Record<number, number>> = { 429: 1, 503: 1, 507: 10 };

const MAX_FIELDS = 20;

/** By code. Codes that only occur in an embedding process are a 500 here. */
const STATUSES: Readonly<Partial<Record<ErrorCode, readonly [status: number, title: string]>>> = {
  INVALID_REQUEST: [400, "The request is malformed"],
  INVALID_ARGUMENT: [400, "A field is invalid"],
  INVALID_POLICY: [400, "The policy is invalid"],
  INVALID_DESTINATION: [400, "The destination is invalid"],
  IDEMPOTENCY_KEY_REQUIRED: [400, "The policy requires an idempotency key"],
  UNAUTHENTICATED: [401, "An API key is required"],
  FORBIDDEN: [403, "The API key may not do this"],
  CROSS_ORIGIN: [403, "Pages of other origins may not do this"],
  NOT_FOUND: [404, "The resource does not exist"],
  TASK_NOT_FOUND: [404, "There is no such task"],
  METHOD_NOT_ALLOWED: [405, "The path does not support this method"],
  REQUEST_TIMEOUT: [408, "The request did not arrive in time"],
  POLICY_CONFLICT: [409, "The policy exists with a different document"],
  POLICY_IN_USE: [409, "The policy is in use"],
  TASK_STATE_CONFLICT: [409, "The task is in another state"],
  UPLOAD_IN_PROGRESS: [409, "A request with the same key is still arriving"],
  BODY_TOO_LARGE: [413, "The body is too large"],
  UNSUPPORTED_MEDIA_TYPE: [415, "The body must be plain JSON"],
  WRONG_HOST: [421, "The Host header names another host"],
  IDEMPOTENCY_CONFLICT: [422, "The idempotency key was used with another payload"],
  UNKNOWN_POLICY: [422, "There is no such policy"],
  BODY_NOT_FOUND: [422, "There is no such stored body"],
  NOT_MEASURED: [422, "The destination was not measured"],
  SIMULATION_TOO_LARGE: [422, "The simulation is too large"],
  STORE_REFUSED: [422, "The store refuses this item"],
  TARGET_DENIED: [422, "The target is not allowed"],
  TARGET_DISABLED: [422, "The target is disabled"],
  TOO_MANY_REQUESTS: [429, "Too many requests"],
  QUEUE_FULL: [429, "Too many tasks are waiting"],
  INTERNAL: [500, "Something went wrong"],
  DESTINATION_BUSY: [503, "Other callers are changing the destination"],
  STORE_UNAVAILABLE: [503, "The store is not available"],
  BODY_STORE_UNAVAILABLE: [503, "The store of large bodies is not available"],
  SERVICE_STOPPED: [503, "The service is stopping"],
  STORE_FULL: [507, "The store is full"],
  LOOP_DETECTED: [508, "The task is in a loop"],
};

/** Every code that a response can have, for the docs page. */
export function problemCatalog(): readonly Pick<ProblemDocument, "code" | "status" | "title">[] {
  return Object.entries(STATUSES).map(([code, [status, title]]) => {
    return { code: code as ErrorCode, status, title };
  });
}

/** The problem document of an error. */
export function problemOf(error: unknown): ProblemDocument {
  if (!(error instanceof RedriveError)) return internal();
  const { code } = error;
  const [status, title] = STATUSES[code] ?? [];
  if (status === undefined || title === undefined || status === 500) return internal();
  const base = { type: typeOf(code), title, status, code, detail: detailOf(error) };
  return error instanceof DocumentError ? { ...base, errors: fieldsOf(error) } : base;
}

/** Details of the store stay in the log. */
function detailOf({ code, message }: RedriveError): string {
  if (code === "STORE_REFUSED") return "nothing was stored: do not send it again unchanged";
  if (code === "STORE_FULL") return "nothing was stored: free disk space, or send it again later";
  if (code === "BODY_STORE_UNAVAILABLE")
    return "large bodies cannot be stored or read now: try again later";
  return code === "STORE_UNAVAILABLE"
    ? "it is unknown what was stored: send it again with the same idempotency key"
    : message;
}

function fieldsOf({ problems }: DocumentError): readonly FieldError[] {
  return problems.slice(0, MAX_FIELDS).map(({ field, message }) => ({ field, message }));
}

function internal(): ProblemDocument {
  const detail = "see the service's log, under the id in x-request-id";
  return {
    type: typeOf("INTERNAL"),
    title: "Something went wrong",
    status: 500,
    code: "INTERNAL",
    detail,
  };
}

function typeOf(code: ErrorCode): string {
  return `/docs#${code}`;
}
