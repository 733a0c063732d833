/**
 * Fetch: a drop-in `fetch` that retries. Like fetch, it resolves with the last response when attempts
 * run out. An attempt ends when the response headers arrive. A retry sends the body byte for byte; a
 * request whose body cannot be sent twice is not retried.
 */
import {
  type Clock,
  type Outcome,
  parseRetryAfter,
  statusOutcome,
  systemClock,
  systemId,
} from "@redrive/core";
import type {
  AttemptContext,
  CallableRequest,
  Classify,
  RetryOptions,
  RunOptions,
} from "../call/options.ts";
import { retry } from "../call/retry.ts";
import { outerLayer } from "../call/retry-layer.ts";
import type { Destination } from "../destination/destination.ts";
import type { FetchOptions, RedriveFetch } from "./fetch-options.ts";
import { ATTEMPT_HEADER, REMAINING_HEADER } from "./hop-headers.ts";
import { absoluteUrl, pageLocation } from "./page-url.ts";
import { isStream } from "./replayable-body.ts";
import { type ReplayableRequest, readRequest } from "./replayable-request.ts";

/** Creates a fetch with a destination's guards, or (from options) one that only retries. */
export function createFetch(
  target: Destination | RetryOptions<Response>,
  options: FetchOptions = {},
): RedriveFetch {
  const runner = runnerOf(target);
  return async (input, init = {}) => {
    const request = await readRequest(input, init, options);
    return new FetchCall(runner, request, options).run();
  };
}

interface Runner {
  readonly clock: Clock;
  /** Classifies the results of requests that have no `classify` of their own. */
  readonly classify: Classify<Response> | undefined;
  run(
    fn: (context: AttemptContext) => Promise<Response>,
    overrides: RunOptions<Response>,
  ): Promise<Response>;
}

function runnerOf(target: Destination | RetryOptions<Response>): Runner {
  if ("run" in target) return target as Runner;
  return {
    clock: target.clock ?? systemClock,
    classify: target.classify,
    run: (fn, { key: _, fallback: __, request: ___, ...overrides }) =>
      retry(fn, { ...target, ...overrides }),
  };
}

/** One request and its attempts. */
class FetchCall {
  readonly #runner: Runner;
  readonly #request: ReplayableRequest;
  readonly #options: FetchOptions;
  /** Of the latest attempt and its copies. Which one the caller gets is known only at the end. */
  readonly #responses = new Set<Response>();
  #attemptNumber = 0;

  constructor(runner: Runner, request: ReplayableRequest, options: FetchOptions) {
    this.#runner = runner;
    this.#request = request;
    this.#options = options;
  }

  /** However the call ends, responses that the caller does not get are discarded. */
  async run(): Promise<Response> {
    try {
      const response = await this.#runner.run(
        (context) => this.#attempt(context),
        this.#overrides(),
      );
      this.#responses.delete(response);
      return response;
    } finally {
      this.#discardAll();
    }
  }

  #discardAll(): void {
    for (const response of this.#responses) discard(response);
    this.#responses.clear();
  }

  #overrides(): RunOptions<Response> {
    const { method, signal, headers, body, overrides, idempotencyKey, url } = this.#request;
    if (this.#addsHeaders && !headers.has("x-request-id")) {
      headers.set("x-request-id", (this.#options.ids ?? systemId)());
    }
    const request: CallableRequest = { url, method, headers, body: body.next, isFetch: true };
    return {
      ...overrides,
      method,
      keepLast: true,
      classify: this.#classifier(overrides.classify ?? this.#runner.classify),
      ...(signal && { signal }),
      ...(idempotencyKey !== undefined && { idempotencyKey }),
      ...(body.canRepeat ? { request } : { once: true }),
      ...(this.#options.keyByHost && { key: absoluteUrl(url).host }),
    };
  }

  async #attempt(context: AttemptContext): Promise<Response> {
    if (context.attempt !== this.#attemptNumber) this.#discardAll();
    this.#attemptNumber = context.attempt;
    const { url, method, body, init } = this.#request;
    const { endpoint, signal } = context;
    const doFetch = this.#options.fetch ?? fetch;
    const response = await doFetch(endpoint === undefined ? url : atEndpoint(url, endpoint), {
      ...init,
      method,
      headers: this.#headersFor(context),
      signal: this.#signalFor(context),
      ...bodyInit(await body.next()),
    });
    // A fetch that ignores its signal may resolve after another copy has won.
    if (signal.aborted) discard(response);
    else this.#responses.add(response);
    return response;
  }

  /** Includes the caller's signal, which must still end the reading of the response body. */
  #signalFor(context: AttemptContext): AbortSignal {
    const { signal } = this.#request;
    return signal === undefined ? context.signal : AbortSignal.any([signal, context.signal]);
  }

  #headersFor(context: AttemptContext): Headers {
    if (!this.#addsHeaders) return this.#request.headers;
    const headers = new Headers(this.#request.headers);
    const leftMs = Math.max(0, context.deadlineAt - this.#runner.clock.now());
    headers.set(REMAINING_HEADER, String(Math.floor(leftMs)));
    // The attempt's signal leads to the call, which knows whether it or an outer layer retries.
    const isRetried = outerLayer(context.signal)?.retries === true;
    if (isRetried) headers.set(ATTEMPT_HEADER, String(context.attempt));
    return headers;
  }

  /** In a browser, our headers would cause a CORS preflight for requests to other origins. */
  get #addsHeaders(): boolean {
    if (this.#options.headers === false) return false;
    const origin = pageLocation()?.origin;
    return origin === undefined || absoluteUrl(this.#request.url).origin === origin;
  }

  #classifier(own: Classify<Response> | undefined): Classify<Response> {
    return (result, attempt) => {
      const verdict = own?.(result, attempt);
      if (verdict !== undefined || "error" in result) return verdict;
      return outcomeOfResponse(result.value, this.#runner.clock.now());
    };
  }
}

/** The same path and query at another endpoint. */
function atEndpoint(url: string, endpoint: string): string {
  const { pathname, search } = absoluteUrl(url);
  return new URL(pathname + search, endpoint).href;
}

/** fetch requires `duplex` for streams: the response may start before the body is sent. */
function bodyInit(body: BodyInit | null): RequestInit {
  if (body === null) return {};
  return isStream(body) ? ({ body, duplex: "half" } as RequestInit) : { body };
}

/** Headers in which servers return their own request id. */
const REQUEST_ID_HEADERS = ["x-request-id", "request-id", "x-amzn-requestid", "cf-ray"];

function outcomeOfResponse(response: Response, now: number): Outcome {
  const { headers, status } = response;
  const retryAfter = headers.get("retry-after");
  const hint =
    retryAfter === null ? undefined : parseRetryAfter(retryAfter, now, headers.get("date"));
  const outcome = statusOutcome(status, hint);
  const requestId = REQUEST_ID_HEADERS.map((name) => headers.get(name)).find((id) => id !== null);
  return {
    ...outcome,
    ...(headers.get("x-should-retry") === "false" && { refused: true }),
    ...(requestId !== undefined && requestId !== null && { requestId }),
  };
}

/** Frees the connection of a response that nobody reads. Errors do not matter. */
function discard(response: Response): void {
  response.body?.cancel().catch(() => undefined);
}
