/**
 * The public surface of `redrive`: what a program that makes calls may use.
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
export type { Body } from "./body.ts";
export {
  type Destination,
  type DestinationInput,
  type DestinationWiring,
  destination,
} from "./destination.ts";
export type { CallEvent, CallEventType, CallListener } from "./events.ts";
export { explain } from "./explain.ts";
export { type LastGoodOptions, lastGood } from "./fallback.ts";
export {
  createFetch,
  type FetchOptions,
  type RedriveFetch,
  type RedriveInit,
} from "./fetch.ts";
export { type HedgeOptions, hedge } from "./hedge.ts";
export type { HeadersLike } from "./hop-headers.ts";
export { incoming, outside } from "./incoming.ts";
export type {
  AttemptContext,
  Attempted,
  CallableRequest,
  CallOptions,
  Classify,
  Ending,
  Fallback,
  FallbackContext,
  HandOver,
  RetryOptions,
  RunOptions,
} from "./options.ts";
export { retry } from "./retry.ts";
export type { SavedState } from "./saved-state.ts";
export { sharedBudget } from "./shared-budget.ts";
export type { DestinationStats } from "./stats.ts";
export { Stop } from "./stop.ts";
export type { Wrapped } from "./wrapped.ts";
