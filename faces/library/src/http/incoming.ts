/**
 * Incoming: marks the scope of a request being served, so that calls made for it know whether its
 * caller retries, and its deadline. The scope ends with the request; later work has neither. Only this
 * file enters an async context, because on Node 20 and 22 an entered context slows every await of the
 * process.
 */
import { type Clock, systemClock } from "@redrive/core";
import { type RetryLayer, setScopeLookup } from "../call/retry-layer.ts";
import { callerLayer, type HeadersLike } from "./hop-headers.ts";

/** Returns the layer of the caller, or undefined once the request has been served. */
type Scope = () => RetryLayer | undefined;

interface Storage {
  run<T>(store: Scope | undefined, fn: () => T): T;
  getStore(): Scope | undefined;
}

/** Node, Deno, Bun and workerd have `getBuiltinModule`. Browsers serve no requests. */
interface Runtime {
  process?: {
    getBuiltinModule?(name: string): { AsyncLocalStorage: new () => Storage } | undefined;
  };
}

let storage: Storage | undefined;

function getStorage(): Storage | undefined {
  if (storage !== undefined) return storage;
  const hooks = (globalThis as Runtime).process?.getBuiltinModule?.("node:async_hooks");
  if (hooks !== undefined) storage = new hooks.AsyncLocalStorage();
  setScopeLookup(() => storage?.getStore()?.());
  return storage;
}

/**
 * Runs `fn`, which serves a request with these headers. If the caller of the request retries, calls
 * made inside make one attempt and end by the caller's deadline. The scope ends when `fn` returns or
 * throws or, if it returns a `Promise`, when that settles. Calls that started before the end keep
 * layer and deadline; calls that start later have neither.
 */
export function incoming<T>(headers: HeadersLike, fn: () => T, clock: Clock = systemClock): T {
  const scopes = getStorage();
  if (scopes === undefined) return fn();
  let layer: RetryLayer | undefined = callerLayer(headers, clock.now());
  const end = () => {
    layer = undefined;
  };
  let result: T | undefined;
  try {
    result = scopes.run(() => layer, fn);
    // Other thenables may be lazy: calling `then` would run a query a second time.
    return result instanceof Promise ? (result.finally(end) as T) : result;
  } finally {
    if (!(result instanceof Promise)) end();
  }
}

/** Runs `fn` outside of the request being served, for work that outlives it, such as a poller. */
export function outside<T>(fn: () => T): T {
  return storage === undefined ? fn() : storage.run(undefined, fn);
}
