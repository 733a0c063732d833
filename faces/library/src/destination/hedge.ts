/**
 * Hedge: sends a second copy of a slow call and takes the first response. It has no retries and no
 * shared guards. In production, configure `hedge` on a destination: its copies use the retry budget,
 * and their delay follows the measured latencies.
 */
import { type HedgeOptions as HedgeFields, mayRunTwice, RedriveError } from "@redrive/core";
import type { Operation, RetryOptions } from "../call/options.ts";
import { type DestinationInput, destination } from "./destination.ts";

export interface HedgeOptions<T = unknown> extends RetryOptions<T> {
  /** Wait before the copy is sent. 1 to 600,000 ms. */
  readonly after: number;
  /** Maximum number of copies. 1 to 10. Default: 1. */
  readonly max?: number | undefined;
  /** Where copies go, in rotation (`endpoint` of their context). Default: the same endpoint. */
  readonly endpoints?: HedgeFields["endpoints"] | undefined;
}

/**
 * Calls `fn`, and calls it again if it has not ended after `after` ms. The loser is aborted. Both copies
 * may take effect, so the options must say that this is right: a safe or idempotent `method`,
 * `idempotent: true`, or an `idempotencyKey`.
 */
export function hedge<T>(fn: Operation<T>, options: HedgeOptions<T>): Promise<T> {
  const { after, max, endpoints, clock, random, ...overrides } = options;
  if (!mayRunTwice(overrides)) {
    const text =
      "a hedged call may take effect twice: pass idempotent: true, an idempotencyKey, or a method such as GET";
    throw new RedriveError("INVALID_ARGUMENT", text);
  }
  const once = destination("hedge", {
    hedge: { after, max, endpoints },
    policy: { maxAttempts: 1 },
    retryBudget: false,
    clock,
    random,
  } as DestinationInput);
  return once.run(fn, overrides);
}
