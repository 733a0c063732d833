/**
 * Fetch: a drop-in `fetch` that retries. It resolves with the last response when attempts run out,
 * since that is what a fetch does; an attempt ends at the headers. Bodies are sent again byte for
 * byte, or not at all.
 */
import {
  type Clock,
  type Outcome,
  parseRetryAfter,
  statusOutcome,
  systemClock,
  systemId,
} from "@redrive/core";
import { type Body, isStream, type ReplayBody, replayBody, requestBody } from "./body.ts";
import type { Destination } from "./destination.ts";
import { ATTEMPT_HEADER, REMAINING_HEADER } from "./hop-headers.ts";
import { layerAbove } from "./layer.ts";
import type {
  AttemptContext,
  CallableRequest,
  Classify,
  RetryOptions,
  RunOptions,
} from "./options.ts";
import { retry } from "./retry.ts";

export interface FetchOptions {
  /** "auto": POST and PATCH without a key get one, which makes them repeatable. Default: none. */
  readonly idempotencyKey?: "auto" | undefined;
  /** Name of the header that carries the key. Default: `Idempotency-Key`. */
  readonly idempotencyHeader?: string | undefined;
  /** One breaker per host instead of one for all. Default: false. */
  readonly keyByHost?: boolean | undefined;
  /** Add `X-Request-Id`, `Redrive-Attempt` and `Redrive-Remaining-Ms`. Default: true. */
  readonly headers?: boolean | undefined;
  /** What really fetches. Default: the global one. */
  readonly fetch?: typeof fetch | undefined;
  /** Makes ids for keys and requests. Default: random UUIDs. */
  readonly ids?: (() => string) | undefined;
}

/** As fetch's, and the body may be a function that makes a fresh one for each attempt. */
export interface RedriveInit extends Omit<RequestInit, "body"> {
  readonly body?: Body | null | undefined;
  /** Overrides of the policy and of what is said about the call, for this request alone. */
  readonly redrive?: RunOptions<Response> | undefined;
}

export type RedriveFetch = (input: string | URL | Request, init?: RedriveInit) => Promise<Response>;

/** Makes a fetch under a destination's guards, or (from options) one that only retries. */
export function createFetch(
  target: Destination | RetryOptions<Response>,
  options: FetchOptions = {},
): RedriveFetch {
  const runner = runnerOf(target);
  return async (input, init = {}) => {
    const request = await readRequest(input, init, options);
    return new Exchange(runner, request, options).run();
  };
}

interface Runner {
  readonly clock: Clock;
  /** Judges the endings of requests that bring no judgement of their own. */
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

/** A request taken apart, ready to be made again. */
interface ReadyRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly body: ReplayBody;
  readonly signal: AbortSignal | undefined;
  readonly init: Omit<RequestInit, "body" | "headers" | "signal">;
  readonly overrides: RunOptions<Response>;
  readonly idempotencyKey: string | undefined;
}

async function readRequest(
  input: string | URL | Request,
  init: RedriveInit,
  options: FetchOptions,
): Promise<ReadyRequest> {
  const base = input instanceof Request ? input : undefined;
  const { body: given, headers: givenHeaders, redrive = {}, ...rest } = init;
  // Null is a word too: it takes the request's own signal away.
  const said = rest.signal === undefined ? (redrive.signal ?? base?.signal) : rest.signal;
  const signal = said ?? undefined;
  const method = (init.method ?? base?.method ?? "GET").toUpperCase();
  const headers = new Headers(givenHeaders ?? base?.headers);
  const body =
    given === undefined && base ? await requestBody(base, signal) : await replayBody(given);
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

/** What a `Request` carries beside its address, method, headers and body. */
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

/** One request and its attempts. */
class Exchange {
  readonly #runner: Runner;
  readonly #request: ReadyRequest;
  readonly #options: FetchOptions;
  /** Of the latest attempt and its copies: which of them is the caller's is known at the end. */
  readonly #answers = new Set<Response>();
  #number = 0;

  constructor(runner: Runner, request: ReadyRequest, options: FetchOptions) {
    this.#runner = runner;
    this.#request = request;
    this.#options = options;
  }

  /** Answers that nobody will read are discarded, however the call ends. */
  async run(): Promise<Response> {
    try {
      const response = await this.#runner.run(
        (context) => this.#attempt(context),
        this.#overrides(),
      );
      this.#answers.delete(response);
      return response;
    } finally {
      this.#discardAll();
    }
  }

  #discardAll(): void {
    for (const response of this.#answers) discard(response);
    this.#answers.clear();
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
      ...(this.#options.keyByHost && { key: absolute(url).host }),
    };
  }

  async #attempt(context: AttemptContext): Promise<Response> {
    if (context.attempt !== this.#number) this.#discardAll();
    this.#number = context.attempt;
    const { url, method, body, init } = this.#request;
    const { endpoint, signal } = context;
    const doFetch = this.#options.fetch ?? fetch;
    const response = await doFetch(endpoint === undefined ? url : moved(url, endpoint), {
      ...init,
      method,
      headers: this.#headersFor(context),
      signal: this.#signalFor(context),
      ...bodyInit(await body.next()),
    });
    // A fetch that ignores its signal may answer after the race is lost.
    if (signal.aborted) discard(response);
    else this.#answers.add(response);
    return response;
  }

  /** The caller's own signal goes along: it must still end the reading of the body. */
  #signalFor(context: AttemptContext): AbortSignal {
    const { signal } = this.#request;
    return signal === undefined ? context.signal : AbortSignal.any([signal, context.signal]);
  }

  #headersFor(context: AttemptContext): Headers {
    if (!this.#addsHeaders) return this.#request.headers;
    const headers = new Headers(this.#request.headers);
    const leftMs = Math.max(0, context.deadlineAt - this.#runner.clock.now());
    headers.set(REMAINING_HEADER, String(Math.floor(leftMs)));
    // The attempt's own signal leads to the call, which knows whether it, or one above, retries.
    const isRetried = layerAbove(context.signal)?.retries === true;
    if (isRetried) headers.set(ATTEMPT_HEADER, String(context.attempt));
    return headers;
  }

  /** In a browser, headers of our own would cost a request to another origin its simplicity. */
  get #addsHeaders(): boolean {
    if (this.#options.headers === false) return false;
    const origin = placeOf()?.origin;
    return origin === undefined || absolute(this.#request.url).origin === origin;
  }

  #classifier(own: Classify<Response> | undefined): Classify<Response> {
    return (ending, attempt) => {
      const told = own?.(ending, attempt);
      if (told !== undefined || "error" in ending) return told;
      return outcomeOf(ending.value, this.#runner.clock.now());
    };
  }
}

/** The page that the program runs in, where there is one. */
function placeOf(): { readonly href?: string; readonly origin?: string } | undefined {
  return (globalThis as { location?: { href?: string; origin?: string } }).location;
}

/** As the page that the program runs in would read it, where there is one. */
export function absolute(url: string): URL {
  return new URL(url, placeOf()?.href);
}

/** The same path and query at another place. */
function moved(url: string, endpoint: string): string {
  const { pathname, search } = absolute(url);
  return new URL(pathname + search, endpoint).href;
}

/** Streams need to be told that they are sent while the answer may already come. */
function bodyInit(body: BodyInit | null): RequestInit {
  if (body === null) return {};
  return isStream(body) ? ({ body, duplex: "half" } as RequestInit) : { body };
}

/** Where other sides put their own id of a request. */
const REQUEST_ID_HEADERS = ["x-request-id", "request-id", "x-amzn-requestid", "cf-ray"];

function outcomeOf(response: Response, now: number): Outcome {
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

/** An answer that is not wanted any more must not hold its connection; how it ends is nobody's concern. */
function discard(response: Response): void {
  response.body?.cancel().catch(() => undefined);
}
