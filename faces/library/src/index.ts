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
export { NonRetryableError } from "./call/call.ts";
export type { CallEvent, CallEventType, CallListener } from "./call/call-event.ts";
export { explain } from "./call/explain.ts";
export type {
  AttemptContext,
  AttemptResult,
  Body,
  CallableRequest,
  CallOptions,
  Classify,
  ClassifyAny,
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
  sharedBudget,
  type Wrapped,
  type WrappedFunction,
} from "./destination/destination.ts";
export { type HedgeOptions, hedge } from "./destination/hedge.ts";
export type { DestinationStats, SavedState } from "./destination/keyed-guards.ts";
export { type LastGoodOptions, lastGood } from "./destination/last-success-fallback.ts";
export {
  createFetch,
  type FetchOptions,
  type RedriveFetch,
  type RedriveInit,
} from "./http/fetch.ts";
export type { HeadersLike, Trust } from "./http/hop-headers.ts";
export { type IncomingOptions, incoming, outside } from "./http/incoming.ts";
