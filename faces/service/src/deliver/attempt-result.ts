/**
 * Attempt result: everything that is known after an attempt, with the field names of the attempt
 * log. Every way in which a target, a network or a caller can end an attempt is such a value, never
 * an exception.
 */
import { headerHint, type Outcome, statusOutcome } from "@redrive/core";
import type { AttemptPhases, Headers } from "../model/task.ts";
import type { BodyFault, Failure, FailureClass, Shortage } from "./failure.ts";
import { type SecretRequest, secretsOf, secretVariants } from "./redact.ts";
import {
  type BodyCapture,
  MAX_STORED_BODY,
  type ResponseHead,
  redactHeaders,
  requestIdOf,
} from "./response.ts";

export interface AttemptResult {
  /** For core's `decide`. */
  readonly outcome: Outcome;
  /** This process lacked something and sent nothing; null: it did not. */
  readonly shortage: Shortage | null;
  /** The stored body could not be read, so no complete request was sent. Default: it could. */
  readonly bodyFault?: BodyFault | undefined;
  /**
   * The status of the response, even if the response broke off later: of HTTP, or the number of the
   * gRPC code.
   */
  readonly status: number | null;
  readonly errorClass: FailureClass | null;
  /** Contains no addresses, no secrets and no text of the target. */
  readonly errorMessage: string | null;
  /** Allowlisted and redacted; null without a response. */
  readonly responseHeaders: Headers | null;
  /** At most 16 KiB, redacted; null without a body. */
  readonly responseBody: Uint8Array | null;
  /** The body was longer than the stored part, or broke off. */
  readonly truncated: boolean;
  /** The wait that the response asked for, clamped by core; null on success and without a hint. */
  readonly retryAfterMs: number | null;
  /** From dispatch to end, in whole ms. */
  readonly durationMs: number;
  /** Whole ms. A reused connection has no dns, connect and tls phase. */
  readonly phases: AttemptPhases;
  /** The request id that the target returned. */
  readonly targetRequestId: string | null;
}

const NO_PHASES: AttemptPhases = { dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null };

/** The result of an attempt that ended before anything was sent. */
export function notStarted(outcome: Outcome, failure: Failure | null): AttemptResult {
  return {
    outcome,
    shortage: failure?.shortage ?? null,
    bodyFault: failure?.bodyFault,
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

/** A failure, or a remark about a response, which has no class. */
export type ResultNote = Omit<Failure, "errorClass"> & {
  readonly errorClass: FailureClass | null;
};

/** What is known about an attempt while it runs. */
export interface AttemptProgress {
  readonly request: SecretRequest;
  readonly head: ResponseHead | undefined;
  readonly body: BodyCapture | undefined;
  readonly dnsMs: number | null;
  readonly connectMs: number | null;
  readonly tlsMs: number | null;
  readonly firstByteMs: number | null;
}

/** The result of an attempt that ends now. `isComplete`: the whole response was received. */
export function resultOf(
  progress: AttemptProgress,
  outcome: Outcome,
  failure: ResultNote | null,
  isComplete: boolean,
  durationMs: number,
): AttemptResult {
  const { head, body } = progress;
  const hasResponse = head !== undefined || body !== undefined;
  const variants = hasResponse ? secretVariants(secretsOf(progress.request)) : NONE;
  const headers = head ? redactHeaders(head.headers, variants) : null;
  return {
    outcome,
    shortage: failure?.shortage ?? null,
    bodyFault: failure?.bodyFault,
    status: head?.status ?? null,
    errorClass: failure?.errorClass ?? null,
    errorMessage: failure?.errorMessage ?? null,
    responseHeaders: headers,
    responseBody: body?.stored(variants, isComplete) ?? null,
    truncated: hasResponse && (!isComplete || (body?.length ?? 0) > MAX_STORED_BODY),
    retryAfterMs: outcome.retryAfterMs ?? null,
    durationMs: Math.round(durationMs),
    phases: phasesOf(progress),
    targetRequestId: headers ? requestIdOf(headers) : null,
  };
}

const NONE: readonly string[] = [];

function phasesOf(progress: AttemptProgress): AttemptPhases {
  return {
    dnsMs: rounded(progress.dnsMs),
    connectMs: rounded(progress.connectMs),
    tlsMs: rounded(progress.tlsMs),
    firstByteMs: rounded(progress.firstByteMs),
  };
}

function rounded(ms: number | null): number | null {
  return ms === null ? null : Math.round(ms);
}

/** The outcome of a response: its status, and its hint for the next attempt. */
export function responseOutcome({ status, headers }: ResponseHead, now: number): Outcome {
  const outcome = statusOutcome(status);
  if (outcome.kind === "success") return outcome;
  const hint = headerHint((name) => headers[name], status, now);
  return hint === undefined ? outcome : { ...outcome, ...hint };
}

/** The outcome of a failure below HTTP. A denied or malformed request is not worth a retry. */
export function failureOutcome({ errorClass }: Failure, isSent: boolean): Outcome {
  switch (errorClass) {
    case "target-denied":
    case "invalid-request":
    case "secret-unavailable":
    case "body-unavailable":
      return { kind: "fault" };
    default:
      return { kind: "error", errorClass, sent: isSent };
  }
}
