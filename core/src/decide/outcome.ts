/**
 * Outcome: how one attempt ended, in the words every face uses, and the judgement of it under a
 * policy. Thrown errors become outcomes in `classify.ts`.
 */
import type { ErrorClass, GrpcCode } from "../policy/error-classes.ts";
import type { Policy } from "../policy/policy.ts";

/** What an outcome means for the next attempt. */
export type Verdict = "success" | "transient" | "throttled" | "terminal" | "aborted";

interface OutcomeHints {
  /** The wait the other side asked for, in ms from its answer. */
  readonly retryAfterMs?: number;
  /** The other side said not to come back (gRPC pushback, `x-should-retry: false`). */
  readonly refused?: boolean;
  /** The id the other side gave its own side of the request. */
  readonly requestId?: string;
  /** The judgement of the caller, or of a client that knows more than its status; wins over lists. */
  readonly verdict?: Verdict;
}

export type Outcome =
  | ({ readonly kind: "success"; readonly status?: number } & OutcomeHints)
  | ({ readonly kind: "status"; readonly status: number } & OutcomeHints)
  | ({ readonly kind: "grpc"; readonly code: GrpcCode } & OutcomeHints)
  /** Nothing came back. `sent` is false only when it is certain that no byte left. */
  | ({
      readonly kind: "error";
      readonly errorClass: ErrorClass;
      readonly sent: boolean;
    } & OutcomeHints)
  /** An error without marks: whoever wrapped the call asked for it to be repeated. */
  | ({ readonly kind: "thrown" } & OutcomeHints)
  /** An error that is a mistake in a program, or the caller's own refusal. */
  | ({ readonly kind: "fault" } & OutcomeHints)
  | ({ readonly kind: "aborted" } & OutcomeHints)
  /** A crash took the outcome: the call may or may not have taken effect. */
  | ({ readonly kind: "abandoned" } & OutcomeHints);

export const SUCCESS: Outcome = { kind: "success" };

/** The outcome of an HTTP answer: 2xx is success, everything else is up to the policy. */
export function statusOutcome(status: number, retryAfterMs?: number): Outcome {
  if (status >= 200 && status <= 299) return { kind: "success", status };
  return { kind: "status", status, ...(retryAfterMs !== undefined && { retryAfterMs }) };
}

/** The outcome of a gRPC call. */
export function grpcOutcome(code: GrpcCode, pushback?: number | "refused"): Outcome {
  if (code === "OK") return SUCCESS;
  if (code === "CANCELLED") return { kind: "aborted" };
  if (pushback === "refused") return { kind: "grpc", code, refused: true };
  return { kind: "grpc", code, ...(pushback !== undefined && { retryAfterMs: pushback }) };
}

/** What an outcome means under a policy. */
export function classifyOutcome(policy: Policy, outcome: Outcome): Verdict {
  if (outcome.verdict !== undefined) return outcome.verdict;
  if (outcome.refused && outcome.kind !== "success") return "terminal";
  switch (outcome.kind) {
    case "status":
      return verdictByList(policy.retryableStatusCodes, outcome.status, 429);
    case "grpc":
      return verdictByList(policy.retryableGrpcCodes, outcome.code, "RESOURCE_EXHAUSTED");
    case "error":
      return verdictByList(policy.retryableErrors, outcome.errorClass);
    default:
      return VERDICTS[outcome.kind];
  }
}

/** Of the outcomes that no list of the policy names. */
const VERDICTS = {
  success: "success",
  aborted: "aborted",
  fault: "terminal",
  thrown: "transient",
  abandoned: "transient",
} as const;

function verdictByList<T>(retryable: readonly T[], seen: T, throttling?: T): Verdict {
  if (!retryable.includes(seen)) return "terminal";
  return seen === throttling ? "throttled" : "transient";
}
