/**
 * Fetch: a drop-in `fetch` that retries. Like fetch, it resolves with the last response when attempts
 * run out. An attempt ends when the response headers arrive. A retry sends the body byte for byte; a
 * request whose body cannot be sent twice is not retried.
 */
import {
  booleanRule,
  type Clock,
  checkFields,
  DocumentError,
  type Fields,
  invalidArgument,
  isObject,
  type Outcome,
  parseRetryAfter,
  statusOutcome,
  systemClock,
  systemId,
  textRule,
} from "@redrive/core";
import { functionRule, retryConfigOf, stringRule } from "../call/call-config.ts";
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
  const problems = checkFields(options, FETCH_FIELDS);
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  const runner = runnerOf(target);
  return async (input, init = {}) => send(runner, await readRequest(input, init, options), options);
}

const FETCH_FIELDS: Fields & Readonly<Record<keyof FetchOptions, unknown>> = {
  idempotencyKey: textRule(/^auto$/, '"auto"'),
  idempotencyHeader: stringRule,
  keyByHost: booleanRule,
  headers: booleanRule,
  fetch: functionRule,
  ids: functionRule,
};

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
  const isTarget: boolean = isObject(target);
  if (!isTarget) {
    throw invalidArgument("the destination or options must be an object", target);
  }
  if ("run" in target) return target as Runner;
  // Checks the options now, not at the first request.
  retryConfigOf(target);
  return {
    clock: target.clock ?? systemClock,
    classify: target.classify,
    run: (fn, { key: _, fallback: __, request: ___, ...overrides }) =>
      retry(fn, { ...target, ...overrides }),
  };
}

/** One request and its attempts. However it ends, responses that the caller does not get are discarded. */
async function send(
  runner: Runner,
  request: ReplayableRequest,
  options: FetchOptions,
): Promise<Response> {
  const { url, method, headers, body, init, signal: callSignal } = request;
  /** Of the latest attempt and its copies. Which one the caller gets is known only at the end. */
  const responses = new Set<Response>();
  let attemptNumber = 0;

  function discardAll(): void {
    responses.forEach(discard);
    responses.clear();
  }

  const addsHeaders = mayAddHeaders(url, options);

  async function attempt(context: AttemptContext): Promise<Response> {
    if (context.attempt !== attemptNumber) discardAll();
    attemptNumber = context.attempt;
    const { endpoint, signal } = context;
    const doFetch = options.fetch ?? fetch;
    const response = await doFetch(endpoint === undefined ? url : atEndpoint(url, endpoint), {
      ...init,
      method,
      headers: addsHeaders ? withHopHeaders(headers, context, runner.clock.now()) : headers,
      // The caller's signal must still end the reading of the response body.
      signal: callSignal ? AbortSignal.any([callSignal, signal]) : signal,
      ...bodyInit(await body.next()),
    });
    // A fetch that ignores its signal may resolve after another copy has won.
    if (signal.aborted) discard(response);
    else responses.add(response);
    return response;
  }

  if (addsHeaders && !headers.has("x-request-id")) {
    headers.set("x-request-id", (options.ids ?? systemId)());
  }
  try {
    const response = await runner.run(attempt, overridesOf(runner, request, options));
    responses.delete(response);
    return response;
  } finally {
    discardAll();
  }
}

/** In a browser, our headers would cause a CORS preflight for requests to other origins. */
function mayAddHeaders(url: string, { headers }: FetchOptions): boolean {
  if (headers === false) return false;
  const origin = pageLocation()?.origin;
  return origin === undefined || absoluteUrl(url).origin === origin;
}

function withHopHeaders(
  given: Headers,
  { deadlineAt, signal, attempt }: AttemptContext,
  now: number,
) {
  const headers = new Headers(given);
  headers.set(REMAINING_HEADER, String(Math.floor(Math.max(0, deadlineAt - now))));
  // The attempt's signal leads to the call, which knows whether it or an outer layer retries.
  if (outerLayer(signal)?.retries) headers.set(ATTEMPT_HEADER, String(attempt));
  return headers;
}

function overridesOf(
  { clock, classify }: Runner,
  { method, signal, headers, body, overrides, idempotencyKey, url }: ReplayableRequest,
  { keyByHost }: FetchOptions,
): RunOptions<Response> {
  const request: CallableRequest = { url, method, headers, body: body.next, isFetch: true };
  return {
    ...overrides,
    method,
    keepLast: true,
    classify: classifier(clock, overrides.classify ?? classify),
    ...(signal && { signal }),
    ...(idempotencyKey !== undefined && { idempotencyKey }),
    ...(body.canRepeat ? { request } : { once: true }),
    ...(keyByHost && { key: absoluteUrl(url).host }),
  };
}

function classifier(clock: Clock, own: Classify<Response> | undefined): Classify<Response> {
  return (result, attempt) => {
    const verdict = own?.(result, attempt);
    if (verdict !== undefined || "error" in result) return verdict;
    return outcomeOfResponse(result.value, clock.now());
  };
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
  const requestId = REQUEST_ID_HEADERS.map((name) => headers.get(name)).find(Boolean);
  return {
    ...outcome,
    ...(headers.get("x-should-retry") === "false" && { refused: true }),
    ...(requestId && { requestId }),
  };
}

/** Frees the connection of a response that nobody reads. Errors do not matter. */
function discard(response: Response): void {
  response.body?.cancel().catch(() => undefined);
}
