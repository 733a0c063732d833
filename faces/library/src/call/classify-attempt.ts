/**
 * Classify attempt: turns the result of an attempt into core's outcome and verdict. The caller's
 * `classify` decides where it returns something; otherwise the properties of the error decide.
 */
import {
  classifyError,
  classifyOutcome,
  FAULT,
  invalidArgument,
  type Outcome,
  RedriveError,
  retryHintOf,
  type Verdict,
} from "@redrive/core";
import type { Attempt } from "./call.ts";
import type { AttemptResult, Classify } from "./options.ts";
import type { RetryLayer } from "./retry-layer.ts";

/** The result of a call that made no attempt: there is no error. */
export const NO_RESULT: AttemptResult<never> = { error: undefined };

export function isThenable<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof (value as PromiseLike<T> | undefined)?.then === "function";
}

const VERDICTS: readonly unknown[] = ["success", "transient", "throttled", "terminal", "aborted"];

/** An invalid return value must not mean "retry": that could repeat an operation that succeeded. */
function assertOneOf<V>(name: string, allowed: readonly unknown[], value: V): V {
  if (allowed.includes(value)) return value;
  throw invalidArgument(`${name} must return one of ${allowed.join(", ")}`, value);
}

/**
 * Errors that end a call without a retry: each `NonRetryableError`, and the error inside it, for the
 * outer layer. Created with the first one, so bundlers drop this code from programs that have none.
 */
let nonRetryable: WeakMap<object, RetryLayer | true | undefined> | undefined;

export function markNonRetryable(error: Error): void {
  nonRetryable ??= new WeakMap();
  nonRetryable.set(error, true);
}

/** True if the operation threw a `NonRetryableError`. */
export function isNonRetryable<T>(result: AttemptResult<T>): boolean | undefined {
  return nonRetryable && "isNonRetryable" in result;
}

/** The result that a thrown value stands for. */
export function resultOfThrown(
  thrown: unknown,
  call: RetryLayer & { readonly outer: RetryLayer | undefined },
): Exclude<AttemptResult<never>, { value: never }> {
  const mark = nonRetryable?.get(thrown as object);
  if (!mark || (mark !== true && mark !== call)) return { error: thrown };
  const error: unknown = mark === true ? (thrown as Error).cause : thrown;
  nonRetryable?.set(error as object, call.outer);
  return { error, isNonRetryable: true };
}

/**
 * The result, outcome and verdict of an attempt. `shouldRetry` comes last, for errors with an attempt
 * left. If `classify` or `shouldRetry` throws, the program has a mistake: the call ends with that
 * error.
 */
export function classifyAttempt<T>(
  attempt: Attempt<T>,
  result: AttemptResult<T>,
  seen: Outcome,
): readonly [AttemptResult<T>, Outcome, Verdict] {
  const { options, policy, attempts } = attempt.call;
  const { classify, shouldRetry } = options;
  try {
    const outcome = classifiedOutcome(classify, result, attempt.attempt, seen);
    const verdict = assertOneOf("classify", VERDICTS, classifyOutcome(policy, outcome));
    const isRetryable = verdict === "transient" || verdict === "throttled";
    const asksCaller =
      shouldRetry && isRetryable && "error" in result && attempts < policy.maxAttempts;
    return !asksCaller ||
      assertOneOf("shouldRetry", [true, false], shouldRetry(result.error, attempt))
      ? [result, outcome, verdict]
      : [result, { ...outcome, verdict: "terminal" }, "terminal"];
  } catch (error) {
    return [{ error }, FAULT, "terminal"];
  }
}

/** `classify` returns a verdict on the outcome that was seen, or an outcome that replaces it. */
function classifiedOutcome<T>(
  classify: Classify<T> | undefined,
  result: AttemptResult<T>,
  attempt: number,
  seen: Outcome,
): Outcome {
  if (isNonRetryable(result)) return { ...seen, verdict: "terminal" };
  const own: Verdict | Outcome | undefined = classify?.(result, attempt);
  if (own === undefined) return seen;
  return typeof own === "object" && own !== null ? own : { ...seen, verdict: own };
}

/**
 * The outcome of a thrown value, with its retry hint. Our timeout is recognized by its code. An inner
 * call that gave up counts as its cause; if the inner call was not idempotent, the outer one is not
 * repeated either. Our other errors are mistakes in the program.
 */
export function outcomeOfError(error: unknown, now: number): Outcome {
  if (!(error instanceof RedriveError) || error.code === "ATTEMPT_TIMEOUT") {
    const outcome = classifyError(error);
    const hint = retryHintOf(error, now);
    return hint ? { ...outcome, ...hint } : outcome;
  }
  if (error.code !== "GAVE_UP") return FAULT;
  const outcome = outcomeOfError(error.cause, now);
  return error.reason === "not-idempotent" ? { ...outcome, verdict: "terminal" } : outcome;
}
