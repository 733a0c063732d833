/**
 * Service retry budget: one retry budget for all destinations of the service together. When many
 * destinations fail at once, it prevents the service from sending mostly retries. Core's
 * `SharedBudget` divides it among the tenants, and `RetryTokens` takes from this budget and the
 * destination's own budget, both or neither.
 */
import {
  type RetryBudgetDocument,
  type RetryBudgetOptions,
  resolveDestination,
  SharedBudget,
} from "@redrive/core";
import { decodeBudget } from "./guard-codec.ts";

/**
 * By default larger than a destination's budget: a fifth of the first attempts, and 100 per second.
 * It then limits retries when many destinations fail, and not when one does.
 */
const SERVICE_DEFAULTS = { ratio: 0.2, minPerSecond: 100 } as const;

/** Throws `INVALID_DESTINATION` for an invalid document. Undefined: off. */
export function serviceBudgetOptions(
  document: RetryBudgetDocument | false = {},
): RetryBudgetOptions | undefined {
  const isRatio = document !== false && (document.kind ?? "RATIO") === "RATIO";
  const retryBudget = isRatio ? { ...SERVICE_DEFAULTS, ...document } : document;
  return resolveDestination({ retryBudget } as object, "service").retryBudget;
}

/** `text`: the state that an earlier process saved. Default: none. */
export function createServiceBudget(
  options: RetryBudgetOptions | undefined,
  now: number,
  text?: string,
): SharedBudget | undefined {
  return options && new SharedBudget(decodeBudget(options, text, now));
}
