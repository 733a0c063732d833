/**
 * Coded store: wraps a store for everything outside the engine. Failures become errors with a code.
 * Every failure is also reported to the engine, which stops acknowledging work if the store is
 * broken.
 */
import { messageOf, RedriveError } from "@redrive/core";
import { serviceError } from "../errors.ts";
import type { Store } from "../store.ts";
import { ReadAbortedError, StoreFullError, StoreRefusedError } from "../store-errors.ts";
import { withCalls } from "./with-calls.ts";

/** The coded error for a failure of the store. */
export function storeFailure(error: unknown): RedriveError {
  if (error instanceof RedriveError) return error;
  const text = messageOf(error);
  if (error instanceof StoreRefusedError) {
    return serviceError("STORE_REFUSED", `nothing was stored: ${text}`, error);
  }
  return error instanceof StoreFullError
    ? serviceError("STORE_FULL", `nothing was stored: ${text}`, error)
    : serviceError("STORE_UNAVAILABLE", `it is unknown what was stored: ${text}`, error);
}

/**
 * `failed` receives the original error of every failure. A coded error is a refusal, and an aborted
 * read is the caller's wish: the store works.
 */
export function codedStore(inner: Store, failed: (error: unknown) => void): Store {
  const refuse = (error: unknown): never => {
    if (error instanceof ReadAbortedError) throw error.cause;
    if (!(error instanceof RedriveError)) failed(error);
    throw storeFailure(error);
  };
  return withCalls(inner, (call) => call().catch(refuse));
}
