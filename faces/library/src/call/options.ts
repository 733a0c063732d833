/**
 * Options: what a caller can set for a call in addition to its policy, and what the operation learns
 * about each attempt.
 */
import type { Clock, Outcome, Patience, PolicyDocument, Random, Verdict } from "@redrive/core";
import type { CallListener } from "./call-event.ts";

/** What the operation learns about its attempt. */
export interface AttemptContext {
  /** From 1. */
  readonly attempt: number;
  /** 0 is the original, 1 and up are hedged copies of it. */
  readonly copy: number;
  /**
   * Aborted when the attempt times out, when another copy wins or when the caller aborts. Created when
   * read.
   */
  readonly signal: AbortSignal;
  /**
   * A signal that is aborted with `signal` or with any of the given ones. Unlike `AbortSignal.any`, it
   * tells calls that get it that this one retries already.
   */
  readonly anySignal: (...signals: readonly (AbortSignal | null | undefined)[]) => AbortSignal;
  /** The same on every attempt, so that the server can recognize a repetition. */
  readonly idempotencyKey: string | undefined;
  /** When the whole call must have ended; epoch ms. */
  readonly deadlineAt: number;
  /** When this attempt times out; epoch ms. Never after `deadlineAt`. */
  readonly timeoutAt: number;
  /** What the previous attempt threw. */
  readonly previousError: unknown;
  /** Where a hedged copy should go, if the destination has endpoints. */
  readonly endpoint: string | undefined;
}

/** The caller's function. Each attempt calls it once. */
export type Operation<T> = (context: AttemptContext) => T | PromiseLike<T>;

/** How an attempt ended: with a value or with an error. */
export type AttemptResult<T> =
  | { readonly value: T }
  | {
      readonly error: unknown;
      /** The operation threw a `NonRetryableError`. Such a result is not classified. */
      readonly isNonRetryable?: true;
    };

/**
 * Classifies the result of an attempt. Returns a verdict, or an outcome, which may have a hint on when
 * to retry. `undefined` means "use the default classification".
 */
export type Classify<T> = (
  result: AttemptResult<T>,
  attempt: number,
) => Verdict | Outcome | undefined;

/**
 * A `Classify` for calls with results of any type: inline, the value is `unknown`. It accepts one for a
 * certain type as well, because the program knows what its calls return.
 */
export type ClassifyAny = {
  // Only parameters of methods may have a narrower type.
  classify(result: AttemptResult<unknown>, attempt: number): Verdict | Outcome | undefined;
}["classify"];

export interface CallOptions<T = unknown> {
  /** An abort ends the call at once. The call rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Overrides the classification of results. It can declare a value a failure. */
  readonly classify?: Classify<T> | undefined;
  /**
   * Called for each error that would be retried: after `classify`, and only while attempts and time
   * are left. `false` ends the call (`not-retryable`). Must not return a promise.
   */
  readonly shouldRetry?: ((error: unknown, context: AttemptContext) => boolean) | undefined;
  /**
   * What a call rejects with after a retry: an error that has every attempt, or the error of the last
   * attempt. A call that made no attempt always rejects with the former. Default: `redrive-error`.
   */
  readonly rejectWith?: "redrive-error" | "last-error" | undefined;
  /** Passed to every attempt. A call with a key is repeatable. */
  readonly idempotencyKey?: string | undefined;
  /** HTTP method in capitals, if the call has one. POST and PATCH alone are not repeatable. */
  readonly method?: string | undefined;
  /** Whether the call may be repeated. Overrides every other rule. */
  readonly idempotent?: boolean | undefined;
  /** No attempt may end after this instant; epoch ms. */
  readonly deadlineAt?: number | undefined;
  readonly onEvent?: CallListener | undefined;
  /** Inside another retrying layer: make one attempt (`yield`) or retry anyway. Default: `yield`. */
  readonly nested?: "yield" | "retry" | undefined;
  /** Make only one attempt, because the request cannot be sent twice. */
  readonly once?: boolean | undefined;
  /** If the last attempt ended with a value that is classified as a failure, resolve with it. */
  readonly keepLast?: boolean | undefined;
  /** When a guard refuses an attempt: fail at once, or wait until it allows one. Default: `fail-fast`. */
  readonly patience?: Patience | undefined;
}

export interface RetryOptions<T = unknown> extends PolicyDocument, CallOptions<T> {
  /** Default: the system's. */
  readonly clock?: Clock | undefined;
  /** Default: the system's. */
  readonly random?: Random | undefined;
}

/** Options of one call to a destination: any field of its policy, and more. */
export interface RunOptions<T = unknown> extends PolicyDocument, CallOptions<T> {
  /** Selects one of the destination's breakers, such as one per shard or host. */
  readonly key?: string | undefined;
  /** Provides a value when the circuit is open or the call is exhausted. */
  readonly fallback?: Fallback<T> | undefined;
  /** The call as a request that the service can send, for `handOff`. */
  readonly request?: CallableRequest | undefined;
}

/** Request body of `createFetch`: fetch's own types, or a function that creates a fresh one. */
export type Body = BodyInit | (() => BodyInit | null | PromiseLike<BodyInit | null>);

/** A call described as an HTTP request, so that it can be sent elsewhere and later. */
export interface CallableRequest {
  readonly url: string;
  /** Default: POST. */
  readonly method?: string | undefined;
  readonly headers?: HeadersInit | undefined;
  readonly body?: Body | null | undefined;
  /** For `handOff`: where the service posts the end of the task, and labels of the task. */
  readonly callbackUrl?: string | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** The caller awaits a `Response`. `createFetch` sets it on its calls. */
  readonly isFetch?: boolean | undefined;
}

/** What a fallback learns about the call. */
export interface FallbackContext {
  readonly destination: string;
  readonly key: string | undefined;
  readonly attempts: number;
  /** Epoch ms. */
  readonly at: number;
  /** Present if the call has a request and is safe to repeat elsewhere. */
  readonly handOff?: HandOff | undefined;
}

/** A call that the service can take over. */
export interface HandOff {
  readonly request: CallableRequest;
  readonly idempotencyKey: string | undefined;
}

/** Provides a value for a call that was given up. If it throws, the call rejects with that error. */
export interface Fallback<T = unknown> {
  (error: unknown, context: FallbackContext): T | PromiseLike<T>;
  /** Called on every success, for fallbacks that keep values (`lastGood`). */
  remember?(value: T, context: FallbackContext): void;
}
