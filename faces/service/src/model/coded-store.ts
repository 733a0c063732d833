/**
 * Coded store: any store, as everything beside the engine uses it: what it refuses is an error with
 * a code, and whoever finds it broken tells the engine, which must not acknowledge anything then.
 */
import { RedriveError } from "@redrive/core";
import { serviceError } from "./errors.ts";
import type { Store } from "./store.ts";
import { StoreFullError } from "./store-errors.ts";

/** What a failure of the store is to whoever asked for something. */
export function storeFailure(error: unknown): RedriveError {
  if (error instanceof RedriveError) return error;
  const text = error instanceof Error ? error.message : String(error);
  return error instanceof StoreFullError
    ? serviceError("STORE_FULL", `nothing was stored: ${text}`, error)
    : serviceError("STORE_UNAVAILABLE", `it is not known what was stored: ${text}`, error);
}

/** `failed` is told every failure as it is. */
export function codedStore(inner: Store, failed: (error: unknown) => void): Store {
  const refuse = (error: unknown): never => {
    failed(error);
    throw storeFailure(error);
  };
  const { query, documents } = inner;
  return {
    ...coded(inner, refuse),
    query: coded(query, refuse),
    documents: coded(documents, refuse),
  };
}

type Ask = (...args: readonly unknown[]) => Promise<unknown>;

/** Everything that a store can be asked returns a promise. */
function coded<Part extends object>(part: Part, refuse: (error: unknown) => never): Part {
  const entries = Object.entries(part).map(([name, value]) => {
    if (typeof value !== "function") return [name, value];
    const ask: Ask = async (...args) => (value as Ask)(...args).catch(refuse);
    return [name, ask];
  });
  return Object.fromEntries(entries) as Part;
}
