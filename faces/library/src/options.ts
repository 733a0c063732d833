/**
 * Options: what a caller may say about a call beside its policy, and what the wrapped function is
 * told about each attempt.
 */
import type { Clock, Outcome, Patience, PolicyDocument, Random, Verdict } from "@redrive/core";
import type { Body } from "./body.ts";
import type { CallListener } from "./events.ts";

/** What the wrapped function is told about the attempt it is to make. */
export interface AttemptContext {
  /** From 1. */
  readonly attempt: number;
  /** 0 is the original, 1 and up are hedged copies of it. */
  readonly copy: number;
  /** Aborted when the attempt times out, loses to a hedge, or the caller gives up. Made when read. */
  readonly signal: AbortSignal;
  /** The same on every attempt, so that the other side can tell a repetition. */
  readonly idempotencyKey: string | undefined;
  /** When the whole call must have ended; epoch ms. */
  readonly deadlineAt: number;
  /** What the attempt before threw. */
  readonly previousError: unknown;
  /** Where a hedged copy should go, if the destination names endpoints. */
  readonly endpoint: string | undefined;
}

/** A function worth wrapping. */
export type Attempted<T> = (context: AttemptContext) => T | PromiseLike<T>;

/** How an attempt ended: with a value, or with what was thrown. */
export type Ending<T> =
  | { readonly value: T }
  | {
      readonly error: unknown;
      /** The function has thrown a `Stop`. Such an ending is not classified. */
      readonly isStop?: true;
    };

/**
 * Judges an ending: with a verdict, or with a whole outcome (which may carry a hint on when to come
 * back). `undefined` means "use the default judgement".
 */
export type Classify<T> = (ending: Ending<T>, attempt: number) => Verdict | Outcome | undefined;

export interface CallOptions<T = unknown> {
  /** Ends the call at once, rejecting with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Overrides the judgement of an ending, also of a value that is no success. */
  readonly classify?: Classify<T> | undefined;
  /**
   * Asked about each error that would be retried: after `classify`, and only while attempts and time
   * are left. `false` ends the call (`not-retryable`). Must not return a promise.
   */
  readonly shouldRetry?: ((error: unknown, context: AttemptContext) => boolean) | undefined;
  /**
   * What a call rejects with after a retry: an error that has every attempt, or the error of the last
   * attempt. A call without any attempt has only the former. Default: `redrive-error`.
   */
  readonly rejectWith?: "redrive-error" | "last-error" | undefined;
  /** Handed to every attempt; makes a call repeatable. */
  readonly idempotencyKey?: string | undefined;
  /** HTTP method in capitals, where the call has one: POST and PATCH are not repeatable by themselves. */
  readonly method?: string | undefined;
  /** Whether the call may be repeated; wins over everything else that is known of it. */
  readonly idempotent?: boolean | undefined;
  /** No attempt may end after this instant; epoch ms. */
  readonly deadlineAt?: number | undefined;
  readonly onEvent?: CallListener | undefined;
  /** Inside another retrying layer: make one attempt (`yield`, the default) or retry all the same. */
  readonly nested?: "yield" | "retry" | undefined;
  /** Make one attempt only: there is nothing to send a second time. */
  readonly once?: boolean | undefined;
  /** Where the last attempt ended with a value that was judged a failure, resolve with it. */
  readonly keepLast?: boolean | undefined;
  /** Wait behind an open circuit instead of failing at once. Default: `fail-fast`. */
  readonly patience?: Patience | undefined;
}

export interface RetryOptions<T = unknown> extends PolicyDocument, CallOptions<T> {
  /** Default: the system's. */
  readonly clock?: Clock | undefined;
  /** Default: the system's. */
  readonly random?: Random | undefined;
}

/** What may be said per call to a destination: any field of its policy, and more. */
export interface RunOptions<T = unknown> extends PolicyDocument, CallOptions<T> {
  /** Which of the destination's breakers: one per shard or host. */
  readonly key?: string | undefined;
  /** What to answer with when the circuit is open or the call is exhausted. */
  readonly fallback?: Fallback<T> | undefined;
  /** The call as a request that somebody else could make, for `handOff`. */
  readonly request?: CallableRequest | undefined;
}

/** A call written down: enough to make it elsewhere and later. */
export interface CallableRequest {
  readonly url: string;
  /** Default: POST. */
  readonly method?: string | undefined;
  readonly headers?: HeadersInit | undefined;
  readonly body?: Body | null | undefined;
  /** The caller awaits a `Response`: `createFetch` says so of its calls. */
  readonly isFetch?: boolean | undefined;
}

/** What a fallback is told. */
export interface FallbackContext {
  readonly destination: string;
  readonly key: string | undefined;
  readonly attempts: number;
  /** Epoch ms. */
  readonly at: number;
  /** Present where the call was written down and repeating it elsewhere can do no harm. */
  readonly handOver?: HandOver | undefined;
}

/** A call that somebody else may take over. */
export interface HandOver {
  readonly request: CallableRequest;
  readonly idempotencyKey: string | undefined;
}

/** Answers in place of a call that was given up; what it throws is what the caller gets. */
export interface Fallback<T = unknown> {
  (error: unknown, context: FallbackContext): T | PromiseLike<T>;
  /** Told of every success, for fallbacks that remember (`lastGood`). */
  remember?(value: T, context: FallbackContext): void;
}
