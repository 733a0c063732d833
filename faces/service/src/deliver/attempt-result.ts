/**
 * Attempt result: all that an attempt leaves behind, in the words of the attempt's log. Every end
 * that a target, a network or a caller can bring about is such a value, never an exception.
 */
import { type Outcome, parseRetryAfter, statusOutcome } from "@redrive/core";
import type { AttemptPhases, Headers } from "../model/task.ts";
import type { Failure, FailureClass } from "./failure.ts";
import type { ResponseHead } from "./response.ts";

export interface AttemptResult {
  /** For core's `decide`. */
  readonly outcome: Outcome;
  /** The answer's status, also where the answer then broke off. */
  readonly status: number | null;
  readonly errorClass: FailureClass | null;
  /** Without addresses, secrets or anything the target wrote. */
  readonly errorMessage: string | null;
  /** Allowlisted and redacted; null without an answer. */
  readonly responseHeaders: Headers | null;
  /** At most 16 KiB, redacted; null without a body. */
  readonly responseBody: Uint8Array | null;
  /** The body was longer than what is stored, or broke off. */
  readonly truncated: boolean;
  /** What the answer asked for, legal or clamped by core; null on success and without a hint. */
  readonly retryAfterMs: number | null;
  /** Whole ms, wall to wall. */
  readonly durationMs: number;
  /** Whole ms; a reused connection has neither dns, connect nor tls. */
  readonly phases: AttemptPhases;
  /** The id that the target gave its side of the request. */
  readonly targetRequestId: string | null;
}

const NO_PHASES: AttemptPhases = { dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null };

/** The result of an attempt that ended before anything was tried. */
export function notStarted(outcome: Outcome, failure: Failure | null): AttemptResult {
  return {
    outcome,
    status: null,
    errorClass: failure?.errorClass ?? null,
    errorMessage: failure?.errorMessage ?? null,
    responseHeaders: null,
    responseBody: null,
    truncated: false,
    retryAfterMs: null,
    durationMs: 0,
    phases: NO_PHASES,
    targetRequestId: null,
  };
}

/** The outcome of an answer: its status, its hint, and whether it wants to be asked again. */
export function responseOutcome(head: ResponseHead, now: number): Outcome {
  const { status, headers, retryAfter } = head;
  const hintMs = parseRetryAfter(retryAfter, now, headers["date"]);
  const outcome = statusOutcome(status, hintMs);
  const isRefused = outcome.kind === "status" && headers["x-should-retry"] === "false";
  return isRefused ? { ...outcome, refused: true } : outcome;
}

/** The outcome of a failure below HTTP. What policy or grammar forbid is not worth repeating. */
export function failureOutcome({ errorClass }: Failure, isSent: boolean): Outcome {
  switch (errorClass) {
    case "target-denied":
    case "invalid-request":
    case "secret-unavailable":
      return { kind: "fault" };
    default:
      return { kind: "error", errorClass, sent: isSent };
  }
}
