/**
 * Explain: describes a failed call in sentences: how each attempt ended, and why no other followed.
 * It is separate from the error, so that programs that do not use it do not load its texts.
 */
import { type AttemptRecord, callReasonTexts, RedriveError } from "@redrive/core";

/** Why a call failed, in one or two sentences. Takes any value that a call may reject with. */
export function explain(error: unknown): string {
  if (!(error instanceof RedriveError)) {
    return "The call failed with an error of its own at the first attempt, which is not repeated.";
  }
  const { attempts, reason, message } = error;
  if (reason === undefined) return `The call was not made: ${message}.`;
  const descriptions = attempts.map(describe).join(", ");
  const why = `It was given up because ${callReasonTexts[reason as keyof typeof callReasonTexts]}.`;
  if (attempts.length === 0) return why;
  const times = attempts.length === 1 ? "once" : `${attempts.length} times`;
  return `Tried ${times}: ${descriptions}. ${why}`;
}

function describe({ attempt, durationMs, status, error, verdict, waitMs }: AttemptRecord): string {
  const message = error instanceof Error && error.message !== "" ? error.message : verdict;
  const result = status === undefined ? message : `status ${status}`;
  const wait = waitMs === undefined ? "" : `, then waited ${waitMs} ms`;
  return `attempt ${attempt} ended after ${durationMs} ms (${result})${wait}`;
}
