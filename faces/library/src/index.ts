/**
 * The public API of `redrive`: everything that a program that makes calls can import.
 */
export {
  type AttemptRecord,
  type Clock,
  type DestinationDocument,
  DocumentError,
  type Outcome,
  type Policy,
  type PolicyDocument,
  type Random,
  RedriveError,
  type StopReason,
  type Verdict,
} from "@redrive/core";
export type { CallEvent, CallEventType, CallListener } from "./call/call-event.ts";
export { explain } from "./call/explain.ts";
export { NonRetryableError } from "./call/non-retryable-error.ts";
export type {
  AttemptContext,
  AttemptResult,
  Body,
  CallableRequest,
  CallOptions,
  Classify,
  Fallback,
  FallbackContext,
  HandOff,
  Operation,
  RetryOptions,
  RunOptions,
} from "./call/options.ts";
export { retry } from "./call/retry.ts";
export {
  type Destination,
  type DestinationInput,
  type DestinationWiring,
  destination,
} from "./destination/destination.ts";
export { type HedgeOptions, hedge } from "./destination/hedge.ts";
export { type LastGoodOptions, lastGood } from "./destination/last-success-fallback.ts";
export type { SavedState } from "./destination/saved-state.ts";
export { sharedBudget } from "./destination/shared-budget.ts";
export type { DestinationStats } from "./destination/stats.ts";
export type { WrappedFunction } from "./destination/wrapped-function.ts";
export { createFetch } from "./http/fetch.ts";
export type { FetchOptions, RedriveFetch, RedriveInit } from "./http/fetch-options.ts";
export type { HeadersLike } from "./http/hop-headers.ts";
export { incoming, outside } from "./http/incoming.ts";
