/**
 * Fetch options: what `createFetch` and the fetch that it returns accept.
 */
import type { Body, RunOptions } from "../call/options.ts";

export interface FetchOptions {
  /** "auto": a POST or PATCH without a key gets one, which makes it repeatable. Default: none. */
  readonly idempotencyKey?: "auto" | undefined;
  /** Name of the header for the key. Default: `Idempotency-Key`. */
  readonly idempotencyHeader?: string | undefined;
  /** Use one breaker per host instead of one for all. Default: false. */
  readonly keyByHost?: boolean | undefined;
  /** Add `X-Request-Id`, `Redrive-Attempt` and `Redrive-Remaining-Ms`. Default: true. */
  readonly headers?: boolean | undefined;
  /** The function that sends requests. Default: the global `fetch`. */
  readonly fetch?: typeof fetch | undefined;
  /** Creates ids for keys and requests. Default: random UUIDs. */
  readonly ids?: (() => string) | undefined;
}

/** As fetch's `RequestInit`; the body may also be a function that creates a fresh one per attempt. */
export interface RedriveInit extends Omit<RequestInit, "body"> {
  readonly body?: Body | null | undefined;
  /** Overrides of the policy and of the call options, for this request only. */
  readonly redrive?: RunOptions<Response> | undefined;
}

export type RedriveFetch = (input: string | URL | Request, init?: RedriveInit) => Promise<Response>;
