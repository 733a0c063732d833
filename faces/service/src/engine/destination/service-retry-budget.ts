/**
 * Whole budget: the retry budget of all destinations of the service together, from its options. It
 * keeps many destinations that fail at once from turning the service into a source of nothing but
 * retries. Core's `RetryTokens` takes from it and from the destination's own, both or neither.
 */
import {
  type RetryBudget,
  type RetryBudgetDocument,
  type RetryBudgetOptions,
  resolveDestination,
} from "@redrive/core";
import { decodeBudget } from "./guard-codec.ts";

/**
 * Larger than a destination's by default, so that it limits retries when many destinations fail and
 * not when one does: a fifth of the first attempts, and 100 per second.
 */
const WHOLE_DEFAULTS = { ratio: 0.2, minPerSecond: 100 } as const;

/** Throws `INVALID_DESTINATION` with what is wrong; undefined: off. */
export function serviceBudgetOptions(
  document: RetryBudgetDocument | false = {},
): RetryBudgetOptions | undefined {
  const isRatio = document !== false && (document.kind ?? "RATIO") === "RATIO";
  const retryBudget = isRatio ? { ...WHOLE_DEFAULTS, ...document } : document;
  return resolveDestination({ retryBudget } as object, "service").retryBudget;
}

/** `text`: what an earlier process saved of it. Default: nothing. */
export function createServiceBudget(
  options: RetryBudgetOptions | undefined,
  now: number,
  text?: string,
): RetryBudget | undefined {
  return options && decodeBudget(options, text, now);
}
