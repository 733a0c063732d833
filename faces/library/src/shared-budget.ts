/**
 * Shared budget: one retry budget for several destinations behind one bottleneck, so that together
 * they cannot multiply the load on it.
 */
import {
  type Clock,
  createRetryBudget,
  type RetryBudget,
  type RetryBudgetDocument,
  type RetryBudgetOptions,
  resolveDestination,
  systemClock,
} from "@redrive/core";

/** Makes a budget to hand to several destinations as `sharedBudget`. */
export function sharedBudget(
  document: RetryBudgetDocument = {},
  clock: Clock = systemClock,
): RetryBudget {
  const { retryBudget } = resolveDestination({ retryBudget: document });
  // Only `false` turns a budget off, and that is not a document.
  return createRetryBudget(retryBudget as RetryBudgetOptions, clock.now());
}
