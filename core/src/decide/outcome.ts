/**
 * Outcome: how one attempt ended, and how a policy classifies it. Library, service and simulator use
 * the same type. `classify.ts` turns thrown errors into outcomes.
 */
import { type ErrorClass, GRPC_CODES, type GrpcCode } from "../policy/error-classes.ts";
import type { Policy } from "../policy/policy.ts";

/** What an outcome means for the next attempt. */
export type Verdict = "success" | "transient" | "throttled" | "terminal" | "aborted";

interface OutcomeHints {
  /** The wait that the server asked for, in ms from its response. */
  readonly retryAfterMs?: number;
  /** The server asked not to retry (gRPC pushback, `x-should-retry: false`). */
  readonly refused?: boolean;
  /** The id that the server gave to the request. */
  readonly requestId?: string;
  /** A classification by the caller, or by a client that knows more than the status; overrides the lists. */
  readonly verdict?: Verdict;
}

export type Outcome =
  | ({ readonly kind: "success"; readonly status?: number } & OutcomeHints)
  | ({ readonly kind: "status"; readonly status: number } & OutcomeHints)
  | ({ readonly kind: "grpc"; readonly code: GrpcCode } & OutcomeHints)
  /** There was no response. `sent` is false only if it is certain that no byte was sent. */
  | ({
      readonly kind: "error";
      readonly errorClass: ErrorClass;
      readonly sent: boolean;
    } & OutcomeHints)
  /** An error without a known code or status. The caller wrapped the call to retry it. */
  | ({ readonly kind: "thrown" } & OutcomeHints)
  /** A bug in the program, or a refusal by the caller. */
  | ({ readonly kind: "fault" } & OutcomeHints)
  | ({ readonly kind: "aborted" } & OutcomeHints)
  /** A crash lost the outcome: the call may or may not have taken effect. */
  | ({ readonly kind: "abandoned" } & OutcomeHints);

export const SUCCESS: Outcome = { kind: "success" };
export const ABORTED: Outcome = { kind: "aborted" };
/** A mistake in the program. A retry would repeat it. */
export const FAULT: Outcome = { kind: "fault" };

/** The outcome of an HTTP response: 2xx is a success, the policy decides about everything else. */
export function statusOutcome(status: number, retryAfterMs?: number): Outcome {
  if (status >= 200 && status <= 299) return { kind: "success", status };
  return { kind: "status", status, ...(retryAfterMs !== undefined && { retryAfterMs }) };
}

/** The outcome of a gRPC call. */
export function grpcOutcome(code: GrpcCode, pushback?: number | "refused"): Outcome {
  if (code === "OK") return SUCCESS;
  if (code === "CANCELLED") return ABORTED;
  if (pushback === "refused") return { kind: "grpc", code, refused: true };
  return { kind: "grpc", code, ...(pushback !== undefined && { retryAfterMs: pushback }) };
}

/**
 * The outcome of a status that was received and stored: of HTTP, or the number of a gRPC code. The policy
 * decides about CANCELLED too, because it was the server that canceled the call.
 */
export function recordedOutcome(status: number): Outcome {
  const code = GRPC_CODES[status];
  if (code === undefined) return statusOutcome(status);
  return code === "OK" ? SUCCESS : { kind: "grpc", code };
}

/** Classifies an outcome under a policy. */
export function classifyOutcome(policy: Policy, outcome: Outcome): Verdict {
  if (outcome.verdict !== undefined) return outcome.verdict;
  if (outcome.refused && outcome.kind !== "success") return "terminal";
  const { kind } = outcome;
  if (kind === "status") return verdictByList(policy.retryableStatusCodes, outcome.status, 429);
  if (kind === "error") return verdictByList(policy.retryableErrors, outcome.errorClass);
  if (kind === "grpc") {
    return verdictByList(policy.retryableGrpcCodes, outcome.code, "RESOURCE_EXHAUSTED");
  }
  return VERDICTS[kind];
}

/** Verdicts of the outcomes that are in no list of the policy. */
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
