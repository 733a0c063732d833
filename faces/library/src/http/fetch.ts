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
  headerHint,
  invalidArgument,
  isObject,
  type Outcome,
  statusOutcome,
  systemClock,
  systemId,
  textRule,
} from "@redrive/core";
import { functionRule, retryConfigOf, stringRule } from "../call/call-config.ts";
import type {
  AttemptContext,
  Body,
  CallableRequest,
  Classify,
  RetryOptions,
  RunOptions,
} from "../call/options.ts";
import { retry } from "../call/retry.ts";
import { outerLayer } from "../call/retry-layer.ts";
import type { Destination } from "../destination/destination.ts";
import { ATTEMPT_HEADER, REMAINING_HEADER } from "./hop-headers.ts";

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
    for (const response of responses) void discard(response, runner.clock);
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
      signal: callSignal ? context.anySignal(callSignal) : signal,
      ...bodyInit(await body.next()),
    });
    // A fetch that ignores its signal may resolve after another copy has won.
    if (signal.aborted) void discard(response, runner.clock);
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
  { timeoutAt, signal, attempt }: AttemptContext,
  now: number,
) {
  const headers = new Headers(given);
  // Nobody waits for the response any longer than that, also if the call itself goes on.
  headers.set(REMAINING_HEADER, String(Math.floor(Math.max(0, timeoutAt - now))));
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
  const { headers, status, ok } = response;
  const read = (name: string) => headers.get(name);
  const requestId = REQUEST_ID_HEADERS.map(read).find(Boolean);
  return {
    ...statusOutcome(status),
    ...(!ok && headerHint(read, status, now)),
    ...(requestId && { requestId }),
  };
}

/** A body that is longer, or takes longer, costs more than the new connection that it saves. */
const MAX_DRAIN_BYTES = 131_072;
const MAX_DRAIN_MS = 1000;

/**
 * Frees the connection of a response that nobody reads. A short body is read to its end, so that the
 * connection can be used again; any other one is canceled, which closes it. Errors do not matter.
 */
async function discard({ headers, body }: Response, { alarm }: Clock): Promise<void> {
  if (body === null) return;
  const reader = body.getReader();
  const cancel = () => void reader.cancel().catch(() => undefined);
  if (Number(headers.get("content-length")) > MAX_DRAIN_BYTES) return cancel();
  const stopWaiting = alarm(MAX_DRAIN_MS, cancel, true);
  try {
    let left = MAX_DRAIN_BYTES;
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      left -= next.value.length;
      if (left < 0) return cancel();
    }
  } catch {
    // The connection is broken, or the attempt was aborted.
  } finally {
    stopWaiting();
  }
}

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

/** The arguments of a fetch, read once, so that every attempt can send the same request. */
interface ReplayableRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly body: ReplayableBody;
  readonly signal: AbortSignal | undefined;
  readonly init: Omit<RequestInit, "body" | "headers" | "signal">;
  readonly overrides: RunOptions<Response>;
  readonly idempotencyKey: string | undefined;
}

async function readRequest(
  input: string | URL | Request,
  init: RedriveInit,
  options: FetchOptions,
): Promise<ReplayableRequest> {
  const base = input instanceof Request ? input : undefined;
  const { body: givenBody, headers: givenHeaders, redrive = {}, ...rest } = init;
  // As in fetch, null removes the signal of the `Request`.
  const givenSignal = rest.signal === undefined ? (redrive.signal ?? base?.signal) : rest.signal;
  const signal = givenSignal ?? undefined;
  const method = (init.method ?? base?.method ?? "GET").toUpperCase();
  const headers = new Headers(givenHeaders ?? base?.headers);
  const body =
    givenBody === undefined && base
      ? await requestBody(base, signal)
      : await replayableBody(givenBody);
  if (body.contentType !== undefined) headers.set("content-type", body.contentType);
  return {
    url: base?.url ?? String(input),
    method,
    headers,
    body,
    signal,
    init: base === undefined ? rest : { ...initOf(base), ...rest },
    overrides: redrive,
    idempotencyKey: keyFor(method, headers, redrive, options),
  };
}

/** The fields of a `Request` other than URL, method, headers and body. */
function initOf(request: Request): RequestInit {
  const { cache, credentials, integrity, keepalive, mode, redirect, referrerPolicy } = request;
  const common = { cache, credentials, integrity, keepalive, redirect, referrerPolicy };
  return mode === "navigate" ? common : { ...common, mode };
}

function keyFor(
  method: string,
  headers: Headers,
  redrive: RunOptions<Response>,
  { idempotencyKey, idempotencyHeader = "Idempotency-Key", ids = systemId }: FetchOptions,
): string | undefined {
  const isAutomatic = idempotencyKey === "auto" && (method === "POST" || method === "PATCH");
  const key =
    redrive.idempotencyKey || headers.get(idempotencyHeader) || (isAutomatic ? ids() : undefined);
  if (key !== undefined) headers.set(idempotencyHeader, key);
  return key;
}

// A replayable body can be sent more than once, byte for byte. A body that cannot be sent twice is marked, so
// that a retry never sends it empty.

export interface ReplayableBody {
  /** The body for the next attempt. */
  next(): BodyInit | null | PromiseLike<BodyInit | null>;
  /** False if the body can be sent only once. */
  readonly canRepeat: boolean;
  /** The content type that the body requires, such as a form's; undefined if fetch sets it. */
  readonly contentType: string | undefined;
}

const NO_BODY: ReplayableBody = repeatable(null);

export async function replayableBody(body: Body | null | undefined): Promise<ReplayableBody> {
  if (body === null || body === undefined) return NO_BODY;
  if (typeof body === "function") return { ...NO_BODY, next: body };
  if (isStream(body)) return { ...repeatable(body), canRepeat: false };
  // A form gets a new boundary each time it is serialized, so it is serialized once.
  if (body instanceof FormData) return serialized(new Response(body));
  return repeatable(copyOf(body));
}

/** A web stream or a Node stream, which Node's fetch accepts too. Both are empty once read. */
function isStream(body: BodyInit): body is ReadableStream {
  return (
    body instanceof ReadableStream || (typeof body === "object" && Symbol.asyncIterator in body)
  );
}

/** Only an abort ends the reading; the other limits are the maximum. */
const READ_POLICY = { maxAttempts: 1, attemptTimeoutMs: 600_000, totalBudgetMs: 600_000 };

/** Reads the body of a `Request` into memory, because a request cannot send its body twice. */
export async function requestBody(request: Request, signal?: AbortSignal): Promise<ReplayableBody> {
  // Some runtimes do not expose the body. There the method tells whether a body is possible.
  const isBodiless = request.method === "GET" || request.method === "HEAD";
  if (request.body === null || isBodiless) return NO_BODY;
  return repeatable(await retry(() => request.arrayBuffer(), { ...READ_POLICY, signal }));
}

function repeatable(body: BodyInit | null): ReplayableBody {
  return { next: () => body, canRepeat: true, contentType: undefined };
}

async function serialized(response: Response): Promise<ReplayableBody> {
  const contentType = response.headers.get("content-type") ?? undefined;
  return { ...repeatable(await response.arrayBuffer()), contentType };
}

/** Copies bytes: the caller may reuse its buffer while a retry waits. */
function copyOf(body: Exclude<BodyInit, ReadableStream | FormData>): BodyInit {
  if (body instanceof ArrayBuffer) return body.slice(0);
  if (ArrayBuffer.isView(body)) {
    const { buffer, byteOffset, byteLength } = body;
    return new Uint8Array(buffer, byteOffset, byteLength).slice();
  }
  return body instanceof URLSearchParams ? new URLSearchParams(body) : body;
}

// URLs are resolved as a browser page does, relative to the page's own location. Outside of browsers there is
// no location, and URLs must be absolute.

function pageLocation(): { readonly href?: string; readonly origin?: string } | undefined {
  return (globalThis as { location?: { href?: string; origin?: string } }).location;
}

export function absoluteUrl(url: string): URL {
  return new URL(url, pageLocation()?.href);
}
