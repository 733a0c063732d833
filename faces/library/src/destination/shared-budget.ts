/**
 * Shared budget: one retry budget for several destinations behind one bottleneck. Together they cannot
 * multiply the load on it.
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

/** Creates a budget. Pass it to several destinations as `sharedBudget`. */
export function sharedBudget(
  document: RetryBudgetDocument = {},
  clock: Clock = systemClock,
): RetryBudget {
  const { retryBudget } = resolveDestination({ retryBudget: document });
  // Only `false` turns a budget off, and `false` is not a document.
  return createRetryBudget(retryBudget as RetryBudgetOptions, clock.now());
}
