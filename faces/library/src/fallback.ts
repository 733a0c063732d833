/**
 * Fallback: answers for a call that was given up. `lastGood` gives the last success again while it
 * is fresh enough; a plain function is a fallback too.
 */
import { assertRange } from "@redrive/core";
import { put } from "./bounded.ts";
import type { Fallback, FallbackContext } from "./options.ts";

export interface LastGoodOptions {
  /** An older success is no answer. 1 ms to 365 days. No default: only the caller knows. */
  readonly maxAgeMs: number;
}

/** Remembers the last success per destination and key; without a fresh one the error stands. */
export function lastGood<T = never>(options: LastGoodOptions): Fallback<T> {
  assertRange("maxAgeMs", options.maxAgeMs, 1, 365 * 86_400_000);
  const values = new Map<string, { readonly value: T; readonly at: number }>();
  const nameOf = ({ destination, key = "" }: FallbackContext) => `${destination}\n${key}`;

  function remember(value: T, context: FallbackContext): void {
    put(values, nameOf(context), { value: copyOf(value), at: context.at });
  }

  function recall(error: unknown, context: FallbackContext): T {
    const last = values.get(nameOf(context));
    if (last === undefined || context.at - last.at > options.maxAgeMs) throw error;
    return copyOf(last.value);
  }

  return Object.assign(recall, { remember });
}

/** An answer of fetch can be read once: by its caller, so that another one is kept for later. */
function copyOf<T>(value: T): T {
  return value instanceof Response ? (value.clone() as T) : value;
}
