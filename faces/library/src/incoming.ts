/**
 * Incoming: marks the scope of a request being served, so that calls made for it know of the
 * retrying layer above and of its deadline. The scope ends with the request: work that outlives it
 * keeps neither. The only place that enters an async context, because on Node 20 and 22 one entered
 * context slows every await of the process.
 */
import { type Clock, systemClock } from "@redrive/core";
import { type HeadersLike, layerOf } from "./hop-headers.ts";
import { type Layer, setScope } from "./layer.ts";

/** A request being served: the layer above, or undefined once it has been served. */
type Scope = () => Layer | undefined;

interface Storage {
  run<T>(store: Scope | undefined, fn: () => T): T;
  getStore(): Scope | undefined;
}

/** Node, Deno, Bun and workerd have it; browsers have no requests to serve. */
interface Runtime {
  process?: {
    getBuiltinModule?(name: string): { AsyncLocalStorage: new () => Storage } | undefined;
  };
}

let storage: Storage | undefined;

function openStorage(): Storage | undefined {
  if (storage !== undefined) return storage;
  const hooks = (globalThis as Runtime).process?.getBuiltinModule?.("node:async_hooks");
  if (hooks !== undefined) storage = new hooks.AsyncLocalStorage();
  setScope(() => storage?.getStore()?.());
  return storage;
}

/**
 * Runs `fn` as the service of a request with these headers. If the request comes from a retrying
 * layer, calls made inside leave retrying to it, and end by its deadline. The scope ends when `fn`
 * returns or throws or, if it returns a `Promise`, when that settles. Calls that began before keep
 * layer and deadline; calls that begin later have neither.
 */
export function incoming<T>(headers: HeadersLike, fn: () => T, clock: Clock = systemClock): T {
  const opened = openStorage();
  if (opened === undefined) return fn();
  let layer: Layer | undefined = layerOf(headers, clock.now());
  const end = () => {
    layer = undefined;
  };
  let result: T | undefined;
  try {
    result = opened.run(() => layer, fn);
    // Other thenables may be lazy: calling `then` would run a query a second time.
    return result instanceof Promise ? (result.finally(end) as T) : result;
  } finally {
    if (!(result instanceof Promise)) end();
  }
}

/** Runs `fn` outside of the request being served: for work that outlives it, such as a poller. */
export function outside<T>(fn: () => T): T {
  return storage === undefined ? fn() : storage.run(undefined, fn);
}
