/**
 * Judgement: what an attempt's ending comes to as an outcome of core: by the caller's classifier
 * where it has a word to say, by the marks on the error where it has none.
 */
import {
  classifyError,
  type Outcome,
  quote,
  RedriveError,
  thrownHint,
  type Verdict,
} from "@redrive/core";
import type { Classify, Ending } from "./options.ts";

/** The caller's own mistake: repeating would repeat it. */
export const FAULT: Outcome = { kind: "fault" };

export const ABORTED: Outcome = { kind: "aborted" };

/** A call that never left has no error of its own. */
export const NO_ENDING: Ending<never> = { error: undefined };

/** True if the ending is still to come. */
export function isThenable<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof (value as PromiseLike<T> | undefined)?.then === "function";
}

const VERDICTS: readonly unknown[] = ["success", "transient", "throttled", "terminal", "aborted"];

/** A judgement that is none must not be taken for "again": what succeeded would be repeated. */
export function sure(verdict: Verdict): Verdict {
  if (VERDICTS.includes(verdict)) return verdict;
  const text = `classify must give a verdict, got ${quote(verdict)}`;
  throw new RedriveError("INVALID_ARGUMENT", text);
}

/** The caller's judgement: a verdict on what was seen, or an outcome in its place. */
export function outcomeBy<T>(
  classify: Classify<T> | undefined,
  ending: Ending<T>,
  attempt: number,
  seen: Outcome,
): Outcome {
  const own: Verdict | Outcome | undefined = classify?.(ending, attempt);
  if (own === undefined) return seen;
  return typeof own === "object" && own !== null ? own : { ...seen, verdict: own };
}

/**
 * What a thrown value stands for, and the hint it carries. Our own timeout is known by its code; an
 * inner call that was given up by what it failed with, and if it may not be repeated below, it may not
 * be here; our other errors are mistakes in a program.
 */
export function outcomeOf(error: unknown, now: number): Outcome {
  if (!(error instanceof RedriveError) || error.code === "ATTEMPT_TIMEOUT") {
    return { ...classifyError(error), ...thrownHint(error, now) };
  }
  if (error.code !== "GAVE_UP") return FAULT;
  const outcome = outcomeOf(error.cause, now);
  return error.reason === "not-idempotent" ? { ...outcome, verdict: "terminal" } : outcome;
}
