/**
 * Hedge: sends a second copy of a slow call and takes the first answer, without anything else: no
 * retries, no shared guards. For the real thing give a destination a `hedge` part, whose copies draw
 * on its budget and learn their moment from its latencies.
 */
import type { HedgeOptions as HedgeFields } from "@redrive/core";
import { type DestinationInput, destination } from "./destination.ts";
import type { Attempted, RetryOptions } from "./options.ts";

export interface HedgeOptions<T = unknown> extends RetryOptions<T> {
  /** Wait before the copy leaves. 1 to 600 000 ms. */
  readonly after: number;
  /** Copies beside the first. 1 to 10. Default: 1. */
  readonly max?: number;
  /** Where copies go, in turn (`endpoint` of their context). Default: the same place. */
  readonly endpoints?: HedgeFields["endpoints"];
}

/** Calls `fn`, and again after `after` ms if it has not answered; the loser is aborted. */
export function hedge<T>(fn: Attempted<T>, options: HedgeOptions<T>): Promise<T> {
  const { after, max = 1, endpoints = [], clock, random, ...overrides } = options;
  const once = destination("hedge", {
    hedge: { after, max, endpoints },
    policy: { maxAttempts: 1 },
    retryBudget: false,
    clock,
    random,
  } as DestinationInput);
  return once.run(fn, overrides);
}
