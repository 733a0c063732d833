/**
 * Fallback chain: which fallbacks answer for a call that was given up, one after the other.
 */
import { isRepeatable, type StopReason } from "@redrive/core";
import type { Call } from "./call.ts";
import { requestOf } from "./call-state.ts";
import type { Fallback, FallbackContext, HandOver } from "./options.ts";

/** Ends at which a substitute is better than an error; the others are the caller's mistakes. */
export const FALLBACK_REASONS: readonly StopReason[] = [
  "attempts",
  "budget",
  "held",
  "retry-budget",
  "circuit-open",
  "overload",
  "retry-after",
];

/** A fallback declines by rethrowing the error; the next one is then tried. */
export async function firstAnswer<T>(
  fallbacks: readonly Fallback<T>[],
  error: unknown,
  context: FallbackContext,
): Promise<T> {
  for (const fallback of fallbacks) {
    try {
      return await fallback(error, context);
    } catch (thrown) {
      if (thrown !== error) throw thrown;
    }
  }
  throw error;
}

/** Only calls that no outer layer retries are handed off. */
export function handOverOf<T>(call: Call<T>): HandOver | undefined {
  const { request, idempotencyKey, method } = call.options;
  if (request === undefined || call.outer?.retries) return undefined;
  const asked = { ...requestOf(call), method: method ?? request.method ?? "POST" };
  return isRepeatable(asked) ? { request, idempotencyKey } : undefined;
}
