/**
 * Last success fallback: a fallback that returns the last successful value while it is fresh enough.
 */
import { assertRange } from "@redrive/core";
import type { Fallback, FallbackContext } from "../call/options.ts";
import { setBounded } from "./keyed-guards.ts";

export interface LastGoodOptions {
  /** Older values are not used. 1 ms to 365 days. No default: only the caller knows. */
  readonly maxAgeMs: number;
}

/** Keeps the last value per destination and key. Without a fresh value the call rejects. */
export function lastGood<T = never>(options: LastGoodOptions): Fallback<T> {
  assertRange("maxAgeMs", options.maxAgeMs, 1, 365 * 86_400_000);
  const values = new Map<string, { readonly value: T; readonly at: number }>();
  const nameOf = ({ destination, key = "" }: FallbackContext) => `${destination}\n${key}`;

  function remember(value: T, context: FallbackContext): void {
    setBounded(values, nameOf(context), { value: copyOf(value), at: context.at });
  }

  function recall(error: unknown, context: FallbackContext): T {
    const last = values.get(nameOf(context));
    if (last === undefined || context.at - last.at > options.maxAgeMs) throw error;
    return copyOf(last.value);
  }

  return Object.assign(recall, { remember });
}

/** The body of a response can be read only once, and the caller reads it. */
function copyOf<T>(value: T): T {
  return value instanceof Response ? (value.clone() as T) : value;
}
