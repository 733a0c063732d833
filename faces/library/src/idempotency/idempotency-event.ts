/**
 * Idempotency event: what happened to a request with a key, for logs and metrics. Events never contain
 * keys, callers or payloads.
 */

export type IdempotencyEventType =
  /** The first request with its key: the handler runs. */
  | "claimed"
  /** The response was stored. */
  | "stored"
  /** A repetition got the stored response. */
  | "replayed"
  /** A repetition came while the first request was running (409). */
  | "in-progress"
  /** The key was used with another payload (422). */
  | "mismatch"
  /** The response was not stored because of its status. The key is free again. */
  | "not-kept"
  /** The response was too large to store. A repetition gets 410. */
  | "too-large"
  /** The handler threw. The key is free again. */
  | "handler-failed"
  /** Another request has taken the key over: this one ran longer than its lease (409). */
  | "lease-lost"
  /** The handler ran longer than `maxRunMs`. Its lease is not renewed any more. */
  | "run-too-long"
  /** The store failed; `during` says at what. */
  | "store-failed";

export interface IdempotencyEvent {
  readonly type: IdempotencyEventType;
  /** Epoch ms. */
  readonly at: number;
  readonly method: string;
  /** Earlier requests with this key that ended without a response; only with `claimed`. */
  readonly takeovers?: number;
  /** Status of the handler's response, if there was one. */
  readonly status?: number;
  /** What the store was doing; only with `store-failed`. */
  readonly during?: "claim" | "renew" | "settle" | "release" | "sweep";
  /** What the store or the handler threw. */
  readonly error?: unknown;
}

export type IdempotencyListener = (event: IdempotencyEvent) => void;
