/**
 * Outcome: how one attempt ended, and how a policy classifies it. Library, service and simulator use
 * the same type. `classify.ts` turns thrown errors into outcomes.
 */
import { type ErrorClass, GRPC_CODES, type GrpcCode, type Policy } from "./policy.ts";

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
  /**
   * Our own timeout ended the attempt, and the attempt had less time than its policy gives to one. The
   * caller's deadline says nothing about the destination, so the guards ignore the outcome.
   */
  readonly cutShort?: true;
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

/** The outcome of an attempt that our own timeout has ended after `timeoutMs`, which may be a sum that is not exact. */
export function timeoutOutcome(policy: Policy, timeoutMs: number, sent = true): Outcome {
  const { attemptTimeoutMs, totalBudgetMs } = policy;
  const isCutShort = timeoutMs + 0.5 < Math.min(attemptTimeoutMs, totalBudgetMs);
  return { kind: "error", errorClass: "timeout", sent, ...(isCutShort && { cutShort: true }) };
}

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

/**
 * A stored status for people: the number of an HTTP status, or the name of a gRPC code, whose number is
 * smaller than every HTTP status.
 */
export function statusText(status: number): string {
  return GRPC_CODES[status] ?? String(status);
}

/** Classifies an outcome under a policy. */
export function classifyOutcome(policy: Policy, outcome: Outcome): Verdict {
  if (outcome.verdict !== undefined) return outcome.verdict;
  if (outcome.refused && outcome.kind !== "success") return "terminal";
  const { kind } = outcome;
  if (kind === "status") return statusVerdict(policy.retryableStatusCodes, outcome);
  if (kind === "error") return verdictByList(policy.retryableErrors, outcome.errorClass);
  if (kind === "grpc") {
    return verdictByList(policy.retryableGrpcCodes, outcome.code, "RESOURCE_EXHAUSTED");
  }
  return VERDICTS[kind];
}

/**
 * True if the call has its answer although it did not succeed: a response below 500 that is not worth
 * another attempt, such as 304 or 404, and that the caller has not classified as a failure.
 */
export function isAnswer(outcome: Outcome, verdict: Verdict): boolean {
  const isFinal = verdict === "terminal" && outcome.verdict === undefined && !outcome.refused;
  return isFinal && outcome.kind === "status" && outcome.status < 500;
}

type StatusOutcome = Extract<Outcome, { kind: "status" }>;

/** Verdicts of the outcomes that are in no list of the policy. */
const VERDICTS = {
  success: "success",
  aborted: "aborted",
  fault: "terminal",
  thrown: "transient",
  abandoned: "transient",
} as const;

function verdictByList<T>(retryable: readonly T[], seen: T, ...throttling: readonly T[]): Verdict {
  if (!retryable.includes(seen)) return "terminal";
  return throttling.includes(seen) ? "throttled" : "transient";
}

function statusVerdict(
  retryable: readonly number[],
  { status, retryAfterMs }: StatusOutcome,
): Verdict {
  // 409 with a wait: an earlier request with the same key still runs, which is as temporary as a 503.
  if (status === 409 && retryAfterMs !== undefined && retryable.includes(503)) return "transient";
  return verdictByList(retryable, status, 429, 529);
}
