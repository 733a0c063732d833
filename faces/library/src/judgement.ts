/**
 * Judgement: what an attempt's ending comes to as an outcome of core: by the caller's classifier
 * where it has a word to say, by the marks on the error where it has none.
 */
import {
  classifyError,
  classifyOutcome,
  invalidArgument,
  type Outcome,
  RedriveError,
  retryHintOf,
  type Verdict,
} from "@redrive/core";
import type { Call } from "./call.ts";
import type { Layer } from "./layer.ts";
import type { Classify, Ending } from "./options.ts";

/** The caller's own mistake: repeating would repeat it. */
const FAULT: Outcome = { kind: "fault" };

export const ABORTED: Outcome = { kind: "aborted" };

/** A call that never left has no error of its own. */
export const NO_ENDING: Ending<never> = { error: undefined };

/** True if the ending is still to come. */
export function isThenable<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof (value as PromiseLike<T> | undefined)?.then === "function";
}

const VERDICTS: readonly unknown[] = ["success", "transient", "throttled", "terminal", "aborted"];

/** An answer that is none must not be taken for "again": what succeeded would be repeated. */
function sure<A>(asked: string, answers: readonly unknown[], answer: A): A {
  if (answers.includes(answer)) return answer;
  throw invalidArgument(`${asked} must return one of ${answers.join(", ")}`, answer);
}

/** What stops a call: each `Stop`, and for the layer above the error that it brought. */
export const stops: WeakMap<object, Layer | true | undefined> = new WeakMap();

/** The ending that a thrown value stands for. */
export function endingOf(
  thrown: unknown,
  call: Layer & { readonly outer: Layer | undefined },
): Exclude<Ending<never>, { value: never }> {
  const stop = stops.get(thrown as object);
  if (stop !== true && stop !== call) return { error: thrown };
  const error: unknown = stop === true ? (thrown as Error).cause : thrown;
  stops.set(error as object, call.outer);
  return { error, isStop: true };
}

/**
 * What an attempt came to. `shouldRetry` is asked last, about errors with an attempt left. One that
 * throws, as a classifier that throws, is a mistake in a program: the call ends with what it threw.
 */
export function judgementOf<T>(
  attempt: Call<T>,
  ending: Ending<T>,
  seen: Outcome,
): readonly [Ending<T>, Outcome, Verdict] {
  const { options, policy, made } = attempt.call;
  const { classify, shouldRetry } = options;
  try {
    const outcome = outcomeBy(classify, ending, attempt.attempt, seen);
    const verdict = sure("classify", VERDICTS, classifyOutcome(policy, outcome));
    const isRetryable = verdict === "transient" || verdict === "throttled";
    const isAsked = shouldRetry && isRetryable && "error" in ending && made < policy.maxAttempts;
    return !isAsked || sure("shouldRetry", [true, false], shouldRetry(ending.error, attempt))
      ? [ending, outcome, verdict]
      : [ending, { ...outcome, verdict: "terminal" }, "terminal"];
  } catch (error) {
    return [{ error }, FAULT, "terminal"];
  }
}

/** The caller's judgement: a verdict on what was seen, or an outcome in its place. */
function outcomeBy<T>(
  classify: Classify<T> | undefined,
  ending: Ending<T>,
  attempt: number,
  seen: Outcome,
): Outcome {
  if ("isStop" in ending) return { ...seen, verdict: "terminal" };
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
    const outcome = classifyError(error);
    const hint = retryHintOf(error, now);
    return hint ? { ...outcome, ...hint } : outcome;
  }
  if (error.code !== "GAVE_UP") return FAULT;
  const outcome = outcomeOf(error.cause, now);
  return error.reason === "not-idempotent" ? { ...outcome, verdict: "terminal" } : outcome;
}
