/**
 * Incoming: marks the scope of a request being served, so that calls made for it know whether its
 * caller retries, and its deadline. The scope ends with the request; later work has neither. Headers of
 * callers that are not trusted change nothing. Only this file enters an async context, because on Node 20
 * and 22 an entered context slows every await of the process.
 */
import {
  assertRange,
  type Clock,
  invalidArgument,
  type RedriveError,
  systemClock,
} from "@redrive/core";
import { type RetryLayer, type ScopeStorage, setScopeStorage } from "../call/retry-layer.ts";
import type { ServedRequest } from "../serve/interceptor.ts";
import { type HandlerRun, type Interceptor, PASS_ON } from "../serve/interceptor.ts";
import {
  assertTrust,
  callerLayer,
  type HeadersLike,
  isTrusted,
  type Trust,
} from "./hop-headers.ts";

interface LayerOptions<Request> {
  /**
   * Whose headers count. Anybody can send them, so that a stranger could end your calls early, or keep them
   * from retrying. Turn it on for the requests of your own services. Default: `none`.
   */
  readonly trust?: Trust<Request> | undefined;
  /** Least time that a caller leaves, whatever its header says. 0 to 60,000 ms. Default: 0. */
  readonly minRemainingMs?: number | undefined;
  /** Default: the system's. */
  readonly clock?: Clock | undefined;
}

export type IncomingOptions = LayerOptions<HeadersLike>;
export type IncomingLayerOptions<Native = unknown> = LayerOptions<ServedRequest<Native>>;

/** Node, Deno, Bun and workerd have `getBuiltinModule`. Browsers serve no requests. */
interface Runtime {
  process?: {
    getBuiltinModule?(name: string): { AsyncLocalStorage: new () => ScopeStorage } | undefined;
  };
}

let storage: ScopeStorage | undefined;

function getStorage(): ScopeStorage | undefined {
  if (storage !== undefined) return storage;
  const hooks = (globalThis as Runtime).process?.getBuiltinModule?.("node:async_hooks");
  if (hooks === undefined) return undefined;
  storage = new hooks.AsyncLocalStorage();
  setScopeStorage(storage);
  return storage;
}

/** The time in which a request is being served. */
interface Scope {
  enter<T>(fn: () => T): T;
  end(): void;
}

/** Undefined where there is no async context. */
function openScope(caller: RetryLayer): Scope | undefined {
  const scopes = getStorage();
  if (scopes === undefined) return undefined;
  let layer: RetryLayer | undefined = caller;
  return {
    enter: (fn) => scopes.run(() => layer, fn),
    end() {
      layer = undefined;
    },
  };
}

type Complete<T> = { readonly [Name in keyof T]-?: NonNullable<T[Name]> };

function checked<Request>(options: LayerOptions<Request>): Complete<LayerOptions<Request>> {
  const { trust = "none", minRemainingMs = 0, clock = systemClock } = options;
  assertTrust(trust);
  assertRange("minRemainingMs", minRemainingMs, 0, 60_000);
  return { trust, minRemainingMs, clock };
}

/** What a request is answered with. A middleware has nothing. */
type Answer = NonNullable<unknown> | null;

/**
 * Runs `fn`, which serves a request with these headers, and returns its promise of the response. If the
 * caller of the request is trusted and retries, calls made inside make one attempt; they end by the
 * caller's deadline. The scope ends when the promise settles. Calls that started before the end keep layer
 * and deadline; calls that start later have neither. For the middlewares of frameworks, use
 * `incomingLayer`: a promise of nothing is an error, because that of `async () => next()` settles long
 * before the response.
 */
export function incoming<T extends Answer>(
  headers: HeadersLike,
  fn: () => PromiseLike<T>,
  options: IncomingOptions = {},
): Promise<T> {
  const { trust, minRemainingMs, clock } = checked(options);
  const known = isTrusted(trust, headers) ? headers : {};
  const scope = openScope(callerLayer(known, clock.now(), minRemainingMs));
  if (scope === undefined) return promiseOf(fn);
  try {
    return scope.enter(() => promiseOf(fn)).finally(scope.end);
  } catch (error) {
    scope.end();
    throw error;
  }
}

function promiseOf<T extends Answer>(fn: () => PromiseLike<T>): Promise<T> {
  const result: unknown = fn();
  if (typeof Object(result).then !== "function") throw notServed(result);
  return Promise.resolve(result as PromiseLike<T>).then((answer) => {
    if (answer === undefined) throw notServed(answer);
    return answer;
  });
}

function notServed(result: unknown): RedriveError {
  const text =
    "incoming needs a function that returns a promise of the response (in a middleware, use incomingLayer)";
  return invalidArgument(text, result);
}

/**
 * `incoming` as an interceptor: `forExpress(incomingLayer({ trust }))`, and so on. The scope lasts until
 * the response has ended. Put it behind all other interceptors.
 */
export function incomingLayer<Native = unknown>(
  options: IncomingLayerOptions<Native> = {},
): Interceptor<Native> {
  const { trust, minRemainingMs, clock } = checked(options);
  return {
    async begin(request) {
      const isKnown = isTrusted(trust, request);
      const headers = { get: (name: string) => (isKnown ? request.header(name) : undefined) };
      const scope = openScope(callerLayer(headers, clock.now(), minRemainingMs));
      return scope === undefined ? PASS_ON : runIn(scope);
    },
  };
}

function runIn({ enter, end }: Scope): HandlerRun {
  return {
    ...PASS_ON,
    awaitsBody: true,
    enter,
    sent: end,
    gone: end,
    async failed() {
      end();
      return undefined;
    },
  };
}

/** Runs `fn` outside of the request being served, for work that outlives it, such as a poller. */
export function outside<T>(fn: () => T): T {
  return storage === undefined ? fn() : storage.run(undefined, fn);
}
