/**
 * Explain: an error of a call told in sentences: what each attempt came to, and why there was no
 * further one. Apart from the error itself, so that who never asks does not load the words.
 */
import { type AttemptRecord, callReasonTexts, RedriveError } from "@redrive/core";

/** Why a call failed, in one or two sentences; for any value that a call may reject with. */
export function explain(error: unknown): string {
  if (!(error instanceof RedriveError)) {
    return "The call failed with an error of its own at the first attempt, which is not repeated.";
  }
  const { attempts, reason, message } = error;
  if (reason === undefined) return `The call was not made: ${message}.`;
  const story = attempts.map(describe).join(", ");
  const why = `It was given up because ${callReasonTexts[reason as keyof typeof callReasonTexts]}.`;
  if (attempts.length === 0) return why;
  const times = attempts.length === 1 ? "once" : `${attempts.length} times`;
  return `Tried ${times}: ${story}. ${why}`;
}

function describe({ attempt, durationMs, status, error, verdict, waitMs }: AttemptRecord): string {
  const message = error instanceof Error && error.message !== "" ? error.message : verdict;
  const ending = status === undefined ? message : `status ${status}`;
  const wait = waitMs === undefined ? "" : `, then waited ${waitMs} ms`;
  return `attempt ${attempt} ended after ${durationMs} ms (${ending})${wait}`;
}
