/**
 * Strategies: variants of one curve for comparison. Some names, such as `none` and `full`, change
 * its jitter; `linear` and `fixed` change its growth; `immediate` does not wait at all.
 */
import {
  type BackoffKind,
  type JitterType,
  type PolicyDocument,
  RedriveError,
} from "@redrive/core";

const JITTERS: Readonly<Record<string, JitterType>> = {
  none: "NONE",
  full: "FULL",
  equal: "EQUAL",
  decorrelated: "DECORRELATED",
};

const BACKOFFS: Readonly<Record<string, BackoffKind>> = { linear: "LINEAR", fixed: "FIXED" };

/** Three retries without a wait, as in a simple loop. */
const IMMEDIATE: PolicyDocument = {
  maxAttempts: 4,
  backoff: "FIXED",
  initialDelayMs: 0,
  jitterType: "NONE",
};

export const strategyNames: readonly string[] = [
  ...Object.keys(JITTERS),
  ...Object.keys(BACKOFFS),
  "immediate",
];

/** More charts than this are hard to compare. */
export const MAX_STRATEGIES = 6;

/** Throws if the number of strategies is out of range; `where` names the option. */
export function assertStrategyCount(where: string, count: number): void {
  if (count >= 1 && count <= MAX_STRATEGIES) return;
  const text = `${where} must name 1 to ${MAX_STRATEGIES} strategies, got ${count}`;
  throw new RedriveError("INVALID_ARGUMENT", text);
}

/** The curve as the named strategy changes it; undefined for an unknown name. */
export function strategyDocument(name: string, curve: PolicyDocument): PolicyDocument | undefined {
  if (name === "immediate") return IMMEDIATE;
  const jitterType = Object.hasOwn(JITTERS, name) ? JITTERS[name] : undefined;
  if (jitterType !== undefined) return { ...curve, jitterType };
  const backoff = Object.hasOwn(BACKOFFS, name) ? BACKOFFS[name] : undefined;
  return backoff && { ...curve, backoff, jitterType: "NONE" };
}
