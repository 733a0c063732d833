/**
 * Incoming: marks the scope of a request being served, so that calls made for it know of the
 * retrying layer above and of its deadline. The only place that enters an async context, because on
 * Node 20 and 22 one entered context slows every await of the process.
 */
import { type Clock, systemClock } from "@redrive/core";
import { type HeadersLike, layerOf } from "./hop-headers.ts";
import { type Layer, setScope } from "./layer.ts";

interface Storage {
  run<T>(store: Layer | undefined, fn: () => T): T;
  getStore(): Layer | undefined;
}

/** Node, Deno, Bun and workerd have it; browsers have no requests to serve. */
declare const process:
  | { getBuiltinModule?(name: string): { AsyncLocalStorage: new () => Storage } | undefined }
  | undefined;

let storage: Storage | undefined;

function openStorage(): Storage | undefined {
  if (storage !== undefined || typeof process === "undefined") return storage;
  const hooks = process.getBuiltinModule?.("node:async_hooks");
  if (hooks === undefined) return undefined;
  const opened = new hooks.AsyncLocalStorage();
  storage = opened;
  setScope(() => opened.getStore());
  return storage;
}

/**
 * Runs `fn`, and all it awaits, as the service of a request with these headers. If the request comes
 * from a retrying layer, calls made inside leave retrying to it, and end by its deadline.
 */
export function incoming<T>(headers: HeadersLike, fn: () => T, clock: Clock = systemClock): T {
  const layer = layerOf(headers, clock.now());
  const scope = openStorage();
  return scope === undefined ? fn() : scope.run(layer, fn);
}

/** Runs `fn` as the service of no request: what it calls outlives the one being served. */
export function outside<T>(fn: () => T): T {
  return storage === undefined ? fn() : storage.run(undefined, fn);
}
